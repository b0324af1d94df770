"""Where Kohort answers otherwise than Apache Kafka on purpose, and why. docs/interop.md tells the same to users."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.interop.conversation.play import Difference

_ANY = object()


@dataclass(frozen=True, slots=True)
class Expected:
    """Differences of one kind: scene, exchange and field may contain `*` and `?`; the values are optional."""

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
Kohort rejects a join with a subscription that cannot be read (INCONSISTENT_GROUP_PROTOCOL), because
the group's leader would fail on it. Kafka accepts it, and for some bytes never answers the join
(KAFKA-20570)."""
_NO_GHOSTS = "A join that is rejected leaves no group behind. Kafka keeps an empty group until its next cleanup."
_PIPELINED = """\
Kohort answers the requests of a connection in order, but handles a later one while an earlier one
waits. Kafka handles it afterwards."""
_SUPERSEDED = """\
If a member repeats a join or sync on another connection, Kohort answers the earlier one with
REBALANCE_IN_PROGRESS. Kafka never answers it."""

_GROUPS = (
    Expected(_UNREADABLE, "malformed-subscriptions", "unreadable, *"),
    Expected(
        "A static member that returns keeps its place in a full group. Kafka rejects it (KAFKA-20601).",
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
        """\
The id of a dynamic member together with an instance id is an unknown member. Kafka fails with an
internal error.""",
        "an-id-of-another-kind",
        "a dynamic id used with an instance id",
    ),
    Expected(
        """\
The order of a member's owned partitions does not matter (KAFKA-12898). In Kafka another order
causes a rebalance.""",
        "owned-partitions-in-another-order",
    ),
    Expected(
        """\
Kohort removes the group of a simple consumer as soon as it has neither offsets nor members. Kafka
keeps it until its next cleanup.""",
        "offset-delete",
        "is the group there",
    ),
)

# Consumer groups

_AT_ITS_TARGET = """\
A consumer group without members is at its target epoch, so the next member to join need not wait
(KAFKA-20442). In Kafka the target epoch is behind."""
_REASSIGNS = """\
A change of the server assignor computes a new assignment at once. Kafka waits for another reason
(KAFKA-20434)."""
_TOLD_AGAIN = """\
A member that sends its previous epoch has lost the last answer, so Kohort sends its assignment
again. Kafka does not."""
_LOOKED_UP = """\
Kohort resolves a regular expression before it answers the heartbeat that contains it. Kafka
resolves it shortly afterwards, and again within 10 s after topics have changed."""
_IDS_OF_CLASSIC_MEMBERS = """\
The id of a classic member in a consumer group begins with its client id or instance id, as in a
classic group. Kafka's is a UUID in base64."""
_UNKNOWN_IDS = """\
A classic member with an id that the consumer group does not know is rejected as unknown, as in a
classic group. Kafka treats it as a new member, although it may still process partitions that others
own by now."""
_LEADS = """\
If the restart of a static member turns a consumer group into a classic group, the join response of
Kohort names the leader and tells the member to skip the assignment. That of Kafka names no leader."""
_OUR_CONFIGS = "A group can have its own assignor and weights."
_SAYS_WHY = "ConsumerGroupDescribe also returns why members have their partitions, and since when (Kohort only)."
_MORE_CONFIGS = "Kohort describes the group configs of consumer groups, not those of share groups and streams groups."

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
    Expected(_LOOKED_UP, "expressions-of-somebody-*", "joins"),
    Expected(
        "Member ids that the coordinator generates are UUIDs in hexadecimal. Kafka's are in base64.",
        "a-member-of-version-0",
        field="member_id",
    ),
    Expected(
        """\
An offset fetch with a member epoch but without a member id is from an unknown member. Kafka fails
with an internal error.""",
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

_ONE_NODE = "A broker by itself has no followers and no features to vote on."
_AS_IT_CAME = """\
Kohort stores a batch as it was sent: it checks the header and the checksum, and the records only if
the topic is compacted (they may be compressed). Kafka always checks them, so it rejects more, and
corrects timestamps in the header."""
_NO_START = "For a rejected batch Kohort returns no log start offset. Kafka returns it for some errors."
_LENIENT = """\
A negative fetch limit counts as 0, and an unknown isolation level as the lowest. Kafka fails with
an internal error."""
_WHOLE_BATCHES = """\
A fetch response ends with a whole batch. Kafka cuts the batch at the limit, and clients drop the
incomplete part."""
_NO_ID = "A topic that is only validated gets no id. Kafka generates one."
_A_DEFAULT = "min.insync.replicas is a default in Kohort. KRaft sets it for the cluster."

_BROKER = (
    Expected(
        "The record with the largest timestamp is one that can be read. Kafka still returns deleted ones.",
        "a-start-that-moves",
        "the ends of nothing -3",
    ),
    Expected(
        """\
Kohort explains an error in a sentence where Kafka has no message.""",
        field="*error_message",
        kohort="a sentence",
    ),
    Expected(
        """\
Unsupported APIs are not advertised: KRaft, share groups, and old versions of Produce.""",
        "api-versions",
        field="api_keys.*",
    ),
    Expected(
        "The ip of a quota is an address. Kafka also takes the name of a host.",
        "client-quotas",
        "*connections of a host name",
    ),
    Expected("A quota is a number. Kafka also stores NaN.", "client-quotas", "a percentage that is no number"),
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
        "For a topic that does not exist, the list of aborted transactions is [] instead of null.",
        "fetches",
        "the topic is gone",
        "*aborted*",
    ),
    Expected(_AS_IT_CAME, "refused-batches", "records that are no records"),
    Expected(_AS_IT_CAME, "refused-batches", "what is kept of what Kafka mends or refuses"),
    Expected(_AS_IT_CAME, "refused-batches", "a far time", "*record_errors*"),
    Expected(_NO_START, "a-compacted-topic", "without a key", "*log_start_offset", 0, -1),
    Expected(
        "Half a batch after a whole one is a malformed request. Kafka drops the half.",
        "refused-batches",
        "a batch and half of another *",
    ),
    Expected(
        """\
A produce request without records is answered with INVALID_RECORD. Kafka never answers.""",
        "refused-batches",
        "null",
    ),
    Expected(
        "A batch of an old format is answered with UNSUPPORTED_FOR_MESSAGE_FORMAT. Kafka returns INVALID_RECORD.",
        "refused-batches",
        "magic 1 *",
        "*error_code",
        87,
        43,
    ),
    Expected(
        """\
A batch with an unknown codec is answered with UNSUPPORTED_COMPRESSION_TYPE. Kafka fails with an
internal error.""",
        "refused-batches",
        "an unknown codec",
        "*error_code",
        -1,
        76,
    ),
    Expected(_NO_START, "refused-batches", field="*log_start_offset", kafka=0, kohort=-1),
    Expected(_NO_START, "idempotent-producers", "no sequence", "*log_start_offset", 0, -1),
    Expected(
        """\
A batch that was sent twice is acknowledged without a time. Kafka returns the batch's own as that of
the append.""",
        "transactions",
        "*: produce the same",
        "*log_append_time_ms",
        1_750_000_000_000,
        -1,
    ),
    Expected(
        "If a partition appears twice in a produce request, Kohort appends both batches. Kafka drops one.",
        "refused-batches",
        "a partition twice",
    ),
    Expected(
        "For a duplicate batch Kohort returns no append time. Kafka returns that of the first one.",
        "idempotent-producers",
        "the first *",
        "*log_append_time_ms",
    ),
    Expected(
        """\
A batch with a producer id needs an epoch. Kafka accepts it without.""",
        "idempotent-producers",
        "no epoch",
    ),
    Expected(
        "An automatically created topic exists when the first answer names it. Kafka creates it afterwards.",
        "auto-creation",
        "the first request *",
    ),
    Expected(
        "A topic without name and id is an invalid request. Kafka fails with an internal error.",
        "metadata",
        "by neither",
    ),
    Expected(
        "If a request names topics both by name and by id, Kohort answers for all of them. Kafka ignores the names.",
        "metadata",
        "one by name, one by id",
    ),
    Expected(_A_DEFAULT, "create-topics", field="*.min.insync.replicas.config_source"),
    Expected(_A_DEFAULT, exchange="*create topics v7", field="*.min.insync.replicas.config_source"),
    Expected(
        """\
If a request deletes a topic by its name and by its id, Kohort returns one error, for the name.
Kafka adds one for the id.""",
        "delete-topics",
        "one by name and by id",
    ),
    Expected(_NO_ID, "create-topics", field="*topic_id", kohort="no id"),
    Expected(_NO_ID, exchange="*create topics v7", field="*topic_id", kohort="no id"),
    Expected(
        "Two topic names that collide in metric names are rejected in one request as they are in two.",
        "create-topics",
        "a name that differs by a dot",
    ),
    Expected(
        "Too many partitions are answered with INVALID_PARTITIONS. Kafka returns POLICY_VIOLATION.",
        "create-topics",
        "too many partitions",
    ),
)

# Operators

_IN_MEMORY = "In these tests the broker's log is in memory, so it has no directory and no disk that could be full."
_UNUSABLE = """\
A SCRAM credential without a salt or a salted password is answered with UNACCEPTABLE_CREDENTIAL.
Kafka stores it without a salt, although no client can use it, and fails with an internal error
without a password."""

_NO_ACL = """\
An ACL that cannot exist, such as one for any operation, is rejected with INVALID_REQUEST, and the
others of the request are created. Kafka fails the request with an internal error."""
_UNKNOWN_IN_ACLS = """\
The number 0 (unknown) in a request about ACLs is answered with INVALID_REQUEST. Kafka closes the
connection."""
_BROKERS = """\
Brokers ask each other as clients do, so ClusterAction allows to describe all topics on the listener
of the brokers. In Kafka it allows only the requests of brokers."""

_SUMS = """\
Kohort asks clients to push counters as sums since their start, so that a lost push loses nothing.
Kafka asks for differences."""
_RE2_OF_CLIENTS = """\
Expressions that match clients have the syntax of RE2, which matches in linear time. Kafka takes
those of Java."""

_ADMIN = (
    Expected(_SUMS, "client-metrics", "*: question", "delta_temporality", True, False),
    Expected(_RE2_OF_CLIENTS, "client-metrics", "an expression that only Java has", "*error_code", 0, 40),
    *(
        Expected(_NO_ACL, "refused-acls", exchange, "results*error_*")
        for exchange in ("* type [12]", "operation 1", "permission 1", "good, then any *", "good, then a match")
    ),
    Expected(_UNKNOWN_IN_ACLS, "refused-acl*", "* 0*"),
    Expected(
        "An unknown config operation is an invalid request. Kafka fails with an internal error.",
        "alter-configs",
        "an operation that is none",
    ),
    Expected(_UNUSABLE, "refused-scram-credentials", "no salt", "*error_code", 0, 93),
    Expected(_UNUSABLE, "refused-scram-credentials", "no password", "*error_code", -1, 93),
    Expected(_IN_MEMORY, "logs-producers-and-elections", "logs of *", "*log_dir"),
    Expected(_IN_MEMORY, "logs-producers-and-elections", "logs of *", "*_bytes"),
    Expected(_IN_MEMORY, "one-operation-on-the-cluster", "*: log dirs *", "*_bytes"),
    Expected(_IN_MEMORY, "one-operation-on-the-cluster", "*: log dirs *", "*log_dir"),
    *(
        Expected(_BROKERS, "one-operation-on-the-cluster", f"{operation}: {about} v*", "topics*")
        for operation in ("CLUSTER_ACTION", "ALL")
        for about in ("list offsets", "metadata", "metadata of all", "partitions")
    ),
    Expected(
        """\
A client that may not describe the cluster gets an error if it asks for the SCRAM credentials of all
users. Kafka never answers.""",
        "nothing-is-allowed",
        "all credentials",
    ),
)

EXPECTED = _GROUPS + _CONSUMER_GROUPS + _BROKER + _ADMIN

AT_DEFAULTS = (
    Expected(
        """\
A member of a consumer group receives a shorter heartbeat interval, 10 to 250 ms, while its group
changes, so that a heartbeat is in flight when there is news.""",
        field="heartbeat_interval_ms",
        kohort_within=range(10, 251),
    ),
)
"""Differences that only `group.heartbeat.hold.ms` and `group.disconnect.grace.ms` at their defaults make."""

SEEN_IN_OTHER_TESTS = (
    """\
If members of several users have the same regular expression, it matches the topics that all of them
may describe, and a change of ACLs counts at once. In Kafka it matches what the member may describe
whose heartbeat resolved it, and a change of ACLs counts when it is resolved again.""",
    """\
Kohort rejects a join with a subscription that is too large for a record of `__consumer_offsets` (UNKNOWN_SERVER_ERROR),
and the other members continue. Kafka accepts it, and then fails each SyncGroup with that code, so no member of the
group gets an assignment.""",
    """\
A static member that restarts before it gave up a partition that a cooperative generation took from
it causes a rebalance. Kafka lets it take over silently, and no member owns that partition until the
next rebalance.""",
    """\
A request that arrives between SaslHandshake and SaslAuthenticate closes the connection without an
answer. Kafka returns ILLEGAL_SASL_STATE before it closes the connection.""",
    """\
A classic member that waits in JoinGroup while its group becomes a consumer group gets
NOT_COORDINATOR, after which every client joins again. Kafka answers REBALANCE_IN_PROGRESS, which
librdkafka reports to the application as an error.""",
    """\
A classic group is migrated even if its leader returns each member's own user data, as librdkafka
does. Kafka does not migrate it.""",
    """\
A cooperative member of a classic group that becomes a consumer group keeps its partitions until it
joins again. Kafka gives them to others at once, although the member may not know that it lost them.""",
    """\
A member that waits to join a classic group is fenced if its instance id arrives with the consumer
protocol. Kafka tells it to join again, and it takes the id back.""",
    """\
If a member does not report what it was assigned, or what it must give up, Kohort sends its
assignment again after two heartbeat intervals. Kafka does not. librdkafka sends a heartbeat that
timed out again as it was, so it never learns what the lost answer told it to give up: Kafka waits
for its rebalance timeout, five minutes by default.""",
)
"""Differences that no exchange of the conversation reaches; tests/scenarios has their transcripts."""
