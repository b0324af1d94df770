"""Invariants that must always hold (S1 to S19) and events that must eventually occur (L1 to L8), with their texts."""

from __future__ import annotations

INVARIANTS = {
    "S1": "At most one member has a partition.",
    "S2": "Only what is subscribed and exists is assigned.",
    "S3": "The assignment is complete and balanced.",
    "S4": "Generations and group epochs only rise; a member's epoch never falls and never passes the group's.",
    "S5": "A request of an older generation, or of who is no member, changes nothing.",
    "S6": "A commit counts only at the member's generation or epoch.",
    "S7": "An acknowledged commit survives, with its metadata and leader epoch; no value appears that nobody wrote.",
    "S8": "Commits apply in log order: a group that only moves forward never reads back.",
    "S9": "One coordinator acknowledges a group's changes at any time.",
    "S10": "Replaying the log gives the live state, compacted or not.",
    "S11": "Every record below a committed position was delivered to a member before.",
    "S12": "A static member that returns in its session gets its assignment without a rebalance; of two, one survives.",
    "S13": "One group or connection that fails never changes another.",
    "S14": "Error codes appear only where Kafka gives them.",
    "S15": "When groups have left, nothing of them is left.",
    "S16": "An acknowledged record is in the log where its producer was told, once and in order.",
    "S17": "A reader is given the records of a partition from where it begins, each once and in order.",
    "S18": "A fetch session is answered only what it asks for.",
    "S19": "A client raises or logs each error that brokers go on answering.",
    "L1": "A group comes to rest within its timeouts.",
    "L2": "A quiet group does not rebalance, nor does one whose broker failed while sessions hold.",
    "L3": "A dead member is evicted within its session timeout.",
    "L4": "No group stays in a rebalance for ever.",
    "L5": "Lag drains to nothing.",
    "L6": "A coordinator is found.",
    "L7": "A partition that can be read is read to its end.",
    "L8": "A held heartbeat is answered by its time.",
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
