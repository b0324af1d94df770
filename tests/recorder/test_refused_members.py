"""Members that a group could not take: records of their own, which are no rebalances."""

from kohort.group_events import MemberFacts, MemberRefused
from kohort.recorder import Journal, RebalanceRecord
from kohort.recorder.journal import REFUSED_AGAIN_MS
from kohort.recorder.views.printing import headline, rebalances_table, summary, why


def refused(member_id: str = "", reason: str = "no assignor in common", client_id: str = "app") -> MemberRefused:
    facts = MemberFacts(member_id, client_id, "/h", None)
    return MemberRefused("g", facts, "INCONSISTENT_GROUP_PROTOCOL", reason)


def test_a_refusal_is_logged_once_until_it_is_old_or_has_another_reason() -> None:
    journal = Journal()
    (first,) = journal.observe(refused(), 1_000)
    assert RebalanceRecord.from_json(first.to_json()) == first
    assert (first.group_id, first.is_rebalance, first.ended_at) == ("g", False, 1_000)
    assert journal.observe(refused(member_id="app-1"), 2_000) == [], "each attempt may come with another id"
    assert len(journal.observe(refused(reason="its subscription cannot be read"), 3_000)) == 1
    assert len(journal.observe(refused(client_id="other"), 3_000)) == 1
    assert journal.observe(refused(), 1_000 + REFUSED_AGAIN_MS - 1) == []
    assert len(journal.observe(refused(), 1_000 + REFUSED_AGAIN_MS)) == 1


def test_a_refusal_is_printed_and_not_counted_as_a_rebalance() -> None:
    (record,) = Journal().observe(refused(), 1_000)
    assert why(record, {}) == "refused: app, INCONSISTENT_GROUP_PROTOCOL: no assignor in common"
    assert summary([record]) == "No rebalance is recorded. 1 member could not join."
    assert rebalances_table([record]).row_count == 1
    assert "generation" not in headline(record, {}).plain


def test_the_memory_of_refusals_is_bounded() -> None:
    journal = Journal()
    for number in range(1_500):
        journal.observe(refused(client_id=f"app-{number}"), 1_000)
    assert journal.observe(refused(client_id="app-1499"), 1_001) == []
    assert len(journal.observe(refused(client_id="app-0"), 1_001)) == 1, "the oldest is forgotten"
