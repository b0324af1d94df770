"""Where Kohort answers otherwise than Apache Kafka on purpose, and why. docs/interop.md tells the same to users."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.interop.conversation.play import Difference

_ANY = object()


@dataclass(frozen=True, slots=True)
class Expected:
    """Differences of one kind: scene, exchange and field may have `*` and `?`; what is said may be given too."""

    why: str
    scene: str = "*"
    exchange: str = "*"
    field: str = "*"
    kafka: object = _ANY
    kohort: object = _ANY
    kohort_within: range | None = None
    """Bounds of Kohort's number, where it depends on the moment."""

    def is_about(self, scene: str) -> bool:
        """Whether it may occur in that scene."""
        return fnmatchcase(scene, self.scene)

    def covers(self, found: Difference) -> bool:
        """Whether it is this one."""
        return (
            self.is_about(found.scene)
            and fnmatchcase(found.exchange, self.exchange)
            and fnmatchcase(found.field, self.field)
            and self.kafka in (_ANY, found.kafka)
            and self.kohort in (_ANY, found.kohort)
            and (self.kohort_within is None or found.kohort in self.kohort_within)
        )


# Groups

_UNREADABLE = """\
A subscription that cannot be read is refused (INCONSISTENT_GROUP_PROTOCOL): whoever leads would fail on it. Kafka takes
it, and for some bytes never answers the join (KAFKA-20570)."""
_NO_GHOSTS = "A join that is refused leaves nothing behind; Kafka keeps an empty group until it cleans up."
_PIPELINED = "Requests of one connection are answered in order, but a later one need not wait for one that is parked."
_SUPERSEDED = """\
A join or sync that the same member repeats elsewhere is answered with REBALANCE_IN_PROGRESS when the new one comes;
Kafka never answers it."""

_GROUPS = (
    Expected(_UNREADABLE, "malformed-subscriptions", "unreadable, *"),
    Expected(
        "A static member that returns takes its own place in a full group; Kafka turns it away (KAFKA-20601).",
        "a-static-member-of-a-full-group",
        "b restarts",
    ),
    Expected(
        _PIPELINED,
        "requests-behind-one-that-waits",
        "[!a]*",
    ),
    Expected(_PIPELINED, "requests-behind-one-that-waits", "a rejoins"),
    Expected(_NO_GHOSTS, "bad-joins", "no protocols and an unknown member", "error_code"),
    Expected(_NO_GHOSTS, "refused-joins-leave-no-group", "* after a refused join"),
    Expected(_SUPERSEDED, "the-same-request-twice", "b's first *"),
    Expected(
        "A dynamic member's id with an instance id is unknown; Kafka fails with an internal error.",
        "an-id-of-another-kind",
        "a dynamic id used with an instance id",
    ),
    Expected(
        "The order in which a member names what it owns is no change (KAFKA-12898); Kafka rebalances.",
        "owned-partitions-in-another-order",
    ),
    Expected(
        "Without offsets and members a simple consumer's group is forgotten at once; Kafka's stays until it cleans up.",
        "offset-delete",
        "is the group there",
    ),
)

# Consumer groups

_AT_ITS_TARGET = """\
A group that everybody left is at its target, so that who joins next need not wait (KAFKA-20442); Kafka's is behind."""
_REASSIGNS = "Another server assignor assigns anew at once; Kafka waits for another reason to (KAFKA-20434)."
_TOLD_AGAIN = """\
A member that comes with its epoch before never got the last answer, and is told its assignment again; by Kafka not."""
_LOOKED_UP = """\
A regular expression is looked up before the heartbeat that brings it is answered; by Kafka a little later, and again
after a change of topics within 10 s."""
_IDS_OF_CLASSIC_MEMBERS = """\
The id of a classic member in a consumer group begins with its client or instance id, as in a classic group; Kafka's is
a UUID in base64."""
_UNKNOWN_IDS = """\
A classic member whose id a consumer group does not know is told so, as by a classic group; Kafka takes it for a new
one, though it may still hold what others have by now."""
_LEADS = """\
A static member whose restart makes a consumer group a classic one is told who leads, and that nothing is to be
assigned; by Kafka that nobody leads."""
_OUR_CONFIGS = "A group may have an assignor and weights of its own."
_SAYS_WHY = "Whoever describes a consumer group is told why members have what they have, and since when (ours)."
_MORE_CONFIGS = "Of a group's configs those of consumer groups are told, not those of share and streams groups."

_CONSUMER_GROUPS = (
    *(
        Expected(_AT_ITS_TARGET, scene, exchange, "groups[[]0].assignment_epoch")
        for scene, exchange in (
            ("bad-consumer-joins", "the group after them"),
            ("consumer-joins-that-are-odd-and-taken", "the empty group of *"),
            ("one-consumer-member", "nobody is left"),
            ("static-members-that-stay-away", "*"),
            ("offsets-of-an-empty-consumer-group", "the group is there"),
        )
    ),
    Expected(_REASSIGNS, "another-assignor"),
    Expected(_REASSIGNS, "the-majoritys-assignor", "by range again", "*epoch"),
    Expected(_TOLD_AGAIN, "member-epochs", "the previous epoch*", "assignment*"),
    Expected(_LOOKED_UP, "two-members-of-two-expressions", "? joins"),
    Expected(_LOOKED_UP, "expressions", "by an expression"),
    Expected(_LOOKED_UP, "expressions", "another expression"),
    Expected(
        "A member id that the coordinator makes up is a UUID in hexadecimal; Kafka's is one in base64.",
        "a-member-of-version-0",
        field="member_id",
    ),
    Expected(
        "Who asks for offsets at an epoch without a member id is unknown; Kafka fails with an internal error.",
        "reading-offsets-as-a-consumer-member",
        "as nobody at an epoch",
    ),
    *(
        Expected(_IDS_OF_CLASSIC_MEMBERS, scene, field="*member_id")
        for scene in ("classic-members-join-a-consumer-group", "static-members-migrate", "under-policy-*")
    ),
    Expected(_UNKNOWN_IDS, "a-member-id-that-nobody-handed-out"),
    *(
        Expected(_LEADS, "static-members-migrate", "a restarts in the classic protocol", field)
        for field in ("leader", "skip_assignment", "members*")
    ),
    Expected(_MORE_CONFIGS, "configs-of-a-group", "*", "*.configs.*", kohort="(not there)"),
    Expected(_OUR_CONFIGS, "configs-of-a-group", "*", "*.configs.*", kafka="(not there)"),
    Expected(_SAYS_WHY, "*", "*", "groups[[]*].members[[]*].reason"),
    Expected(_SAYS_WHY, "*", "*", "groups[[]*].target_since_ms"),
    Expected(_SAYS_WHY, "*", "*", "groups[[]*].members[[]*].since_ms"),
)

# Topics

_ONE_NODE = "One node: no followers, no features to vote on."
_AS_IT_CAME = """\
A batch is kept as it came: the broker checks the header and the checksum, and only for a compacted topic the records,
which may be compressed. Kafka always does, and so refuses more, and mends what the header says of times."""
_NO_START = "A refused batch has no log start offset; Kafka tells it for some errors."
_LENIENT = """\
A fetch limit below 0 counts as 0, and an unknown isolation level as the lowest; Kafka fails with an internal error."""
_WHOLE_BATCHES = "An answer ends with a whole batch; Kafka cuts it where the limit is, and clients drop the half."

_BROKER = (
    Expected(
        "The record with the largest timestamp is one that can be read; Kafka still names deleted ones.",
        "a-start-that-moves",
        "the ends of nothing -3",
    ),
    Expected(
        "Kohort says in a sentence what is wrong where Kafka says nothing.", field="*error_message", kohort="a sentence"
    ),
    Expected(
        "What is not there is not announced: transactions, access control, quotas, KRaft, share groups; old Produce.",
        "api-versions",
        field="api_keys.*",
    ),
    Expected(_ONE_NODE, "api-versions", field="*_features*"),
    Expected(_ONE_NODE, "fetches", "as a* follower"),
    Expected(_ONE_NODE, "fetches", "a last fetched epoch of the future"),
    Expected(_WHOLE_BATCHES, "fetches", "room for [12]*", "*records"),
    Expected(
        _LENIENT,
        "fetches",
        "room for -1*",
    ),
    Expected(_LENIENT, "fetches", "an unknown isolation level"),
    Expected(
        "Of a topic that is gone nothing is said of aborted transactions: [] for null.",
        "fetches",
        "the topic is gone",
        "*aborted*",
    ),
    Expected(_AS_IT_CAME, "refused-batches", "records that are no records"),
    Expected(_AS_IT_CAME, "refused-batches", "what is kept of what Kafka mends or refuses"),
    Expected(_AS_IT_CAME, "refused-batches", "a far time", "*record_errors*"),
    Expected(_NO_START, "a-compacted-topic", "without a key", "*log_start_offset", 0, -1),
    Expected(
        "Half a batch behind a whole one is a broken frame; Kafka drops the half.",
        "refused-batches",
        "a batch and half of another *",
    ),
    Expected("A produce request without records is INVALID_RECORD; Kafka never answers.", "refused-batches", "null"),
    Expected(
        "A batch of an old format is UNSUPPORTED_FOR_MESSAGE_FORMAT; Kafka says INVALID_RECORD.",
        "refused-batches",
        "magic 1 *",
        "*error_code",
        87,
        43,
    ),
    Expected(
        "A batch with an unknown codec is UNSUPPORTED_COMPRESSION_TYPE; Kafka fails with an internal error.",
        "refused-batches",
        "an unknown codec",
        "*error_code",
        -1,
        76,
    ),
    Expected(_NO_START, "refused-batches", field="*log_start_offset", kafka=0, kohort=-1),
    Expected(_NO_START, "idempotent-producers", field="*log_start_offset", kafka=0, kohort=-1),
    Expected(
        "A partition that stands in a request twice gets both batches; Kafka drops one.",
        "refused-batches",
        "a partition twice",
    ),
    Expected(
        "Of a duplicate batch no time is told; Kafka tells that of the first one.",
        "idempotent-producers",
        "the first *",
        "*log_append_time_ms",
    ),
    Expected("A batch with a producer id needs an epoch; Kafka takes it without.", "idempotent-producers", "no epoch"),
    Expected(
        "A topic is there when the first answer names it; Kafka makes it afterwards.",
        "auto-creation",
        "the first request *",
    ),
    Expected(
        "A topic without name and id is an invalid request; Kafka fails with an internal error.",
        "metadata",
        "by neither",
    ),
    Expected(
        "Topics by name and by id in one request are all answered; Kafka forgets the names.",
        "metadata",
        "one by name, one by id",
    ),
    Expected(
        "min.insync.replicas is a default here; KRaft sets it for the cluster.",
        "create-topics",
        field="*.min.insync.replicas.config_source",
    ),
    Expected(
        "Who deletes a topic by its name and by its id at once is refused under the name alone; Kafka adds the id.",
        "delete-topics",
        "one by name and by id",
    ),
    Expected(
        "A topic that is only checked gets no id; Kafka makes one up.",
        "create-topics",
        field="*topic_id",
        kohort="no id",
    ),
    Expected(
        "Two names that collide as metrics collide in one request as they do in two.",
        "create-topics",
        "a name that differs by a dot",
    ),
    Expected(
        "Too many partitions are INVALID_PARTITIONS; Kafka says POLICY_VIOLATION.",
        "create-topics",
        "too many partitions",
    ),
)

# Operators

_IN_MEMORY = "The log of this broker is in memory: it lies nowhere, and on no disk that could be full."

_ADMIN = (
    Expected(
        "A config operation that does not exist is an invalid request; Kafka fails with an internal error.",
        "alter-configs",
        "an operation that is none",
    ),
    Expected(_IN_MEMORY, "logs-producers-and-elections", "logs of *", "*log_dir"),
    Expected(_IN_MEMORY, "logs-producers-and-elections", "logs of *", "*_bytes"),
)

EXPECTED = _GROUPS + _CONSUMER_GROUPS + _BROKER + _ADMIN

AT_DEFAULTS = (
    Expected(
        """\
A member of a consumer group is told a shorter heartbeat interval, 10 to 250 ms, while its group changes: its next
heartbeat is then there to be held until there is news.""",
        field="heartbeat_interval_ms",
        kohort_within=range(10, 251),
    ),
)
"""Differences that only `group.heartbeat.hold.ms` and `group.disconnect.grace.ms` at their defaults make."""

SEEN_IN_TRANSCRIPTS = (
    """\
A static member that restarts before it gave up what a cooperative generation took from it starts a rebalance; Kafka
lets it take over in silence, and nobody has those partitions until the next one.""",
    """\
A classic group is migrated although its leader hands each member its own user data back, as librdkafka does; by Kafka
not.""",
    """\
A cooperative member of a classic group that becomes a consumer group keeps what it has until it joins again; by Kafka
others get it at once, though it may not have heard that it lost it.""",
    """\
Who waits to join a classic group when its instance id comes with the consumer protocol is fenced; by Kafka it is told
to join again, and takes the id back.""",
)
"""Differences that no exchange of the conversation reaches; tests/scenarios has their transcripts."""
