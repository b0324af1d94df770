"""Invariants that must always hold (S1 to S29) and events that must eventually occur (L1 to L11), with their texts."""

from __future__ import annotations

INVARIANTS = {
    "S1": "At most one member has a partition.",
    "S2": "Only existing partitions of subscribed topics are assigned.",
    "S3": "The assignment is complete and balanced.",
    "S4": "Generations and group epochs only increase; a member's epoch never decreases or exceeds the group's.",
    "S5": "A request with an older generation, or from a client that is not a member, changes nothing.",
    "S6": "A commit counts only at the member's generation or epoch.",
    "S7": "An acknowledged commit survives, with its metadata and leader epoch; every value that is read was written.",
    "S8": "Commits apply in the order of the log: the offset of a group that only moves forward never decreases.",
    "S9": "At any time only one coordinator acknowledges changes of a group.",
    "S10": "Replaying the log, compacted or not, gives the coordinator's state.",
    "S11": "Every record below a committed position was delivered to a member before.",
    "S12": "A static member that returns in its session keeps its assignment without a rebalance; of two, one remains.",
    "S13": "A group or connection that fails never changes another.",
    "S14": "An error code is returned only where Apache Kafka may return it.",
    "S15": "After all members have left, no state of their groups remains.",
    "S16": "An acknowledged record is in the log at the acknowledged offset, once and in order.",
    "S17": "A reader gets the records of a partition from its start offset, each once and in order.",
    "S18": "A response in a fetch session has only partitions that the session requests.",
    "S19": "A client raises or logs each error that brokers return repeatedly.",
    "S20": "A client without a right, or whose password or session is not valid, learns and changes nothing.",
    "S21": "Without faults, a client authenticates again before its session ends.",
    "S22": "A member that lives does not expire when a test kit skips time.",
    "S23": "A read_committed reader gets each record of a committed transaction in order, and no other.",
    "S24": "A transaction is visible in all its partitions and offsets, or in none, as its application decided.",
    "S25": "Nothing of a transaction is visible in the next one.",
    "S26": "A last stable offset never goes back, nor passes an open transaction.",
    "S27": "A transactional copy has each record once.",
    "S28": "Responses on a connection are in the order of its requests.",
    "S29": "A member that lives and can connect again is not removed early because its connection closed.",
    "L1": "A group settles within its timeouts.",
    "L2": "A group does not rebalance without a reason, nor because its broker failed, if no session expires.",
    "L3": "A dead member is removed within its session timeout.",
    "L4": "Every rebalance of a group ends.",
    "L5": "The lag of each group reaches zero.",
    "L6": "Clients find the coordinator of each group.",
    "L7": "Every readable partition is read to its end.",
    "L8": "A held heartbeat is answered by its deadline.",
    "L9": "A last stable offset does not stand still for longer than the transaction's timeout.",
    "L10": "A transactional copy has every record at the end, and every commit is complete.",
    "L11": "All brokers have the same level of each feature.",
}
"""Texts by number, as in the design."""


class Violation(BaseException):
    """Violation of an invariant. It is no Exception, so that no handler of production code catches it.

    The first line of `detail` says what happened. The message has that line, then a line on why it
    is wrong, and then the rest of `detail`.
    """

    def __init__(self, invariant: str, detail: str) -> None:
        self.invariant = invariant
        self.detail = detail
        happened, _, rest = detail.partition("\n")
        text = f"{invariant}: {happened}\n  That is wrong: {INVARIANTS[invariant]}"
        super().__init__(f"{text}\n{rest}" if rest else text)
