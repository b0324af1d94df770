"""A secret shows itself only to those who ask for it by name."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, dataclass

import pytest

from kohort.security import Secret

PASSWORD = "pencil-4711"


@dataclass(frozen=True)
class Holder:
    name: str
    password: Secret


@pytest.mark.parametrize(
    "shown",
    [
        str(Secret(PASSWORD)),
        repr(Secret(PASSWORD)),
        f"{Secret(PASSWORD)} {Secret(PASSWORD)!r} {Secret(PASSWORD):>40}",
        "%s %r" % (Secret(PASSWORD), Secret(PASSWORD)),  # noqa: UP031
        repr([Secret(PASSWORD)]),
        repr(Holder("a", Secret(PASSWORD))),
        str(asdict(Holder("a", Secret(PASSWORD)))),
        repr(copy.deepcopy(Holder("a", Secret(PASSWORD)))),
    ],
)
def test_no_text_of_a_secret_reveals_it(shown: str) -> None:
    assert PASSWORD not in shown
    assert "[hidden]" in shown


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="would reveal it"):
        pickle.dumps(Holder("a", Secret(PASSWORD)), protocol)


def test_a_secret_is_not_written_as_json() -> None:
    with pytest.raises(TypeError):
        json.dumps({"password": Secret(PASSWORD)})


def test_reveal_returns_text_or_bytes() -> None:
    assert Secret("größe").reveal() == "größe"
    assert Secret("größe").reveal_bytes() == "größe".encode()
    assert Secret(b"\x00\xff").reveal_bytes() == b"\x00\xff"


def test_secrets_compare_with_secrets_only() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") and not Secret("")


def test_a_secret_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Secret("a")._value = b"b"
