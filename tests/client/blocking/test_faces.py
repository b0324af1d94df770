"""The blocking face has what the asyncio one has, under the same names and with the same defaults."""

from __future__ import annotations

import inspect

import pytest

import kohort
from kohort import blocking

ASYNC_ONLY = {
    "Consumer": {
        "abandon",
        "close_after_callback",
        "next_unread",
        "note_asked",
        "poll_bytes",
        "put_back",
        "read_ahead",
        "unread",
    },
    "Producer": {"ready", "send_nowait", "send_all", "send_pairs", "send_values"},
    "Admin": set(),
}
BLOCKING_ONLY = {"Consumer": set(), "Producer": {"wait_for", "when_done"}, "Admin": set()}


def public(kind: type) -> dict[str, object]:
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(kind, name), staticmethod)
    }


@pytest.mark.parametrize("name", ["Consumer", "Producer", "Admin"])
def test_the_faces_offer_the_same(name: str) -> None:
    one, other = public(getattr(kohort, name)), public(getattr(blocking, name))
    assert set(one) - set(other) == ASYNC_ONLY[name]
    assert set(other) - set(one) == BLOCKING_ONLY[name]
    for common in set(one) & set(other):
        if isinstance(one[common], property):
            assert isinstance(other[common], property), common
            continue
        ours, theirs = (
            {p.name: (p.kind, p.default) for p in inspect.signature(face[common]).parameters.values()}  # type: ignore[arg-type]
            for face in (one, other)
        )
        assert ours == theirs, common
