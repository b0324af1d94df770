"""The quotas in the log store, and the measured traffic of the clients that they limit.

Rates of bytes are enforced by each broker for its own traffic, as in Kafka. The other quotas are stored and described.
"""

import json
from collections.abc import Callable, Mapping

from kohort.broker.config import BrokerConfig
from kohort.broker.net import ClientConnection
from kohort.broker.quotas.entities import CONSUMER_BYTE_RATE, IP, PRODUCER_BYTE_RATE, Entity
from kohort.broker.quotas.limits import Limits, Meter
from kohort.broker.quotas.rate import Rate, most_at_once
from kohort.errors import ConfigError
from kohort.log import LogStore
from kohort.model import Millis

QUOTAS = "client-quotas"
"""Kind of the stored configs that hold quotas, by entity."""

_FEW_METERS = 1_000


class ClientQuotas:
    """Reads and changes the quotas in the store, and measures the traffic that they limit."""

    def __init__(self, store: LogStore, config: BrokerConfig, now: Callable[[], Millis]) -> None:
        self._store = store
        windows = config.number("quota.window.num")
        window_ms = config.number("quota.window.size.seconds") * 1000
        self.produce = ByteQuota(windows, window_ms, now)
        self.fetch = ByteQuota(windows, window_ms, now)
        self.follow()

    def follow(self) -> None:
        """Read the quotas again, after the store has changed. Raise ConfigError if one cannot be read."""
        self._all = _stored_quotas(self._store.configs(QUOTAS))
        self.produce.enforce(self._limits(PRODUCER_BYTE_RATE))
        self.fetch.enforce(self._limits(CONSUMER_BYTE_RATE))

    @property
    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """All quotas by entity and name."""
        return self._all

    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Set and remove (None) quotas of one entity; durable on return. Raise OSError; then nothing has changed."""
        before = self._all.get(entity, {})
        quotas = {name: value for name, value in {**before, **changes}.items() if value is not None}
        if quotas != before:
            texts = {name: None if value is None else repr(value) for name, value in changes.items()}
            self._store.change_configs(QUOTAS, _key(entity), texts)
            self.follow()

    def _limits(self, name: str) -> Limits:
        return Limits(
            {entity: quotas[name] for entity, quotas in self._all.items() if name in quotas and IP not in dict(entity)}
        )


class ByteQuota:
    """One quota of bytes per second, and the traffic of the clients that it limits."""

    def __init__(self, windows: int, window_ms: Millis, now: Callable[[], Millis]) -> None:
        self.enforced = False
        """Whether any client has a limit; if not, requests cost nothing more."""
        self._limits = Limits({})
        self._windows = windows
        self._window_ms = window_ms
        self._now = now
        self._rates: dict[Meter, Rate] = {}
        self._check_at = _FEW_METERS

    def enforce(self, limits: Limits) -> None:
        """Replace the limits. Traffic that was measured before still counts."""
        self._limits = limits
        self.enforced = bool(limits)

    def throttle(self, connection: ClientConnection, size: int) -> Millis:
        """Count bytes of the connection's client. If it exceeds its limit, pause the connection; return the time."""
        pause_ms = self._counted(connection, size)
        if pause_ms:
            connection.mute(pause_ms / 1000)
        return pause_ms

    def throttle_instead(self, connection: ClientConnection, size: int) -> Millis:
        """Do as `throttle`, but do not count the bytes if the client must pause: they are not sent to it."""
        pause_ms = self.throttle(connection, size)
        if pause_ms:
            self._counted(connection, -size)
        return pause_ms

    def room(self, connection: ClientConnection) -> float | None:
        """Return the largest number of bytes that the client can ever receive at once; None if it has no limit."""
        limit = self._limits.limit(self._meter(connection))
        return None if limit is None else most_at_once(limit, self._windows, self._window_ms)

    def _counted(self, connection: ClientConnection, size: int) -> Millis:
        meter = self._meter(connection)
        limit = self._limits.limit(meter)
        if limit is None:
            return 0
        now = self._now()
        rate = self._rates.get(meter)
        if rate is None:
            self._forget_idle(now)
            rate = self._rates[meter] = Rate(self._windows, self._window_ms, now)
        rate.add(size, now)
        return rate.pause_ms(limit, now)

    def _meter(self, connection: ClientConnection) -> Meter:
        return self._limits.meter(connection.principal.partition(":")[2], connection.client_id)

    def _forget_idle(self, now: Millis) -> None:
        """Keep memory bounded by the clients that are active: a client chooses its ID."""
        if len(self._rates) < self._check_at:
            return
        self._rates = {meter: rate for meter, rate in self._rates.items() if not rate.is_idle(now)}
        self._check_at = max(_FEW_METERS, 2 * len(self._rates))


def _key(entity: Entity) -> str:
    return json.dumps(entity)


def _stored_quotas(stored: Mapping[str, Mapping[str, str]]) -> dict[Entity, dict[str, float]]:
    found: dict[Entity, dict[str, float]] = {}
    for key, quotas in stored.items():
        try:
            entity = tuple((str(kind), None if name is None else str(name)) for kind, name in json.loads(key))
            found[entity] = {name: float(value) for name, value in quotas.items()}
        except (ValueError, TypeError) as error:
            raise ConfigError(f"The stored quotas {key} cannot be read: {error!r}.") from None
    return found
