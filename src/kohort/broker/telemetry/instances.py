"""Which metrics each client instance pushes, and which requests it may send now (KIP-714). Pure: time is an argument.

The checks and their order are those of Apache Kafka 4.3.1. As there, an instance is forgotten when its connection
closes or when it is silent for long, and a new one that pushes without having asked is accepted once.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from crc32c import crc32c

from kohort.broker.config import DEFAULT_INTERVAL_MS, Subscription, Subscriptions
from kohort.errors import ErrorCode
from kohort.model import NO_UUID, UUID, Millis
from kohort.wire.batches import Codec

MAX_INSTANCES = 16_384
"""Maximum number of client instances; the one that was silent for longest is forgotten first."""
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Compression codecs in the order of preference. Uncompressed metrics are accepted, too."""
_EXPIRY_MS = 60_000
_ALL = "*"
_RESERVED = frozenset({NO_UUID, UUID(int=1)})
"""IDs that no instance has: Kafka's Uuid.RESERVED."""
_MAY_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""Errors of a push after which the client may ask for its subscription at once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one client instance pushes."""

    subscription_id: int
    metrics: tuple[str, ...]
    """Prefixes of names, sorted; `*` alone means all."""
    interval_ms: int


def select(subscriptions: Iterable[Subscription], instance_id: UUID, client: Mapping[str, str]) -> Selection:
    """Combine all subscriptions that match a client with these facts; the shortest interval applies."""
    matching = [found for found in subscriptions if found.matches(client)]
    metrics = frozenset[str]().union(*(found.metrics for found in matching))
    names = (_ALL,) if _ALL in metrics else tuple(sorted(metrics))
    interval_ms = min([DEFAULT_INTERVAL_MS, *(found.interval_ms for found in matching)])
    # Kafka's IDs: the checksum of the metrics as Java prints them, and the instance's hash code.
    mixed = (instance_id.int >> 64) ^ instance_id.int
    printed = f"[{', '.join(names)}]{interval_ms}".encode("utf-8", "surrogateescape")
    checksum = crc32c(printed) ^ ((mixed >> 32) ^ mixed) & 0xFFFFFFFF
    return Selection(checksum - (1 << 32) if checksum >> 31 else checksum, names, interval_ms)


@dataclass(slots=True)
class _Instance:
    """One client instance."""

    client: Mapping[str, str]
    connection: Hashable
    version: int
    """Version of the subscriptions that `selection` is from."""
    selection: Selection
    asked_at: Millis | None = None
    pushed_at: Millis | None = None
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    expires_at: Millis = 0

    def may_ask(self, now: Millis) -> bool:
        """Return whether the instance may ask for its subscription, and take note that it did."""
        last = max((at for at in (self.asked_at, self.pushed_at) if at is not None), default=None)
        if last is not None and now - last < self.selection.interval_ms:
            return self.last_error in _MAY_ASK_AGAIN
        self.asked_at = now
        return True

    def may_push(self, now: Millis) -> bool:
        """Return whether the instance may push, and take note that it did.

        The first push after a question may be early: clients add jitter to the interval.
        """
        pushed = self.pushed_at
        asked_since = self.asked_at is not None and (pushed is None or self.asked_at > pushed)
        if not asked_since and pushed is not None and now - pushed < self.selection.interval_ms:
            return False
        self.pushed_at = now
        return True


class ClientInstances:
    """The client instances that one broker knows."""

    def __init__(self, subscriptions: Subscriptions, max_instances: int = MAX_INSTANCES) -> None:
        self._subscriptions = subscriptions
        self._max = max_instances
        self._instances: OrderedDict[UUID, _Instance] = OrderedDict()
        """The one that was silent for longest comes first."""
        self._of_connection: dict[Hashable, UUID] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def ask(
        self, instance_id: UUID, client: Mapping[str, str], connection: Hashable, now: Millis
    ) -> Selection | ErrorCode:
        """Return what an instance pushes, or why it may not ask now."""
        instance = self._instance(instance_id, client, connection, now)
        if not instance.may_ask(now):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance.selection

    def push(
        self,
        instance_id: UUID,
        client: Mapping[str, str],
        connection: Hashable,
        now: Millis,
        *,
        subscription_id: int,
        codec: int,
        terminating: bool,
        too_large: bool,
    ) -> Selection | ErrorCode:
        """Return what the instance pushes if its metrics can be taken; otherwise the error, in Kafka's order."""
        if instance_id in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(instance_id, client, connection, now)
        error = ErrorCode.NONE
        if instance.terminating:
            error = ErrorCode.INVALID_REQUEST
        elif not instance.may_push(now) and not terminating:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.selection.subscription_id:
            error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif codec not in set(Codec):
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif too_large:
            error = ErrorCode.TELEMETRY_TOO_LARGE
        instance.terminating = terminating
        instance.last_error = error
        return error or instance.selection

    def refused(self, instance_id: UUID, error: ErrorCode) -> None:
        """Take note that the contents of an accepted push were refused."""
        self._instances[instance_id].last_error = error

    def lost(self, connection: Hashable) -> None:
        """Forget the instance of a closed connection."""
        instance_id = self._of_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _instance(self, instance_id: UUID, client: Mapping[str, str], connection: Hashable, now: Millis) -> _Instance:
        found = self._instances.get(instance_id)
        if found is None or found.expires_at <= now:
            found = self._new(instance_id, client, connection)
        elif found.version < self._subscriptions.version:
            found = self._new(instance_id, found.client, connection)  # the new metrics apply at once
        self._instances.move_to_end(instance_id)
        found.expires_at = now + max(_EXPIRY_MS, 3 * found.selection.interval_ms)
        return found

    def _new(self, instance_id: UUID, client: Mapping[str, str], connection: Hashable) -> _Instance:
        subscriptions = self._subscriptions
        selection = select(subscriptions.current.values(), instance_id, client)
        before = self._instances.get(instance_id)
        if before is not None:
            self._release(instance_id, before)
        made = self._instances[instance_id] = _Instance(client, connection, subscriptions.version, selection)
        self._of_connection[connection] = instance_id
        if len(self._instances) > self._max:
            gone_id, gone = self._instances.popitem(last=False)
            self._release(gone_id, gone)
        return made

    def _release(self, instance_id: UUID, instance: _Instance) -> None:
        """Forget which connection the instance used, unless another instance has used it since."""
        if self._of_connection.get(instance.connection) == instance_id:
            del self._of_connection[instance.connection]
