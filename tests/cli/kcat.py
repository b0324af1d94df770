"""kcat, Debian's package of it: the command whose habits ours follows."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run it and return what it prints; skips the test where it is not installed."""
    program = shutil.which("kcat")
    if program is None:
        pytest.skip("kcat is not installed")
    done = subprocess.run([program, *arguments], input=stdin, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
