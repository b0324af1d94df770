"""The log of a watcher: what it cannot read, and when it can again. It is for operators who do not look at the page."""

import logging

from kohort.model import Millis
from kohort.watch import LiveEvent, ProblemFound, ProblemSolved, SourceChanged, SourceKind, SourceState

_log = logging.getLogger("kohort.watch")

_WITHOUT = {
    SourceKind.LOG: "Groups and rebalances are not followed",
    SourceKind.ADMIN: "Groups are not described",
    SourceKind.JOURNAL: "The journal of rebalances is not read",
    SourceKind.TELEMETRY: "What clients report about themselves is not read",
}
"""What a source that failed means."""
_AGAIN = {
    SourceKind.LOG: "Groups and rebalances are followed again.",
    SourceKind.ADMIN: "Groups are described again.",
    SourceKind.JOURNAL: "The journal of rebalances is read again.",
    SourceKind.TELEMETRY: "What clients report about themselves is read again.",
}
_POLLS = " Meanwhile the groups are described every few seconds, and rebalances between two descriptions are missed."


class LogLines:
    """Sink that logs each change of a source, and each problem once as it appears and once as it is solved."""

    def __init__(self) -> None:
        self._bad: set[SourceKind] = set()

    def sink(self, event: LiveEvent, _now: Millis) -> None:
        """Take an event."""
        match event:
            case SourceChanged(source):
                self._changed(source)
            case ProblemFound(text):
                _log.warning("%s", text)
            case ProblemSolved(text):
                _log.info("Solved: %s", text)

    def _changed(self, source: SourceState) -> None:
        kind = source.kind
        if source.state == "failed":
            _log.warning("%s: %s", _WITHOUT[kind], source.detail)
        elif source.state == "forbidden":
            _log.warning("%s%s", source.detail, _POLLS if kind is SourceKind.LOG else "")
        elif source.state == "following" and kind in self._bad:
            _log.info("%s", _AGAIN[kind])
        if source.state in ("failed", "forbidden"):
            self._bad.add(kind)
        elif source.state in ("following", "off"):
            self._bad.discard(kind)
