"""Options of the sink, and the errors for invalid ones."""

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from kohort.errors import ConfigError
from kohort.wire.batches import Codec
from pyspark_kohort import DefaultSource
from pyspark_kohort.sink.options import parse_sink_options

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
VALUE = StructType([StructField("value", StringType())])


def test_defaults_are_those_of_kafkas_producer() -> None:
    options = parse_sink_options(BROKER)
    assert (options.acks, options.codec, options.idempotent) == (-1, Codec.NONE, True)
    assert (options.request_bytes, options.memory, options.delivery_timeout_ms) == (1 << 20, 32 << 20, 120_000)


def test_a_transaction_may_take_as_long_as_brokers_allow_by_default() -> None:
    assert parse_sink_options(BROKER).transactional_id is None
    options = parse_sink_options(BROKER | {"kafka.transactional.id": "sums"})
    assert (options.transactional_id, options.transaction_timeout_ms) == ("sums", 900_000)


def test_idempotence_is_off_with_fewer_acks_than_all() -> None:
    assert not parse_sink_options(BROKER | {"kafka.acks": "1"}).idempotent


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"kafka.acks": "0"},
            "kafka.acks must be all or 1, not '0': without acknowledgements lost records cannot be detected.",
        ),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "kafka.enable.idempotence needs kafka.acks=all."),
        ({"kafka.compression.type": "rar"}, "kafka.compression.type must be one of none, gzip, snappy, lz4, zstd"),
        (
            {"kafka.transactional.id": " "},
            "kafka.transactional.id is empty: leave it out for a sink without transactions.",
        ),
        (
            {"kafka.transactional.id": "x", "kafka.acks": "1"},
            "kafka.transactional.id needs kafka.acks=all and kafka.enable.idempotence.",
        ),
        (
            {"kafka.transaction.timeout.ms": "60000"},
            "kafka.transaction.timeout.ms needs kafka.transactional.id, the name of the sink.",
        ),
        ({"topics": "x"}, "Option topics is unknown to format kohort. Did you mean topic?"),
        ({"startingOffsets": "earliest"}, "Option startingOffsets is unknown to format kohort."),
    ],
)
def test_a_wrong_option_is_answered_by_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_sink_options(BROKER | given)
    assert str(refused.value).startswith(sentence)


def source(**options: str) -> DefaultSource:
    return DefaultSource(BROKER | options)


def test_rows_need_a_value_and_a_topic() -> None:
    source(topic="flights").writer(VALUE, False)
    source(topic="flights").streamWriter(VALUE, True)
    with pytest.raises(ConfigError, match="There is no column value"):
        source(topic="flights").writer(StructType([StructField("key", StringType())]), False)
    with pytest.raises(ConfigError, match="No target topic: set the option topic or add a column topic"):
        source().writer(VALUE, False)
    with pytest.raises(ConfigError, match="Column value must be binary or string to be written, not int; cast it"):
        source(topic="flights").writer(StructType([StructField("value", IntegerType())]), False)
    with pytest.raises(ConfigError, match="Column colour cannot be written by format kohort"):
        source(topic="flights").writer(StructType([*VALUE.fields, StructField("colour", StringType())]), False)
    with pytest.raises(ConfigError, match="A topic cannot be overwritten"):
        source(topic="flights").writer(VALUE, True)
