"""Names of APIs and errors in any common spelling: OffsetFetch, offset_fetch, OFFSET-FETCH, OffsetFetchRequest or 9."""

import difflib
from collections.abc import Mapping

from kohort.errors import ConfigError, ErrorCode
from kohort.wire.messages.api_key import ApiKey

_OTHER_ERRORS = {
    "CORRUPT_RECORD": ErrorCode.CORRUPT_MESSAGE,
    "GROUP_COORDINATOR_NOT_AVAILABLE": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "GROUP_LOAD_IN_PROGRESS": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "INVALID_TOPIC": ErrorCode.INVALID_TOPIC_EXCEPTION,
    "NOT_COORDINATOR_FOR_GROUP": ErrorCode.NOT_COORDINATOR,
    "NOT_LEADER_FOR_PARTITION": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "RECORD_TOO_LARGE": ErrorCode.MESSAGE_TOO_LARGE,
    "TIMEOUT": ErrorCode.REQUEST_TIMED_OUT,
}
"""Names of older versions, and of Java's exceptions where these differ."""
_OTHER_APIS = {"ALTER_PARTITION_ASSIGNMENTS": ApiKey.ALTER_PARTITION_REASSIGNMENTS}  # the name in kcl


def api_key(given: str | int) -> ApiKey:
    """Return the API of that name or number. Raise ConfigError."""
    return ApiKey(_found("request", given, {key.name: key for key in ApiKey} | _OTHER_APIS, "request"))


def error_code(given: str | int) -> ErrorCode:
    """Return the error of that name or number. Raise ConfigError."""
    code = ErrorCode(_found("error", given, {code.name: code for code in ErrorCode} | _OTHER_ERRORS, "exception"))
    if code is ErrorCode.NONE:
        raise ConfigError("NONE is not an error: choose an error code, such as UNKNOWN_SERVER_ERROR.")
    return code


def _found(what: str, given: str | int, named: Mapping[str, int], suffix: str) -> int:
    if isinstance(given, int) or given.lstrip("-").isdecimal():
        if int(given) in named.values():
            return int(given)
        raise ConfigError(f"Unknown {what} {given}: Kohort has no {what} of that number.")
    by_plain = {_plain(name): name for name in named}
    plain = _plain(given)
    name = by_plain.get(plain) or by_plain.get(plain.removesuffix(suffix))
    if name is not None:
        return named[name]
    near = difflib.get_close_matches(plain.removesuffix(suffix), by_plain, n=1)
    shown = by_plain[near[0]] if near else ""
    hint = f"; did you mean {spelled(shown) if what == 'request' else shown}?" if near else "."
    raise ConfigError(f"Unknown {what} {given!r}{hint}")


def _plain(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


def api_name(key: int) -> str:
    """Return the name of an API, or its number if Kohort does not know it."""
    return spelled(ApiKey(key).name) if key in set(ApiKey) else str(key)


def spelled(name: str) -> str:
    """Return the name of an API as Kafka's protocol guide spells it, such as OffsetFetch."""
    return "".join(part.capitalize() for part in name.split("_"))
