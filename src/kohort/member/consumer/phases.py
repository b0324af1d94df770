"""Transitions between the phases of a consumer group's member (KIP-848's client; Kafka calls it MemberState)."""

from kohort.member.phase import Phase

IN_GROUP = frozenset({Phase.JOINING, Phase.RECONCILING, Phase.ACKNOWLEDGING, Phase.STABLE})
"""Phases in which the member is in the group or is joining it, and does not leave."""

_OUT = frozenset({Phase.FENCED, Phase.STALE, Phase.FATAL})

BEFORE: dict[Phase, frozenset[Phase]] = {
    Phase.UNSUBSCRIBED: frozenset({Phase.LEAVING}),
    Phase.JOINING: _OUT | {Phase.UNSUBSCRIBED},
    Phase.RECONCILING: frozenset({Phase.JOINING, Phase.ACKNOWLEDGING, Phase.STABLE}),
    Phase.ACKNOWLEDGING: frozenset({Phase.RECONCILING}),
    Phase.STABLE: frozenset({Phase.ACKNOWLEDGING}),
    Phase.FENCED: IN_GROUP,
    Phase.STALE: IN_GROUP,
    Phase.FATAL: IN_GROUP | {Phase.FENCED, Phase.STALE},
    Phase.PREPARE_LEAVING: IN_GROUP | _OUT,
    Phase.LEAVING: frozenset({Phase.PREPARE_LEAVING}),
}
"""The phases from which each phase may be entered."""
