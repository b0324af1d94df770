"""`import kohort` costs nothing until something of it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kohort


def test_the_client_is_loaded_when_it_is_used() -> None:
    script = "import kohort, sys; print('asyncio' in sys.modules); kohort.Consumer; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_every_public_name_is_there() -> None:
    for name in kohort.__all__:
        assert getattr(kohort, name).__name__ == name
    assert dir(kohort) == kohort.__all__
    with pytest.raises(AttributeError, match="no attribute 'Consumr'"):
        kohort.Consumr  # type: ignore[attr-defined]  # noqa: B018
