"""Clients by the names that they give themselves."""

import pytest

from kohort.coordinator import ClientKind


@pytest.mark.parametrize(
    ("software", "version", "kind"),
    [
        ("apache-kafka-java", "4.3.1", ClientKind.JAVA),
        ("kohort", "0.1", ClientKind.KOHORT),
        ("librdkafka", "2.16.0", ClientKind.LIBRDKAFKA),
        ("confluent-kafka-python", "2.16.0", ClientKind.LIBRDKAFKA),
        ("karafka", "2.5.0-librdkafka-2.11.0", ClientKind.LIBRDKAFKA),
        ("aiokafka", "0.14.0", ClientKind.OTHER),
        ("", "", ClientKind.OTHER),
    ],
)
def test_a_client_is_known_by_its_name_and_version(software: str, version: str, kind: ClientKind) -> None:
    assert ClientKind.of(software, version) is kind


def test_only_a_client_that_was_seen_to_sleep_is_taken_to_sleep() -> None:
    assert {kind for kind in ClientKind if kind.sleeps} == {ClientKind.KOHORT}
