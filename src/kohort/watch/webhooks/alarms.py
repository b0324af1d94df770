"""Begin and end of each condition: what is reported, once for each. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.model import Millis
from kohort.watch.webhooks.events import Condition

CLEAR_MS: Millis = 60_000
"""Time for which a condition must be absent before its end is reported: one that comes and goes is one event."""
MOST_ALARMS = 1_000
"""Maximum number of conditions at a time. Further ones are counted: a cluster that fails must not fail the watcher."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Begin or end of a condition."""

    condition: Condition
    """As it was last seen."""
    began_at: Millis
    ended_at: Millis | None
    """None at its begin."""


@dataclass(slots=True)
class _Alarm:
    condition: Condition
    began_at: Millis
    seen_at: Millis
    gone_at: Millis | None = None
    """Time of the first look that did not find it since it was last seen."""
    reported: bool = False


class Alarms:
    """Conditions that hold, with those that were reported.

    `holds_ms` has, by event, the time for which a condition must hold before it is reported.
    """

    def __init__(self, holds_ms: Mapping[str, Millis]) -> None:
        self._holds_ms = holds_ms
        self._alarms: dict[tuple[str, str | None], _Alarm] = {}
        self.left_out = 0
        """Number of conditions that were too many."""

    def hold(self, now: Millis) -> None:
        """Let all conditions of groups hold on, because nothing is known of them at present."""
        for (_, group_id), alarm in self._alarms.items():
            if group_id is not None:
                alarm.seen_at, alarm.gone_at = now, None

    def step(self, conditions: Iterable[Condition], now: Millis) -> list[Notice]:
        """Take all conditions that hold now, and return what is to be reported, in order."""
        notices = []
        for condition in conditions:
            alarm = self._alarms.get(condition.key)
            if alarm is None:
                if len(self._alarms) >= MOST_ALARMS:
                    self.left_out += 1
                    continue
                alarm = self._alarms[condition.key] = _Alarm(condition, condition.since, now)
            alarm.condition, alarm.seen_at, alarm.gone_at = condition, now, None
            if not alarm.reported and now - alarm.began_at >= self._holds_ms.get(condition.event, 0):
                alarm.reported = True
                notices.append(Notice(condition, alarm.began_at, None))
        for key, alarm in list(self._alarms.items()):
            if alarm.seen_at == now:
                continue
            if alarm.gone_at is None:
                alarm.gone_at = now
            if alarm.reported and now - alarm.seen_at < CLEAR_MS:
                continue
            del self._alarms[key]
            if alarm.reported:
                notices.append(Notice(alarm.condition, alarm.began_at, alarm.gone_at))
        return notices
