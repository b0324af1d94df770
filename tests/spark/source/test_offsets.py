"""Offsets as text: of the checkpoint, and of the user."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import ConfigError, KohortError
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from pyspark_kohort.offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    Claim,
    Earliest,
    Exact,
    Latest,
    Offset,
    narrowed,
    offset_from_json,
    parse_bound,
    text_of_topic_id,
    topic_id_of_text,
    wanted,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
tps = st.builds(TopicPartition, st.text(min_size=1, max_size=4), st.integers(0, 12))


@given(st.dictionaries(tps, st.tuples(st.integers(0, 2**60), st.none() | st.integers(0, 2**60))), st.randoms())
def test_an_offset_survives_json_and_its_text_is_canonical(
    entries: dict[TopicPartition, tuple[int, int | None]], dice: object
) -> None:
    def offset(order: list[TopicPartition]) -> Offset:
        pins = {tp: pin for tp in order if (pin := entries[tp][1]) is not None}
        return Offset({tp: entries[tp][0] for tp in order}, pins)

    straight, reversed_ = offset(list(entries)), offset(list(entries)[::-1])
    text = json.dumps(straight.to_json())
    assert json.dumps(reversed_.to_json()) == text
    assert offset_from_json(json.loads(text)) == straight


def test_the_text_is_spark_sql_kafkas_with_pins() -> None:
    offset = Offset({A1: 5, A0: 17, B0: 3}, {A1: 4})
    assert json.dumps(offset.to_json()) == '{"a": {"0": 17, "1": 5, "1@": 4}, "b": {"0": 3}}'


def test_the_batch_identity_survives_json() -> None:
    named = Offset(
        {A0: 1, B0: 2}, {A0: 0}, "q", 7, "g", {"a": "id", "b": "other"}, {A0: Claim("r.x", 3), B0: Claim("s", 1)}
    )
    assert offset_from_json(json.loads(json.dumps(named.to_json()))) == named


@pytest.mark.parametrize("claims", [7, {"a": 7}, {"a": {"0": "r"}}, {"a": {"0": "r.x"}}, {"a": {"x": "r.1"}}])
def test_an_invalid_claim_is_rejected(claims: object) -> None:
    with pytest.raises(KohortError, match="not an offset of this source"):
        offset_from_json({"a": {"0": 1}, "@claims": claims})


def test_a_topic_id_is_printed_as_kafka_prints_it() -> None:
    known = UUID("8d5a1f3e-0b9c-4c57-9f41-0c6a1ce0a9d2")
    assert text_of_topic_id(known) == "jVofPgucTFefQQxqHOCp0g"
    assert topic_id_of_text("jVofPgucTFefQQxqHOCp0g") == known
    assert (text_of_topic_id(NO_TOPIC_ID), text_of_topic_id(None), topic_id_of_text(None)) == (None, None, None)


def test_a_checkpoint_of_spark_sql_kafka_is_read() -> None:
    assert offset_from_json({"a": {"1": 5, "0": 17}}) == Offset({A0: 17, A1: 5})


@pytest.mark.parametrize(
    "data", [7, {"a": 7}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"0": -1}}, {"a": {"0": True}}]
)
def test_another_sources_offset_is_refused(data: object) -> None:
    with pytest.raises(KohortError, match="not an offset of this source"):
        offset_from_json(data)


def test_bounds_determine_the_requests_to_the_broker() -> None:
    assert wanted(Earliest(), [A0]) == {A0: EARLIEST}
    assert wanted(Latest(), [A0, A1]) == {A0: LATEST, A1: LATEST}
    assert wanted(AtTime(5), [A0]) == {A0: 5}
    assert wanted(AtTime(None, {A0: 9}), [A0]) == {A0: 9}
    assert wanted(Exact({A0: 9, A1: LATEST}), [A0, A1]) == {A1: LATEST}


def test_exact_offsets_must_name_the_existing_partitions() -> None:
    with pytest.raises(ConfigError, match="miss a-1"):
        wanted(Exact({A0: 1}), [A0, A1])
    with pytest.raises(ConfigError, match="name b-0"):
        wanted(Exact({A0: 1, B0: 1}), [A0])


def test_a_member_asks_only_for_what_it_won() -> None:
    assert narrowed(Exact({A0: 1, A1: 2}), [A1]) == Exact({A1: 2})
    assert narrowed(AtTime(None, {A0: 1, A1: 2}, or_latest=True), [A0]) == AtTime(None, {A0: 1}, or_latest=True)
    assert narrowed(Latest(), [A0]) == Latest()
    assert wanted(narrowed(Exact({}), []), []) == {}


def test_a_users_bound_is_a_word_or_json() -> None:
    assert parse_bound("Earliest", "startingOffsets") == Earliest()
    assert parse_bound(" latest ", "startingOffsets") == Latest()
    assert parse_bound('{"a": {"0": 3, "1": -2}}', "startingOffsets") == Exact({A0: 3, A1: EARLIEST})
    for text in ("newest", "{", "[]", '{"a": [0]}', '{"a": {"0": -3}}', '{"a": {"0": 1.5}}'):
        with pytest.raises(ConfigError, match="startingOffsets must be like"):
            parse_bound(text, "startingOffsets")
