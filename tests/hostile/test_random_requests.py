"""Requests that parse and make no sense: every API that is served, in every version, filled at random.

What the schema allows, a client may send. The broker answers it, or closes the connection; it never meets an error of
its own.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import TypeVar

import pytest

from kohort.broker.apis.routes import SERVED
from kohort.model import UUID
from kohort.wire.api import APIS, request_header
from kohort.wire.codec import EncodeError, Struct, encode
from kohort.wire.codec.schema import ArrayOf, Blob, Fixed, Nested, Text, UuidType, WireType
from tests.hostile.peer import Peer, frame
from tests.interop.kohort import KohortBroker, running_kohort

AnyStruct = TypeVar("AnyStruct", bound=Struct)

TEXTS = ("", "a", "topic", "g", "..", "a/b", "\0", "é", "x" * 300, "__consumer_offsets", "consumer", "range")
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 5, 100, 6_000, 2**15 - 1, 2**31 - 1)
REQUESTS = [(key, version) for key, low, high in SERVED for version in range(low, high + 1)]


def filled(kind: type[AnyStruct], dice: random.Random) -> AnyStruct:
    """A struct whose fields are at random what the schema allows, or left as they are."""
    made = kind()
    for field in kind.FIELDS:
        if isinstance(field.type, ArrayOf) or dice.random() < 0.7:
            setattr(made, field.name, value(field.type, dice))
    return made


def value(kind: WireType, dice: random.Random) -> object:
    match kind:
        case ArrayOf(element=element):
            return [value(element, dice) for _ in range(dice.randrange(3))]
        case Nested(kind=struct):
            return filled(struct, dice)
        case Text():
            return dice.choice((*TEXTS, None))
        case UuidType():
            return dice.choice((UUID(int=0), UUID(int=dice.getrandbits(128))))
        case Blob():
            return dice.choice((dice.randbytes(dice.randrange(90)), None))
        case Fixed(format=letter):
            return dice.random() < 0.5 if letter == "?" else dice.choice(NUMBERS)


def damaged(body: bytes, dice: random.Random) -> bytes:
    """The body as it is, or with a byte changed, or cut short."""
    match dice.randrange(10):
        case 0 | 1 if body:
            place = dice.randrange(len(body))
            return body[:place] + dice.randbytes(1) + body[place + 1 :]
        case 2:
            return body[: dice.randrange(len(body) + 1)]
        case _:
            return body


def body_of(key: int, version: int, dice: random.Random) -> bytes:
    for _ in range(5):
        with contextlib.suppress(EncodeError):  # the field or its value does not exist in this version: another throw
            return damaged(encode(filled(APIS[key].request, dice), version), dice)
    return dice.randbytes(dice.randrange(60))


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KohortBroker]:
    with running_kohort(group_initial_rebalance_delay_ms="0", group_min_session_timeout_ms="1") as broker:
        with Peer(broker.bootstrap) as peer:
            peer.create_topic("topic", 3)
        yield broker


@pytest.mark.parametrize("seed", range(3))
def test_no_request_is_an_error_of_the_broker(seed: int, own_broker: KohortBroker) -> None:
    dice = random.Random(seed)
    sent: list[str] = []
    with Peer(own_broker.bootstrap) as neighbour:
        for number in range(1_000):
            key, version = dice.choice(REQUESTS)
            data = request_header(key, version, number, "dice") + body_of(key, version, dice)
            with Peer(own_broker.bootstrap, timeout=0.05) as peer:
                peer.send(frame(data))
                # Answered, closed, or parked (a join waits for others): all of them are fine.
                with contextlib.suppress(AssertionError, OSError):
                    peer.answer()
            sent.append(f"{APIS[key].name} v{version} {data.hex()}")
            if number % 100 == 99:
                # Only the last hundred can be to blame.
                log = own_broker.process.stderr
                failed = [line for line in log if "request failed" in line or "Traceback" in line]
                assert not failed, "\n".join([*log, *sent[-100:]])
        neighbour.ping()
