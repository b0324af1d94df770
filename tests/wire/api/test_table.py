"""The table of requests: what is declared, and that the two halves of each fit together."""

import pytest

from kohort.wire.api.table import APIS
from kohort.wire.messages.api_key import ApiKey

# Minimum that the broker advertises: api key, lowest and highest version, first flexible one.
PROMISED = {
    "Produce": (0, 3, 13, 9),
    "Fetch": (1, 4, 17, 12),
    "ListOffsets": (2, 1, 10, 6),
    "Metadata": (3, 0, 13, 9),
    "OffsetCommit": (8, 2, 10, 8),
    "OffsetFetch": (9, 1, 10, 6),
    "FindCoordinator": (10, 0, 6, 3),
    "JoinGroup": (11, 0, 9, 6),
    "Heartbeat": (12, 0, 4, 4),
    "LeaveGroup": (13, 0, 5, 4),
    "SyncGroup": (14, 0, 5, 4),
    "DescribeGroups": (15, 0, 6, 5),
    "ListGroups": (16, 0, 5, 3),
    "ApiVersions": (18, 0, 4, 3),
    "CreateTopics": (19, 2, 7, 5),
    "DeleteTopics": (20, 1, 6, 4),
    "InitProducerId": (22, 0, 5, 2),
}


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_version_is_declared(name: str) -> None:
    key, low, high, flexible = PROMISED[name]
    api = APIS[key]
    assert (api.name, api.min_version, api.first_flexible) == (name, low, flexible)
    assert api.max_version >= high


def test_keys_and_names_are_unique_and_messages_are_named_after_them() -> None:
    assert len({api.name for api in APIS.values()}) == len(APIS)
    for key, api in APIS.items():
        assert api.key == key == api.request.KEY == api.response.KEY
        assert (api.request.__name__, api.response.__name__) == (f"{api.name}Request", f"{api.name}Response")


def test_every_message_has_a_docstring() -> None:
    undocumented = [
        kind.__name__
        for api in APIS.values()
        for kind in (api.request, api.response)
        if not (kind.__doc__ or "").strip()
    ]
    assert undocumented == []


def test_each_request_has_a_named_key() -> None:
    assert {key.name.replace("_", "").lower(): key for key in ApiKey} == {
        api.name.lower(): key for key, api in APIS.items()
    }
