"""Format the journal for a terminal: one line per rebalance, and the partitions of one rebalance below it.

Names and reasons are strangers' input: `printable` takes out what a terminal would obey, and `Text` has no markup.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from statistics import median

from rich.table import Table
from rich.text import Text

from kohort.group_events import Cause, Refused
from kohort.model import Millis
from kohort.printable import printable
from kohort.recorder.held_offsets import HeldOffsets
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger
from kohort.recorder.views.member_labels import label_of, labels, seconds

_BAR = 28


def rebalances_table(records: Sequence[RebalanceRecord]) -> Table:
    """Return a table of rebalances: cause, members, partitions moved, median and longest dark time.

    A follow-up is listed below the rebalance that caused it.
    """
    known = labels(records)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    groups = len({record.group_id for record in records}) > 1
    if groups:
        table.add_column("group", no_wrap=True)
    table.add_column("time", no_wrap=True)
    for name in ("gen", "took"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    table.add_column("members", no_wrap=True)
    for name in ("moved", "median", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        row = _row(record, known)
        table.add_row(*([_name(record.group_id)] if groups else []), *row)
    return table


def headline(record: RebalanceRecord, known: dict[str, str]) -> Text:
    """Return the line that is printed above a rebalance's partitions."""
    at = clock(record.started_at or record.ended_at)
    if not record.is_rebalance:
        return Text.assemble(f"{at}  ", (f"{printable(record.group_id)}: {why(record, known)}", "bold"))
    moved = _moved(record)
    moved = f"{moved} moved" if moved.isdigit() else moved
    parts = [f"took {seconds(record.wall_ms)}", f"members {_members(record)}", moved]
    parts += [f"by {printable(record.protocol)}"] if record.protocol else []
    name = f"{printable(record.group_id)} generation {record.generation}"
    return Text.assemble(
        f"{at}  ", (f"{name}: {why(record, known)}", "bold"), "".join(f"  ·  {part}" for part in parts)
    )


def partitions_table(record: RebalanceRecord, known: dict[str, str]) -> Table:
    """Return a table of one rebalance's partitions: previous owner, owner, and dark time on a common scale.

    A bar is heavy while the partition has no owner, and light until the new owner reads it.
    """
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("partition", "from", "to"):
        table.add_column(name, no_wrap=True)
    table.add_column("dark", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    scale = _scale(record.partitions)
    for change in record.partitions:
        table.add_row(
            _name(str(change)),
            _name(label_of(known, change.previous_owner)),
            _name(label_of(known, change.owner)),
            seconds(None if record.was_empty else change.dark_ms),
            "" if record.was_empty else _bar(change, scale),
        )
    return table


def weighed_table(record: RebalanceRecord, known: dict[str, str]) -> Table:
    """Return a table of the assignor's reasons, one row per member."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("member", no_wrap=True)
    table.add_column("weighed", overflow="fold")
    for weighed in record.weighed:
        table.add_row(_name(label_of(known, weighed.member_id)), _name(weighed.reason))
    return table


def summary(records: Sequence[RebalanceRecord]) -> str:
    """Return a one-sentence summary of all records. It has names: print it without markup."""
    refusals = sum(bool(record.refused_members) for record in records)
    waits = sum(record.held_offsets is not None and record.held_offsets.end is None for record in records)
    texts = [_summary_of_rebalances([record for record in records if record.is_rebalance])]
    texts += [f"{_count(refusals, 'member')} could not join."] if refusals else []
    texts += [f"Members waited for {_count(waits, 'transaction')}."] if waits else []
    return " ".join(texts)


def _summary_of_rebalances(records: Sequence[RebalanceRecord]) -> str:
    if not records:
        return "No rebalance is recorded."
    moved = sum(len(record.moved) for record in records)
    changes = (change for record in records if not record.was_empty for change in record.partitions)
    dark = [(change.dark_ms, str(change)) for change in changes if change.dark_ms]
    text = f"{_count(len(records), 'rebalance')}, {_count(moved, 'partition')} moved"
    if not dark:
        return text + ", none was dark."
    longest, partition = max(dark)
    total = sum(milliseconds for milliseconds, _ in dark)
    return (
        f"{text}; partitions were dark for {seconds(total)} in all, the longest for {seconds(longest)}"
        f" ({printable(partition)})."
    )


def why(record: RebalanceRecord, known: dict[str, str]) -> str:
    """Return the cause, its member and the reason that the member sent; later triggers and refused targets follow."""
    if record.held_offsets is not None:
        return printable(_wait(record.held_offsets, record.ended_at))
    if not record.is_rebalance:
        return printable(
            "; ".join(
                f"refused: {member.client_id}, {member.code}: {member.reason}" for member in record.refused_members
            )
        )
    parts = [_trigger(trigger, known) for trigger in record.triggers] or ["unknown"]
    if record.triggers and record.follow_up_of is not None:
        # The member's own reason only repeats that this is a follow-up.
        parts[0] = f"follow-up of generation {record.follow_up_of}: {_trigger(record.triggers[0], known, reason=False)}"
    parts += [_refused(refused, known) for refused in record.refused]
    return printable("; then ".join(dict.fromkeys(parts)))


def _wait(held: HeldOffsets, now: Millis) -> str:
    what = f"for the offsets of {held.listed} in the transaction of {held.transaction}"
    waited = seconds(now - held.waiting_since)
    if held.end is not None:
        return f"members waited {waited} {what}: {held.end}"
    return f"members wait {waited} {what}, pending since {clock(held.pending_since)}: {held.advice}"


def _refused(refused: Refused, known: dict[str, str]) -> str:
    who = f" of {label_of(known, refused.member_id)}" if refused.member_id else ""
    return f"target{who} refused ({refused.reason})"


def _trigger(trigger: Trigger, known: dict[str, str], *, reason: bool = True) -> str:
    who = f": {label_of(known, trigger.member_id)}" if trigger.member_id else ""
    reason_text = f" ({trigger.reason})" if trigger.reason and reason else ""
    return f"{trigger.cause}{who}{reason_text}"


def _row(record: RebalanceRecord, known: dict[str, str]) -> list[str | Text]:
    if not record.is_rebalance:
        return [clock(record.ended_at), "–", "–", Text(why(record, known), style="red"), "–", "–", "–", "–"]
    dark = record.dark_times
    follows = record.follow_up_of is not None
    return [
        clock(record.started_at or record.ended_at),
        str(record.generation),
        seconds(record.wall_ms),
        Text(("└ " if follows else "") + why(record, known), style="dim" if follows else "bold"),
        _members(record),
        _moved(record),
        seconds(median(dark)) if dark else "–",
        Text(seconds(max(dark)), style="red" if max(dark) >= 1000 else "") if dark else "–",
    ]


def _moved(record: RebalanceRecord) -> str:
    taken = sum(change.owner is None for change in record.partitions)
    if record.moved or not taken:
        return f"{len(record.moved)}"
    return f"{taken} to move" if record.members_after else f"{taken} free"


def _members(record: RebalanceRecord) -> str:
    # After a failover the earlier members are unknown, so it is unknown which members are new.
    known = bool(record.before) or record.cause == Cause.FIRST_MEMBER.value
    changes = [f"+{len(record.came)}"] if record.came and known else []
    changes += [f"−{len(record.went)}"] if record.went else []
    return f"{record.members_after}" + (f" ({' '.join(changes)})" if changes else "")


def clock(at: Millis) -> str:
    """Format a time of day in the local zone, with milliseconds."""
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _name(text: str) -> Text:
    return Text(printable(text))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def _scale(changes: Iterable[PartitionChange]) -> tuple[Millis, Millis] | None:
    known = [
        at for change in changes if change.dark_ms is not None for at in (change.revoked_at, change.first_read_at) if at
    ]
    return (min(known), max(known)) if known else None


def _bar(change: PartitionChange, scale: tuple[Millis, Millis] | None) -> Text:
    if scale is None or change.revoked_at is None or change.first_read_at is None:
        return Text("")
    low, high = scale
    width = max(1, high - low)

    def column(at: Millis) -> int:
        return round((min(max(at, low), high) - low) * _BAR / width)

    begin, end = column(change.revoked_at), column(change.first_read_at)
    given = min(max(column(change.assigned_at or change.first_read_at), begin), end)
    return Text.assemble(" " * begin, ("━" * (given - begin), "red"), ("╌" * max(end - given, 1), "yellow"))
