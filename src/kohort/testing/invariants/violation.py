"""Violations: what was broken, whose fault it is, and the events that prove it."""

from dataclasses import dataclass
from enum import Enum

from kohort.testing.events import Event


class Fault(Enum):
    """Side that broke an invariant; `UNDECIDED` if the events allow both."""

    BROKER = "broker"
    CLIENT = "client"
    UNDECIDED = "undecided"


class Invariant(Enum):
    """What must always hold. `letter` is its number in the simulation's list of invariants; `sentence` describes it."""

    letter: str
    sentence: str

    def __new__(cls, title: str, letter: str, sentence: str) -> "Invariant":
        member = object.__new__(cls)
        member._value_ = title
        member.letter = letter
        member.sentence = sentence
        return member

    ONE_OWNER = "one owner", "S1", "At most one member has a partition in one generation or epoch."
    TWO_STEP_MOVES = "moves in two steps", "S1", "A cooperative member gives up a partition before another one gets it."
    OWNED_FETCHES = "fetches of owned partitions", "S1", "A member fetches only partitions that it has not given up."
    COMPUTED_ASSIGNMENT = "assignment as computed", "S2", "A member receives what the leader computed for it."
    SUBSCRIBED_ASSIGNMENT = "assignment as subscribed", "S2", "A member receives only topics that it subscribes to."
    RISING_EPOCHS = (
        "rising epochs",
        "S4",
        "Generations and epochs only rise; a member's never falls while it lives.",
    )
    GIVEN_EPOCHS = "given epochs", "S5", "A member uses only generations and epochs that it was given."
    FENCED_MEMBERS_JOIN = "fenced members join", "S5", "A member that is told that it is fenced joins again."
    KEPT_MEMBER_ID = "kept member id", "S5", "A member that joins again keeps its member id."
    NO_FENCED_COMMIT = "no fenced commit", "S6", "No commit of a fenced member is accepted."
    OWNED_COMMITS = "commits of owned partitions", "S6", "A member commits only partitions that it has."
    KEPT_COMMITS = "kept commits", "S7", "An acknowledged commit is stored, and is what a member finds."
    LEARNED_POSITIONS = "learned positions", "S7", "A member that has no position begins where its group committed."
    FORWARD_COMMITS = "forward commits", "S8", "A commit never falls behind one that was acknowledged."
    FETCHED_COMMITS = "fetched commits", "S11", "A member commits only what it was delivered."
    ONE_INSTANCE = "one instance", "S12", "An instance id belongs to one client at a time."
    ASSIGNED_PARTITIONS = "assigned partitions", "L1", "No partition of a subscribed topic stays unassigned."
    CAUSED_REBALANCES = "caused rebalances", "L2", "No rebalance begins without a cause."
    NO_STORM = "no storm", "L2", "A member does not cause one rebalance after the other."
    LIVING_MEMBERS = "living members", "L3", "A member that sends heartbeats in time is not expired."
    HEARTBEATS = "heartbeats", "L3", "A client that reads records also sends heartbeats."
    SYNC_AFTER_JOIN = "sync after join", "L4", "A member that has joined a generation asks for its assignment."
    JOINED_REBALANCES = "joined rebalances", "L4", "A member that is told of a rebalance takes part in it."


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant."""

    invariant: Invariant
    fault: Fault
    group: str
    client_id: str
    """Client ID of the member that is concerned; empty if there is none."""
    what: str
    """What happened, as a sentence."""
    why: str
    """Why it is the fault of that side, as a sentence."""
    events: tuple[Event, ...]
    """Events that prove it, the earliest first."""

    def __str__(self) -> str:
        head = f"{self.invariant.letter} ({self.invariant.value}), fault of the {self.fault.value}"
        if self.fault is Fault.UNDECIDED:
            head = f"{self.invariant.letter} ({self.invariant.value}), of undecided fault"
        return f"{head}: {self.what} {self.why}"
