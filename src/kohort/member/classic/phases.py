"""Transitions between the phases of a classic member."""

from kohort.member.phase import Phase

_ALL = frozenset(
    {
        Phase.UNSUBSCRIBED,
        Phase.PREPARING,
        Phase.JOINING,
        Phase.ASSIGNING,
        Phase.SYNCING,
        Phase.STABLE,
        Phase.STALE,
        Phase.LEAVING,
        Phase.FATAL,
    }
)

BEFORE: dict[Phase, frozenset[Phase]] = {
    Phase.UNSUBSCRIBED: frozenset({Phase.LEAVING}),
    Phase.PREPARING: _ALL - {Phase.PREPARING, Phase.LEAVING},
    Phase.JOINING: frozenset({Phase.PREPARING}),
    Phase.ASSIGNING: frozenset({Phase.JOINING}),
    Phase.SYNCING: frozenset({Phase.JOINING, Phase.ASSIGNING}),
    Phase.STABLE: frozenset({Phase.SYNCING}),
    Phase.STALE: frozenset({Phase.PREPARING, Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING, Phase.STABLE}),
    Phase.LEAVING: _ALL - {Phase.UNSUBSCRIBED, Phase.LEAVING},
    Phase.FATAL: _ALL - {Phase.FATAL},
}
"""The phases from which each phase may be entered."""

IN_REBALANCE = frozenset({Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING})
"""Phases between JoinGroup and the assignment, in which the coordinator accepts no commits."""
