"""Clients by the names that they give themselves."""

import pytest

from kohort.coordinator import ClientKind


@pytest.mark.parametrize(
    ("software", "kind"),
    [
        ("apache-kafka-java", ClientKind.JAVA),
        ("kohort", ClientKind.KOHORT),
        ("confluent-kafka-python", ClientKind.OTHER),
        ("", ClientKind.OTHER),
    ],
)
def test_a_client_is_known_by_its_name(software: str, kind: ClientKind) -> None:
    assert ClientKind.of(software) is kind


def test_only_a_client_that_was_seen_to_sleep_is_taken_to_sleep() -> None:
    assert {kind for kind in ClientKind if kind.sleeps} == {ClientKind.KOHORT}
