"""Clients by the names that they give themselves."""

import pytest

from kohort.coordinator import ClientKind


@pytest.mark.parametrize(
    ("software", "kind"),
    [
        ("apache-kafka-java", ClientKind.JAVA),
        ("librdkafka", ClientKind.LIBRDKAFKA),
        ("confluent-kafka-python", ClientKind.LIBRDKAFKA),
        ("confluent-kafka-go", ClientKind.LIBRDKAFKA),
        ("kohort", ClientKind.KOHORT),
        ("kafka-python", ClientKind.UNKNOWN),
        ("", ClientKind.UNKNOWN),
    ],
)
def test_a_client_is_known_by_its_name(software: str, kind: ClientKind) -> None:
    assert ClientKind.of(software) is kind


def test_only_clients_that_were_seen_to_sleep_are_taken_to_sleep() -> None:
    assert {kind for kind in ClientKind if kind.sleeps} == {ClientKind.LIBRDKAFKA, ClientKind.KOHORT}
