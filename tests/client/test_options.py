"""Options are Kafka's, in snake case; a wrong one is refused in a sentence."""

from __future__ import annotations

import pytest

from kohort import ConfigError
from kohort.client.options import ClientOptions, ConsumerOptions, ProducerOptions

HERE = {"bootstrap_servers": "127.0.0.1:9092"}


def test_defaults_are_kafkas() -> None:
    consumer = ConsumerOptions.read(HERE)
    assert (consumer.session_timeout_ms, consumer.heartbeat_interval_ms) == (45_000, 3_000)
    assert (consumer.auto_offset_reset, consumer.enable_auto_commit) == ("latest", True)
    producer = ProducerOptions.read(HERE)
    assert (producer.acks, producer.linger_ms, producer.batch_size) == ("all", 5, 16_384)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"auto_ofset_reset": "latest"}, "did you mean auto_offset_reset"),
        ({"auto.ofset.reset": "latest"}, "did you mean auto_offset_reset"),
        ({"auto_offset_reset": "first"}, "must be earliest, latest, none"),
        ({"auto_offset_reset": "by_duration:1h"}, "by_duration:PT1H"),
        ({"fetch_min_bytes": "many"}, "must be a whole number"),
        ({"fetch_min_bytes": -1}, "must be at least 0"),
        ({"session_timeout_ms": True}, "must be a whole number"),
        ({"enable_auto_commit": "maybe"}, "must be true or false"),
        ({"group_id": 7}, "must be text"),
        ({"client_id": None}, "leave it out"),
        ({"bootstrap_servers": "localhost"}, "not host:port"),
        ({"bootstrap_servers": ""}, "not host:port"),
        ({"bootstrap_servers": "localhost:99999"}, "not host:port"),
        ({"zzzzzzzzzzzz": 1}, "the options are"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ConsumerOptions.read({**HERE, **given})


def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ClientOptions.read({})


def test_text_is_read_as_what_the_option_is() -> None:
    options = ConsumerOptions.read({**HERE, "fetch_min_bytes": "12", "enable_auto_commit": "False"})
    assert (options.fetch_min_bytes, options.enable_auto_commit) == (12, False)


def test_addresses_come_as_text_or_as_a_list() -> None:
    assert ClientOptions.read({"bootstrap_servers": "a:1, [::1]:2"}).addresses() == [("a", 1), ("::1", 2)]
    assert ClientOptions.read({"bootstrap_servers": ["a:1", "b:2"]}).addresses() == [("a", 1), ("b", 2)]
