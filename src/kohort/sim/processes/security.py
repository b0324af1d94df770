"""Passwords and ACLs of a secured world, as an operator sets them on a running broker.

Each process has a principal of its own name; the brokers share one. A member needs the rights to read its group and its
topics, and may lose each for a time; its password may be rejected for a time. `lost` is the
oracle of the checks: it has what was taken from a principal, from the moment at which a broker has
stored that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Protocol

from kohort.broker.access import ACLS, AccessControl
from kohort.broker.config import DEFAULT_NAME, DynamicConfig
from kohort.broker.security import SCRAM_CREDENTIALS, ScramCredentials
from kohort.log import MemoryStore
from kohort.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    Secret,
)
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism
from kohort.sim.checks import LostRight
from kohort.sim.environment import Disk
from kohort.sim.plans import COPIES, SOURCE, TOPICS, VAULT, Plan, copying_of
from kohort.sim.processes.brokers import Brokers, SimulatedBroker
from kohort.sim.processes.copier import GROUP as COPIERS
from kohort.sim.steps import Right

OPERATOR = "operator"
"""User who may do everything."""
_BROKER = "broker"
"""User as which the brokers of a cluster connect to each other."""
_MECHANISM = ScramMechanism.SHA_256


def _password(user: str) -> str:
    return f"password of {user}"


SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": _MECHANISM.value,
    "sasl.mechanism.inter.broker.protocol": _MECHANISM.value,
    f"listener.name.plaintext.{_MECHANISM.value.lower()}.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{_BROKER}" password="{_password(_BROKER)}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{OPERATOR}",
}
"""Settings of brokers in a secured world."""
_ON_TOPICS = {
    None: (Operation.READ, Operation.CREATE),
    Right.READ_TOPIC: (Operation.DESCRIBE, Operation.CREATE),
    Right.DESCRIBE_TOPIC: (Operation.CREATE,),
}
"""Operations on a topic that a member is allowed, by the right that it has lost. Members create topics on demand."""
_RETRY_S = 0.5
_COPIER, _AUDITOR = "copier-", "auditor-"
"""Beginnings of the names of clients that copy in transactions, and of those that read the copies."""


class SecuredWorld(Protocol):
    """World as its security uses it."""

    plan: Plan
    brokers: Brokers

    @property
    def now(self) -> float:
        """Time in seconds since the start."""
        ...

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function later, outside of any process."""
        ...


class Security:
    """The rights of each user, and those that it has lost for a time."""

    def __init__(self, world: SecuredWorld, users: Iterable[str]) -> None:
        self._world = world
        plan = world.plan
        self._groups = {f"member-{number}": settings.group for number, settings in enumerate(plan.members)}
        self.lost: dict[str, frozenset[LostRight]] = {}
        """Rights that a user does not have, as the brokers have stored it."""
        self.changed: dict[str, float] = {}
        """Time at which the rights of a user changed last."""
        self.rejected: dict[str, float] = {}
        """Users whose password the brokers reject, and since when."""
        self._losses: Counter[tuple[str, LostRight]] = Counter()
        self._rejections: Counter[str] = Counter()
        self._recovered: dict[str, float] = {}
        """Time at which a user was last without a right or with a wrong password, if it is well now."""
        self._waiting: set[str] = set()
        """Users whose changes no broker has taken yet."""
        self._resting = False
        self._store_first(world.brokers.disk, [OPERATOR, _BROKER, *users])

    def _store_first(self, disk: Disk, users: list[str]) -> None:
        """Put passwords and ACLs on the disk before the first broker starts."""
        stored = MemoryStore()
        credentials, control = ScramCredentials(stored), AccessControl(DynamicConfig(SETTINGS).current, DEFAULT_NAME)
        control.open(stored)
        for user in users:
            credentials.change(user, (), {_MECHANISM: _credential(user, right=True)})
            control.add(self._acls(user))
        for kind in (ACLS, SCRAM_CREDENTIALS):
            disk.configs.update({(kind, name): configs for name, configs in stored.configs(kind).items()})

    # For clients and checks

    def login(self, user: str) -> dict[str, Any]:
        """Return the options with which that user's clients authenticate."""
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": _MECHANISM.value,
            "sasl_plain_username": user,
            "sasl_plain_password": _password(user),
        }

    def may_be_refused(self, user: str, since: float) -> bool:
        """Return whether a right of that user was missing, or its password rejected, at any time since then."""
        return self._is_unwell(user) or self._recovered.get(user, -1.0) >= since

    def is_stored(self, broker: SimulatedBroker, user: str) -> bool:
        """Return whether the store of that broker has the rights and the password of that user."""
        control = AccessControl(broker.config, DEFAULT_NAME)
        control.open(broker.store)
        own = {acl for acl in control.acls.all if acl.principal == f"User:{user}"}
        known = ScramCredentials(broker.store).credential(user, _MECHANISM)
        return own == set(self._acls(user, self.lost.get(user, frozenset()))) and (
            known == _credential(user, right=user not in self.rejected)
        )

    # Events

    def reject(self, user: str, seconds: float) -> bool:
        """Let the brokers reject the password of that user for a time."""
        self._rejections[user] += 1
        self._world.after(seconds, partial(self._accept, user))
        self._apply(user)
        return True

    def lose(self, user: str, right: Right, topic: str, seconds: float) -> bool:
        """Let that user lose a right for a time."""
        lost = LostRight(right, "" if right is Right.READ_GROUP else topic)
        self._losses[user, lost] += 1
        self._world.after(seconds, partial(self._give_back, user, lost))
        self._apply(user)
        return True

    def end_faults(self) -> None:
        """Give everything back."""
        self._resting = True
        self._losses.clear()
        self._rejections.clear()
        for user in sorted({*self.lost, *self.rejected, *self._waiting}):
            self._apply(user)

    def withheld(self) -> str:
        """Return the name of a user whose rights or passwords are not restored yet, or ""."""
        users = {*self.rejected, *self._waiting, *self.lost}
        return min(filter(self._is_unwell, users), default="")

    def _is_unwell(self, user: str) -> bool:
        return bool(self.lost.get(user)) or user in self.rejected or user in self._waiting

    def _accept(self, user: str) -> None:
        if not self._resting:
            self._rejections[user] -= 1
            self._apply(user)

    def _give_back(self, user: str, lost: LostRight) -> None:
        if not self._resting:
            self._losses[user, lost] -= 1
            self._apply(user)

    def _apply(self, user: str) -> None:
        """Let a running broker store what that user may do; try again if there is none."""
        if user not in self._waiting:
            self._waiting.add(user)
            self._world.after(_RETRY_S, partial(self._apply_again, user))
        brokers = self._world.brokers
        broker = brokers.active
        if broker is not None:
            loop = brokers.processes[broker.node_id - 1].loop
            assert loop is not None
            loop.call_soon(self._apply_on, broker, user)  # a broker that catches up may begin to lead a shard

    def _apply_again(self, user: str) -> None:
        if user in self._waiting:
            self._waiting.discard(user)
            self._apply(user)

    def _apply_on(self, broker: SimulatedBroker, user: str) -> None:
        with suppress(OSError):
            broker.leadership.catch_up()
            self._store(broker, user)
            self._waiting.discard(user)

    def _store(self, broker: SimulatedBroker, user: str) -> None:
        rejects, now = self._rejections[user] > 0, self._world.now
        was_unwell = self._is_unwell(user)
        if rejects != (user in self.rejected):
            broker.scram_credentials.change(user, (), {_MECHANISM: _credential(user, right=not rejects)})
            if rejects:
                self.rejected[user] = now
            else:
                del self.rejected[user]
        lost = self.lost.get(user, frozenset())
        wanted = frozenset(right for (who, right), times in self._losses.items() if who == user and times > 0)
        if wanted != lost:
            self.lost[user] = lost & wanted  # in case that not all can be stored
            control = broker.access_control
            assert control is not None
            before = {acl for acl in control.acls.all if acl.principal == f"User:{user}"}
            after = set(self._acls(user, wanted))
            self.changed[user] = now
            control.add(sorted(after - before))
            control.remove(sorted(before - after))
            self.lost[user] = wanted
        if was_unwell:
            self._recovered[user] = now

    def _acls(self, user: str, lost: frozenset[LostRight] = frozenset()) -> list[Acl]:
        """Return the ACLs of a user without these rights."""
        if user == OPERATOR:
            return []
        if user == _BROKER:
            return [_allow(user, ResourceType.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)]
        acls = []
        group = self._groups.get(user)
        if group is not None and LostRight(Right.READ_GROUP, "") not in lost:
            acls.append(_allow(user, ResourceType.GROUP, group, Operation.READ))
        for topic in (*TOPICS, VAULT):
            without = {right for right, name in lost if name == topic}
            worst = next((right for right in (Right.DESCRIBE_TOPIC, Right.READ_TOPIC) if right in without), None)
            operations = _ON_TOPICS[worst] if group is not None else (Operation.READ, Operation.WRITE, Operation.CREATE)
            acls += [_allow(user, ResourceType.TOPIC, topic, operation) for operation in operations]
        if group is None:
            acls += self._acls_of_copies(user)
        return acls

    def _acls_of_copies(self, user: str) -> list[Acl]:
        """Return what a client outside of the groups may do with the topics of transactional copies.

        A copier has the rights that Kafka's documentation asks for, and no others.
        """
        writes: Iterable[str] = () if user.startswith(_AUDITOR) else COPIES if user.startswith(_COPIER) else (SOURCE,)
        reads: Iterable[str] = COPIES if user.startswith(_AUDITOR) else (SOURCE,)
        acls = [_allow(user, ResourceType.TOPIC, topic, Operation.WRITE) for topic in writes]
        acls += [_allow(user, ResourceType.TOPIC, topic, Operation.READ) for topic in reads]
        if user.startswith(_COPIER):
            acls.append(_allow(user, ResourceType.GROUP, COPIERS, Operation.READ))
            count = self._world.plan.transactional_ids
            ids = [copying_of(number, count).transactional_id for number in range(count)]
            acls += [_allow(user, ResourceType.TRANSACTIONAL_ID, each, Operation.WRITE) for each in ids]
        return acls


def _allow(user: str, resource_type: ResourceType, name: str, operation: Operation) -> Acl:
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    return Acl(pattern, f"User:{user}", "*", operation, Permission.ALLOW)


@lru_cache(1_000)
def _credential(user: str, *, right: bool) -> ScramCredential:
    password = _password(user) if right else f"not the {_password(user)}"
    return ScramCredential.from_password(_MECHANISM, Secret(password), f"salt of {user}".encode(), MIN_ITERATIONS)
