"""Server-sent events: what changed, to every page that is open.

Each message is made once for all pages. A page that does not read what it is sent is closed: the
browser then connects again, and asks for everything anew.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field

from kohort.model import Millis
from kohort.watch import Live, LiveEvent, ProblemFound, ProblemSolved, Rebalanced, SourceChanged
from kohort.watch.web.documents import Documents, NotFound, as_json, slices, source_json

log = logging.getLogger("kohort.watch")

MOST_PAGES = 64
"""Maximum number of pages that follow the events."""
MOST_WAITING_BYTES = 4 * 1024 * 1024
"""Maximum size of what waits for one page."""
MOST_REBALANCES = 50
"""Maximum number of rebalances in one second that are sent each; a page learns of more from the summaries."""
_INTERVAL_S = 1.0
_AT_ONCE = 25
"""Number of summaries that are made before others run."""
_DETAIL_SHARE = 20
"""How much longer the pause between two documents of a group is than making one."""
_DETAIL_EVERY_S = 5.0
"""Interval at which a group's document is made although nothing happened: its lag goes on."""
_OVERVIEW_SLICES = 10
"""Number of intervals in which every summary is made anew once: figures of the last hour end by themselves."""


def event(name: str, data: bytes) -> bytes:
    """Return one event. The data must be one line."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


@dataclass(slots=True, eq=False)
class Page:
    """One open page."""

    group_id: str | None
    """Group to which it limits itself."""
    peer: str
    waiting: deque[bytes] = field(default_factory=deque)
    size: int = 0
    closed: bool = False
    too_slow: Callable[[], None] = lambda: None
    """Called when the page is closed because it does not read."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: bytes) -> None:
        """Send a message, or close the page if it has not read the earlier ones."""
        if self.closed:
            return
        if self.waiting and self.size + len(message) > MOST_WAITING_BYTES:
            log.warning("the page of %s is closed: it does not read what it is sent", self.peer)
            self.close()
            self.too_slow()
            return
        self.waiting.append(message)
        self.size += len(message)
        self._news.set()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self.waiting.clear()
        self._news.set()

    async def take(self, timeout_s: float) -> bytes | None:
        """Return what waits; empty bytes after a time without news; None at the end."""
        if not self.waiting and not self.closed:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return b""
        if self.closed:
            return None
        taken = b"".join(self.waiting)
        self.waiting.clear()
        self.size = 0
        return taken


@dataclass(slots=True)
class _Detail:
    """Document of a group that some page shows."""

    made_at: float
    pause_s: float
    data: bytes


class Feed:
    """All open pages. `run` sends them what happens."""

    def __init__(self, live: Live, documents: Documents, clock: Callable[[], Millis]) -> None:
        self.pages: set[Page] = set()
        self._live = live
        self._documents = documents
        self._clock = clock
        self._news = asyncio.Event()
        self._rebalances: deque[Rebalanced] = deque(maxlen=MOST_REBALANCES)
        self._messages: list[bytes] = []
        self._details: dict[str, _Detail] = {}
        self._changed_groups: set[str] = set()
        """Groups that changed since their document was last made, for those that some page shows."""
        self._order: deque[str] = deque()
        self._sent: dict[str, bytes] = {}
        """Summaries that the pages have. A request may make newer ones meanwhile."""
        self._closed = False

    # -- pages

    def open(self, group_id: str | None, peer: str) -> Page | None:
        """Return a new page; None if there are too many."""
        if self._closed or len(self.pages) >= MOST_PAGES:
            return None
        if not self.pages:
            self._sent = self._documents.summaries()
        page = Page(group_id, peer)
        page.put(b"retry: 2000\n" + event("hello", as_json({"at": self._clock()})))
        self.pages.add(page)
        if group_id is not None:
            self._changed_groups.add(group_id)
            self._details.pop(group_id, None)
        self._news.set()
        return page

    def leave(self, page: Page) -> None:
        """Forget a page."""
        page.close()
        self.pages.discard(page)
        if page.group_id is not None and page.group_id not in self._shown():
            self._details.pop(page.group_id, None)
            self._changed_groups.discard(page.group_id)

    def _shown(self) -> set[str]:
        """Return the groups to which pages limit themselves."""
        return {page.group_id for page in self.pages if page.group_id is not None}

    def close(self) -> None:
        """End all streams, and open none any more."""
        self._closed = True
        for page in list(self.pages):
            page.close()

    # -- events

    def sink(self, what: LiveEvent, _now: Millis) -> None:
        """Take an event. `documents` must have taken it already."""
        if not self.pages:
            return
        match what:
            case Rebalanced():
                self._rebalances.append(what)
            case SourceChanged(source):
                self._messages.append(event("source", as_json(source_json(source))))
            case ProblemFound(text):
                self._messages.append(event("problem", as_json({"text": text})))
            case ProblemSolved(text):
                self._messages.append(event("solved", as_json({"text": text})))
            case _:
                return
        self._news.set()

    async def run(self) -> None:
        """Send what happens, until cancelled."""
        while True:
            if not self.pages:
                self._news.clear()
                await self._news.wait()
            started = time.monotonic()
            self._send_news()
            await self._send_summaries()
            await self._send_details()
            # What happens meanwhile waits: so bursts are sent together.
            await asyncio.sleep(max(0.05, _INTERVAL_S - (time.monotonic() - started)))

    def _send_news(self) -> None:
        messages, self._messages = self._messages, []
        self._to_pages(messages)
        rebalances = list(self._rebalances)
        self._rebalances.clear()
        for each in rebalances:
            if (data := self._documents.event_of(each.record)) is not None:
                self._to_pages([event("rebalance", data)], each.record.group_id)

    async def _send_summaries(self) -> None:
        now, documents = self._clock(), self._documents
        for group_ids in slices(self._due(), _AT_ONCE):
            for group_id in group_ids:
                documents.refresh(group_id, now)
            await asyncio.sleep(0)
        summaries = documents.summaries()
        changed = [group_id for group_id, data in summaries.items() if self._sent.get(group_id) != data]
        gone, self._sent = self._sent.keys() - summaries.keys(), summaries
        if changed or gone:
            self._to_pages([_groups(documents, now, changed, gone)], of_all=True)
            for group_id in self._shown():
                its = [group_id] if group_id in changed else []
                if its or group_id in gone:
                    self._to_pages([_groups(documents, now, its, gone & {group_id})], group_id, of_all=False)

    def _due(self) -> list[str]:
        """Return the groups whose summaries are out of date, and the next ones of all."""
        due = dict.fromkeys(self._documents.dirty)
        self._changed_groups |= due.keys() & self._shown()
        if not self._order:
            self._order.extend(self._live.groups)
        for _ in range(-(-len(self._live.groups) // _OVERVIEW_SLICES)):
            if self._order:
                due[self._order.popleft()] = None
        return list(due)

    async def _send_details(self) -> None:
        for group_id in self._shown():
            if group_id not in self._shown():
                continue  # its page left meanwhile
            detail, started = self._details.get(group_id), time.monotonic()
            if detail is not None:
                wait = detail.pause_s if group_id in self._changed_groups else max(_DETAIL_EVERY_S, detail.pause_s)
                if started - detail.made_at < wait:
                    continue
            self._changed_groups.discard(group_id)
            try:
                data = as_json(self._documents.group(group_id, self._clock()))
            except NotFound:
                self._details.pop(group_id, None)
                continue
            took = time.monotonic() - started
            if detail is None or detail.data != data:
                self._to_pages([event("group", data)], group_id, of_all=False)
            self._details[group_id] = _Detail(started, _DETAIL_SHARE * took, data)
            await asyncio.sleep(0)

    def _to_pages(self, messages: Iterable[bytes], group_id: str | None = None, *, of_all: bool | None = None) -> None:
        """Send messages to every page that wants them.

        Without a group, all pages want them. `of_all` limits them to the pages of all groups (True) or of
        one group (False).
        """
        for page in list(self.pages):
            if page.group_id is None:
                wanted = of_all is not False
            else:
                wanted = of_all is not True and group_id in (None, page.group_id)
            if wanted:
                for message in messages:
                    page.put(message)


def _groups(documents: Documents, now: Millis, changed: Iterable[str], gone: Set[str]) -> bytes:
    summaries = b",".join(documents.summary(group_id, now) for group_id in changed)
    head = as_json({"at": now, "gone": sorted(gone)})
    return event("groups", head[:-1] + b',"changed":[' + summaries + b"]}")
