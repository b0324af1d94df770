"""Every request and response in every version: our bytes are kio's, and each reads what the other wrote."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kohort.wire.codec import Message, decode, encode
from tests.wire.kio_oracle import as_kio, kio_bytes, kio_class, kio_reads
from tests.wire.messages import REQUESTS_AND_RESPONSES, as_kafka_has_it, fit, messages

few = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def versions(kind: type[Message]) -> range:
    low, high = kind.VERSIONS
    return range(low, high + 1)


@pytest.mark.parametrize("kind", REQUESTS_AND_RESPONSES, ids=lambda kind: kind.__name__)
def test_kio_and_we_write_and_read_the_same_bytes(kind: type[Message]) -> None:
    @few
    @given(messages(kind))
    def agree(message: Any) -> None:
        for version in versions(kind):
            ours = fit(message, version)
            data = encode(ours, version)
            assert decode(kind, version, data) == ours
            if (theirs := kio_class(kind, version)) is not None:
                kafkas = as_kafka_has_it(ours)
                data = encode(kafkas, version)
                other = as_kio(kafkas, theirs, version)
                assert kio_bytes(other) == data
                assert kio_reads(theirs, data) == other

    agree()


def test_kio_knows_every_version_that_we_declare() -> None:
    unknown = [
        (kind.__name__, version)
        for kind in REQUESTS_AND_RESPONSES
        for version in versions(kind)
        if kio_class(kind, version) is None
    ]
    assert unknown == []
