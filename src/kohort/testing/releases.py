"""What a broker of an older release of Apache Kafka announces, for a broker that pretends to be that release.

The table has, for each request that Kohort serves, the release that introduced it and the releases that raised its
highest version. It was read from the latest kafka-clients jar of each release: `ApiKeys.toApiVersion(false)`, which a
broker announces unless unstable.api.versions.enable is set, or `ApiKeys.latestVersion()` in releases that lack it.
`python -m tests.testing.announced` prints it again.
"""

import re
from collections.abc import Mapping

from kohort.broker.apis import SERVED
from kohort.broker.net import Served
from kohort.errors import ConfigError
from kohort.wire.messages.api_key import ApiKey

_TABLE = """
PRODUCE                         2.0:6 2.1:7 2.4:8 2.8:9 3.7:10 3.8:11 4.0:12 4.1:13
FETCH                           2.0:8 2.1:10 2.3:11 2.7:12 3.1:13 3.5:15 3.7:16 3.9:17 4.1:18
LIST_OFFSETS                    2.0:3 2.1:4 2.2:5 2.8:6 3.0:7 3.5:8 3.9:9 4.0:10 4.2:11
METADATA                        2.0:6 2.1:7 2.3:8 2.4:9 2.8:11 3.1:12 4.0:13
OFFSET_COMMIT                   2.0:4 2.1:6 2.3:7 2.4:8 3.7:9 4.2:10
OFFSET_FETCH                    2.0:4 2.1:5 2.4:6 2.5:7 3.0:8 3.7:9 4.2:10
FIND_COORDINATOR                2.0:2 2.4:3 3.0:4 3.8:5 3.9:6
JOIN_GROUP                      2.0:3 2.2:4 2.3:5 2.4:6 2.5:7 3.2:9
HEARTBEAT                       2.0:2 2.3:3 2.4:4
LEAVE_GROUP                     2.0:2 2.4:4 3.2:5
SYNC_GROUP                      2.0:2 2.3:3 2.4:4 2.5:5
DESCRIBE_GROUPS                 2.0:2 2.3:3 2.4:5 4.0:6
LIST_GROUPS                     2.0:2 2.4:3 2.6:4 3.8:5
SASL_HANDSHAKE                  2.0:1
API_VERSIONS                    2.0:2 2.4:3 3.9:4
CREATE_TOPICS                   2.0:3 2.4:5 2.7:6 2.8:7
DELETE_TOPICS                   2.0:2 2.1:3 2.4:4 2.7:5 2.8:6
DELETE_RECORDS                  2.0:1 2.6:2
INIT_PRODUCER_ID                2.0:1 2.4:2 2.5:3 2.7:4 3.8:5
OFFSET_FOR_LEADER_EPOCH         2.0:1 2.1:2 2.3:3 2.8:4
ADD_PARTITIONS_TO_TXN           2.0:1 2.7:2 2.8:3 3.6:4 3.8:5
ADD_OFFSETS_TO_TXN              2.0:1 2.7:2 2.8:3 3.8:4
END_TXN                         2.0:1 2.7:2 2.8:3 3.8:4 4.0:5
WRITE_TXN_MARKERS               2.0:0 2.8:1 4.2:2
TXN_OFFSET_COMMIT               2.0:1 2.1:2 2.5:3 3.8:4 4.0:5
DESCRIBE_ACLS                   2.0:1 2.5:2 3.3:3
CREATE_ACLS                     2.0:1 2.5:2 3.3:3
DELETE_ACLS                     2.0:1 2.5:2 3.3:3
DESCRIBE_CONFIGS                2.0:2 2.6:3 2.8:4
ALTER_CONFIGS                   2.0:1 2.8:2
DESCRIBE_LOG_DIRS               2.0:1 2.6:2 3.2:3 3.3:4 4.3:5
SASL_AUTHENTICATE               2.0:0 2.2:1 2.5:2
CREATE_PARTITIONS               2.0:1 2.5:2 2.7:3
DELETE_GROUPS                   2.0:1 2.4:2
ELECT_LEADERS                   2.2:0 2.4:2
INCREMENTAL_ALTER_CONFIGS       2.3:0 2.4:1
ALTER_PARTITION_REASSIGNMENTS   2.4:0 4.1:1
LIST_PARTITION_REASSIGNMENTS    2.4:0
OFFSET_DELETE                   2.4:0
DESCRIBE_CLIENT_QUOTAS          2.6:0 2.8:1
ALTER_CLIENT_QUOTAS             2.6:0 2.8:1
DESCRIBE_USER_SCRAM_CREDENTIALS 2.7:0
ALTER_USER_SCRAM_CREDENTIALS    2.7:0
UPDATE_FEATURES                 2.7:0 3.3:1 4.0:2
DESCRIBE_CLUSTER                2.8:0 3.7:1 4.0:2
DESCRIBE_PRODUCERS              2.8:0
DESCRIBE_TRANSACTIONS           3.0:0
LIST_TRANSACTIONS               3.0:0 3.8:1 4.1:2
CONSUMER_GROUP_HEARTBEAT        3.7:0 4.0:1
CONSUMER_GROUP_DESCRIBE         3.8:0 4.0:1
GET_TELEMETRY_SUBSCRIPTIONS     3.7:0
PUSH_TELEMETRY                  3.7:0
LIST_CONFIG_RESOURCES           3.7:0 4.1:1
DESCRIBE_TOPIC_PARTITIONS       3.8:0
"""

_NAMES = (
    *("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_FIRST_WITH_CONSUMER_GROUPS = (4, 0)
"""Release in which the protocol of KIP-848 is on by default. Since 3.7, a setting turns it on."""


def _read_table() -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {release: {} for release in _NAMES}
    for row in _TABLE.strip().splitlines():
        name, *changes = row.split()
        changed_to = dict(change.split(":") for change in changes)
        highest = None
        for release in _NAMES:
            highest = changed_to.get(release, highest)
            if highest is not None:
                found[release][ApiKey[name]] = int(highest)
    return found


RELEASES = _read_table()
"""By release, the highest version of each API key."""


def read_release(text: str) -> str:
    """Return the release of a version such as 3.9, v3.9 or 3.9.1. Raise ConfigError if it is unknown."""
    release = re.fullmatch(r"v?(\d+\.\d+)(?:\.\d+)?", text.strip())
    if release is None or release[1] not in RELEASES:
        first, *_, last = RELEASES
        raise ConfigError(f"--as-version takes a release of Apache Kafka from {first} to {last}, not {text!r}.")
    return release[1]


def served_by(release: str) -> Served:
    """Return what a broker of the release serves of what Kohort serves."""
    highest = RELEASES[release]
    capped = [(key, low, min(high, highest.get(key, -1))) for key, low, high in SERVED]
    return [(key, low, high) for key, low, high in capped if low <= high]


def settings_of(release: str) -> Mapping[str, str]:
    """Return the defaults in which the release differs from this broker's."""
    if tuple(map(int, release.split("."))) < _FIRST_WITH_CONSUMER_GROUPS:
        return {_PROTOCOLS: "classic"}
    return {}
