"""Records of groups in `__consumer_offsets`, and the bytes of members inside JoinGroup and SyncGroup."""

from __future__ import annotations

import struct
from functools import cache
from random import Random

from kohort.assignor.user_data import Claim, decode_claim, decode_generation, encode_claim, encode_generation
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError, Message, encode
from kohort.wire.group_log import group_bytes
from kohort.wire.group_log.decoding import decode_group_records
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.fuzz.messages import filled
from tests.fuzz.rules import Target

_SIZE = struct.Struct(">H")
_VERSION = struct.Struct(">h")


def run_group_record(data: bytes) -> object:
    """A key behind its size, then a value, as a shard loads them."""
    failed: list[DecodeError] = []
    found = [(record.key, record.value) for record in decode_group_records([_pair(data)], failed.append)]
    if failed:
        raise failed[0]
    return found


def group_record_agrees(data: bytes, value: object) -> None:
    """The way of the million and the plain one see the same."""
    key, stored = _pair(data)
    place = decode_key(key)
    # As text: a weight that is no number does not equal itself.
    assert repr(value) == repr([] if place is None else [(place, decode_value(place, stored))])


def _pair(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:2], "big")
    return data[2 : 2 + size], data[2 + size :]


def subscription_agrees(data: bytes, value: object) -> None:
    """A decoded subscription is the same after encoding it again."""
    assert isinstance(value, Subscription)
    again = decode_subscription(encode_subscription(value))
    assert sorted(again.topics) == sorted(value.topics)
    assert sorted(again.owned_partitions) == sorted(value.owned_partitions)


def assignment_agrees(data: bytes, value: object) -> None:
    """A decoded assignment is the same after encoding it again."""
    assert isinstance(value, Assignment)
    again = decode_assignment(encode_assignment(value))
    assert sorted(again.partitions) == sorted(value.partitions)
    assert again.user_data == value.user_data


def run_user_data(data: bytes) -> Claim:
    """Of the two sticky assignors: what is not one counts as none, so that nothing is declared."""
    decode_generation(data)
    return decode_claim(data)


@cache
def record_seeds() -> list[bytes]:
    """Of every type and version."""
    dice = Random(4)
    seeds = []
    for key_kind, value_kind in group_bytes._KINDS.values():
        for version in range(value_kind.VERSIONS[0], value_kind.VERSIONS[1] + 1):
            for key, value in ((key_kind(), value_kind()), _filled(key_kind, value_kind, version, dice)):
                key_bytes = encode_key(key)
                seeds.append(_SIZE.pack(len(key_bytes)) + key_bytes + _VERSION.pack(version) + encode(value, version))
    return seeds


def _filled(key: type[Message], value: type[Message], version: int, dice: Random) -> tuple[Message, Message]:
    return filled(key, 0, dice), filled(value, version, dice)


_OWNED = [TopicPartition("orders", 0), TopicPartition("orders", 7), TopicPartition("é", 2**31 - 1)]


@cache
def subscription_seeds() -> list[bytes]:
    """Of every version."""
    full = Subscription(["orders", "é"], b"data", _OWNED, 5, "rack")
    return [
        encode_subscription(subscription, version) for version in range(4) for subscription in (Subscription(), full)
    ]


@cache
def assignment_seeds() -> list[bytes]:
    """Of every version, and none at all."""
    full = Assignment(_OWNED, b"data")
    return [
        b"",
        *(encode_assignment(assignment, version) for version in range(4) for assignment in (Assignment(), full)),
    ]


@cache
def user_data_seeds() -> list[bytes]:
    """Of both assignors."""
    full = encode_claim(Claim(_OWNED, 4))
    return [encode_generation(3), full, full[:-4], encode_claim(Claim((), 0))]


TARGETS = (
    Target("group-record", run_group_record, (DecodeError,), record_seeds, group_record_agrees),
    Target("subscription", decode_subscription, (DecodeError,), subscription_seeds, subscription_agrees),
    Target("assignment", decode_assignment, (DecodeError,), assignment_seeds, assignment_agrees),
    # A claim that ends in the middle is as large as a whole one until then, and none in the end.
    Target("user-data", run_user_data, (), user_data_seeds, grant=lambda data: 64 * len(data)),
)
