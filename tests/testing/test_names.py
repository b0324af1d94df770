"""Names of APIs and errors in the spellings that people use."""

import pytest

from kohort.errors import ConfigError, ErrorCode
from kohort.testing.names import api_key, api_name, error_code
from kohort.wire.messages.api_key import ApiKey


@pytest.mark.parametrize(
    "given",
    ["OffsetFetch", "offset_fetch", "OFFSET-FETCH", "offsetfetch", "OffsetFetchRequest", "9", 9, ApiKey.OFFSET_FETCH],
)
def test_an_api_has_many_spellings(given: str | int) -> None:
    assert api_key(given) is ApiKey.OFFSET_FETCH


@pytest.mark.parametrize(
    "given", ["STALE_MEMBER_EPOCH", "StaleMemberEpoch", "StaleMemberEpochException", "stale member epoch", "113", 113]
)
def test_an_error_has_many_spellings(given: str | int) -> None:
    assert error_code(given) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("NOT_LEADER_FOR_PARTITION", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("TimeoutException", ErrorCode.REQUEST_TIMED_OUT),
        ("InvalidTopicException", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_an_error_is_known_by_its_names_elsewhere(given: str, code: ErrorCode) -> None:
    assert error_code(given) is code
    assert api_key("AlterPartitionAssignments") is ApiKey.ALTER_PARTITION_REASSIGNMENTS


def test_an_error_may_have_a_negative_number() -> None:
    assert error_code("-1") is error_code(-1) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("OfsetFetch", "Unknown request 'OfsetFetch'; did you mean OffsetFetch?"),
        ("zzz", "Unknown request 'zzz'."),
        (99, "Unknown request 99: Kohort has no request of that number."),
    ],
)
def test_an_unknown_api_is_refused_with_the_nearest_one(given: str | int, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        api_key(given)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("STALE_EPOCH", "Unknown error 'STALE_EPOCH'; did you mean STALE_MEMBER_EPOCH?"),
        ("NONE", "NONE is not an error: choose an error code, such as UNKNOWN_SERVER_ERROR."),
        (999, "Unknown error 999: Kohort has no error of that number."),
    ],
)
def test_an_unknown_error_is_refused_with_the_nearest_one(given: str | int, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        error_code(given)
    assert str(refused.value) == message


def test_every_api_is_found_by_its_own_name() -> None:
    for key in ApiKey:
        assert api_key(api_name(key)) is key
    assert api_name(4) == "4"  # LeaderAndIsr, which Kohort does not know
    for code in ErrorCode:
        if code:
            assert error_code(code.name) is code
