"""The routes of the web server. Everything is read: no request changes anything."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kohort.exposition import OPENMETRICS, TEXT, wants_openmetrics
from kohort.model import Millis
from kohort.watch import Live
from kohort.watch.web.documents import MOST_RECORDS, Documents, NotFound, as_json, slices
from kohort.watch.web.feed import Feed, Page
from kohort.watch.web.guard import refusal
from kohort.watch.web.page_files import INDEX, PageFile, page_files

log = logging.getLogger("kohort.watch")

_KEEP_ALIVE_S = 15.0
_SEND_WITHIN_S = 60.0
"""Time within which a client must read an answer."""
_MOST_AT_ONCE = 50
_MOST_FIELDS = 50
"""Maximum number of fields of a query."""
_WELL = ("following", "loading")

OtherMetrics = Callable[[bool], Awaitable[bytes]]
"""Returns metrics as text, as `Exposition.part` does, in OpenMetrics or not."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What `/metrics` shows."""

    steps: Callable[[bool, Iterable[bytes]], Generator[None, None, bytes]]
    """Makes the text in short steps, in the format of OpenMetrics or else of Prometheus, with other metrics."""
    others: OtherMetrics | None = None


class BadRequest(Exception):
    """The query cannot be read. The message is for the user."""


class Application:
    """ASGI application of the page and its API, behind `Guard`."""

    def __init__(
        self, live: Live, documents: Documents, feed: Feed, clock: Callable[[], Millis], metrics: Metrics | None = None
    ) -> None:
        self._live = live
        self._documents = documents
        self._feed = feed
        self._clock = clock
        self._metrics = metrics
        self._files = page_files()
        self.asgi: ASGIApp = Starlette(
            routes=[
                Route("/", self._page),
                *self._of_group("/groups/{group}", "/group"),
                Route("/static/{name}", self._static),
                Route("/healthz", self._health),
                Route("/metrics", self._exposition),
                Route("/events", _Events(feed)),
                Route("/api/groups", self._groups),
            ],
            exception_handlers={
                NotFound: _not_found,
                BadRequest: _bad_request,
                HTTPException: _http_error,
            },
        )
        self.asgi.router.redirect_slashes = False

    def _of_group(self, *prefixes: str) -> Iterator[Route]:
        """Yield the routes of one group. Browsers resolve "." and ".." in paths, and a path has no empty segment:
        groups with such IDs are named by ?id=."""
        for path in prefixes:
            yield Route(path, self._page)
            yield Route(f"{path}/rebalances/{{generation}}", self._page)
            yield Route(f"/api{path}", self._group)
            yield Route(f"/api{path}/rebalances", self._rebalances)
            yield Route(f"/api{path}/rebalances/{{generation}}", self._rebalance)
            yield Route(f"/api{path}/timeline", self._timeline)

    # -- the page

    async def _page(self, _request: Request) -> Response:
        return _file(self._files[INDEX])

    async def _static(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise NotFound("There is no such file.")
        return _file(found)

    # -- state

    async def _health(self, _request: Request) -> Response:
        well = any(source.state in _WELL for source in self._live.group_sources)
        states = [{"kind": source.kind.value, "state": source.state} for source in self._live.sources.values()]
        return _json(as_json({"status": "ok" if well else "failing", "sources": states}), 200 if well else 503)

    async def _exposition(self, request: Request) -> Response:
        if self._metrics is None:
            raise NotFound("This server has no metrics.")
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        steps = self._metrics.steps(openmetrics, await self._other_metrics(openmetrics))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return Response(end.value, media_type=OPENMETRICS if openmetrics else TEXT)
            await asyncio.sleep(0)  # a scrape of thousands of groups must not stop the sources

    async def _other_metrics(self, openmetrics: bool) -> list[bytes]:
        if self._metrics is None or self._metrics.others is None:
            return []
        try:
            return [await self._metrics.others(openmetrics)]
        except TimeoutError:
            log.warning("/metrics is without the metrics of the process itself: it did not answer in time.")
            return []

    # -- the API

    async def _groups(self, _request: Request) -> Response:
        now = self._clock()
        for group_ids in slices(list(self._documents.dirty), _MOST_AT_ONCE):
            for group_id in group_ids:
                self._documents.refresh(group_id, now)
            await asyncio.sleep(0)
        return _json(self._documents.groups(now))

    async def _group(self, request: Request) -> Response:
        return _json(as_json(self._documents.group(_group_id(request), self._clock())))

    async def _rebalances(self, request: Request) -> Response:
        query = _query(request)
        since, limit = _number(query, "since", 0), _number(query, "limit", MOST_RECORDS)
        return _json(self._documents.rebalances(_group_id(request), since, limit))

    async def _rebalance(self, request: Request) -> Response:
        text = request.path_params["generation"]
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise BadRequest("A generation is a number.")
        return _json(self._documents.rebalance(_group_id(request), int(text)))

    async def _timeline(self, request: Request) -> Response:
        now, query = self._clock(), _query(request)
        end = min(now, _number(query, "to", now))
        start = _number(query, "from", max(0, end - 3_600_000))
        if start > end:
            raise BadRequest("from must not be later than to.")
        timeline = self._documents.timeline(_group_id(request), start, end)
        # A long history of many partitions takes a while to write.
        return _json(await asyncio.to_thread(lambda: as_json(timeline.to_json())))


class _Events:
    """Stream of events, until the page leaves or the server ends."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        client = scope.get("client")
        groups = _query(request).get("group")
        page = self._feed.open(groups[0] if groups else None, client[0] if client else "unknown")
        if page is None:
            busy = refusal(503, "Too many pages are open: close some of them.", {"Retry-After": "5"})
            await busy(scope, receive, send)
            return
        abort = scope.get("state", {}).get("abort")
        if abort is not None:
            page.too_slow = abort
        leaving = asyncio.create_task(_until_left(receive, page))
        try:
            await _stream(page, send, only_headers=scope["method"] == "HEAD")
        finally:
            self._feed.leave(page)
            leaving.cancel()


async def _stream(page: Page, send: Send, *, only_headers: bool) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),  # nginx would hold events back
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while not only_headers:
        taken = await page.take(_KEEP_ALIVE_S)
        if taken is None:
            break
        await send({"type": "http.response.body", "body": taken or b": nothing new\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive, page: Page) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    page.close()


def _group_id(request: Request) -> str:
    if "group" in request.path_params:
        return unquote(request.path_params["group"], errors="surrogateescape")
    if not (named := _query(request).get("id")):
        raise BadRequest("Name a group, as in ?id=orders.")
    return named[0]


def _query(request: Request) -> Mapping[str, list[str]]:
    text = request.scope["query_string"].decode("latin-1")
    try:
        return parse_qs(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadRequest("The query has too many fields.") from None


def _number(query: Mapping[str, list[str]], name: str, default: int) -> int:
    text = query.get(name, [""])[0]
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise BadRequest(f"{name} must be a number that is not negative.")
    return int(text)


def _json(data: bytes, status: int = 200) -> Response:
    return Response(data, status, media_type="application/json")


def _file(found: PageFile) -> Response:
    return Response(found.content, headers={"content-type": found.media_type})


async def _not_found(_request: Request, problem: Exception) -> Response:
    return refusal(404, str(problem))


async def _bad_request(_request: Request, problem: Exception) -> Response:
    return refusal(400, str(problem))


async def _http_error(_request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    sentence = "There is no such page." if problem.status_code == 404 else str(problem.detail)
    return refusal(problem.status_code, sentence)
