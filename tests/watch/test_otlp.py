"""Export of rebalances by OTLP over HTTP, to a receiver that decodes what arrives."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch.live import Live
from kohort.watch.otlp import TraceExport
from kohort.watch.otlp import export as export_module
from kohort.watch.otlp.sender import Sender
from kohort.watch.traces import HURTS_MS, Earlier, Ended, root_of
from tests.watch.web.site import generation as written

LIMIT_S = 30


@dataclass
class Receiver:
    """A receiver of traces. `requests` has what arrived; it answers with `status`."""

    status: int = 200
    requests: Queue[tuple[str, dict[str, str], ExportTraceServiceRequest]] = field(default_factory=Queue)
    hold: threading.Event | None = None
    url: str = ""

    def next(self) -> tuple[str, dict[str, str], ExportTraceServiceRequest]:
        return self.requests.get(timeout=LIMIT_S)

    def spans(self) -> list[Span]:
        request = self.next()[2]
        return [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if state.hold is not None:
                state.hold.wait(LIMIT_S)
            request = ExportTraceServiceRequest.FromString(body)
            self.send_response(state.status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            state.requests.put((self.path, {name.lower(): value for name, value in self.headers.items()}, request))

        def log_message(self, *arguments: object) -> None:
            """The test reads what arrived."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    yield state
    if state.hold is not None:
        state.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()


def rebalance(at: int, generation: int = 7, first_read_at: int | None = None) -> RebalanceRecord:
    change = PartitionChange("orders", 3, "a", "b", at + 5, at + 10, first_read_at)
    return RebalanceRecord("group \N{SNOWMAN}", generation, at, at + 10, partitions=(change,))


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "_TICK_S", 0.01)


async def test_a_rebalance_arrives_as_one_trace(receiver: Receiver, ticks: None) -> None:
    live, reports = Live(), list[str]()
    now = export_module._now()
    async with TraceExport(live, "cluster", receiver.url, report=reports.append):
        live.rebalanced([rebalance(now)], now)
        live.rebalanced([rebalance(now, first_read_at=now + 5 + HURTS_MS)], now)
        path, headers, request = await asyncio.to_thread(receiver.next)
        live.rebalanced([rebalance(now, first_read_at=now + 6)], now)  # too late, and no second trace
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    (of,) = request.resource_spans
    about = {each.key: each.value.string_value for each in of.resource.attributes}
    assert about["service.name"] == "kohort-watch"
    spans = {span.name: span for span in of.scope_spans[0].spans}
    assert list(spans) == [
        "rebalance group \N{SNOWMAN}",
        "member b",
        "assign",
        "first read",
        "member a",
        "revoke",
        "dark orders-3",
    ]
    root = spans["rebalance group \N{SNOWMAN}"]
    trace_id, span_id = root_of("cluster", "group \N{SNOWMAN}", Ended(7, now + 10))
    assert (int.from_bytes(root.trace_id), int.from_bytes(root.span_id)) == (trace_id, span_id)
    assert root.start_time_unix_nano == now * 1_000_000
    assert root.end_time_unix_nano == (now + 5 + HURTS_MS) * 1_000_000
    assert (root.status.code, root.parent_span_id) == (Status.STATUS_CODE_ERROR, b"")
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    assert spans["first read"].parent_span_id == spans["member b"].span_id
    waits = {each.key: each.value.string_value for each in spans["assign"].attributes}
    assert waits["kohort.step.waits_for"] == "a"
    assert receiver.requests.empty() and reports == []


async def test_the_end_of_the_watcher_sends_what_still_waits(receiver: Receiver) -> None:
    live = Live()
    now = export_module._now()
    async with TraceExport(live, "cluster", receiver.url):
        live.rebalanced([rebalance(now, 1), rebalance(now, 2)], now)
    spans = receiver.spans()
    assert [span.name for span in spans].count("rebalance group \N{SNOWMAN}") == 2


@pytest.mark.parametrize("at", [-5_000, 1 << 62])
def test_a_time_that_a_stranger_wrote_into_the_log_ends_no_export(receiver: Receiver, at: int) -> None:
    sender = Sender("cluster", receiver.url, lambda text: None)
    sender.start()
    sender.put((rebalance(at, 1), Earlier()))
    assert {0 <= span.start_time_unix_nano <= span.end_time_unix_nano for span in receiver.spans()} == {True}
    sender.put((rebalance(1_000, 2), Earlier()))
    assert receiver.spans()[0].start_time_unix_nano == 1_000_000_000
    sender.close()


def test_a_rebalance_links_to_the_previous_one_of_the_group(receiver: Receiver) -> None:
    sender = Sender("cluster", receiver.url, print)
    sender.start()
    sender.put((rebalance(100, 9), Earlier(Ended(7, 50))))
    (link,) = receiver.spans()[0].links
    sender.close()
    assert int.from_bytes(link.trace_id) == root_of("cluster", "group \N{SNOWMAN}", Ended(7, 50))[0]


async def test_the_export_finds_the_previous_rebalance_among_those_of_the_group(receiver: Receiver) -> None:
    live = Live()
    now = export_module._now()
    async with TraceExport(live, "cluster", receiver.url):
        live.apply([written("g", now + 1, 1, a=(0, 1))], now + 1)
        live.apply([written("g", now + 2, 2, a=(0,), b=(1,))], now + 2)
    roots = [span for span in receiver.spans() if span.name == "rebalance g"]
    linked = [[int.from_bytes(link.trace_id) for link in root.links] for root in roots]
    assert linked == [[], [root_of("cluster", "g", Ended(1, now + 1))[0]]]


def test_headers_of_the_environment_are_sent_and_never_reported(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2,x-tenant=t1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    reports: Queue[str] = Queue()
    receiver.status = 401
    sender = Sender("cluster", receiver.url.replace("://", "://user:hunter2@") + "?token=hunter2", reports.put)
    sender.start()
    sender.put((rebalance(100), Earlier()))
    _, headers, request = receiver.next()
    report = reports.get(timeout=LIMIT_S)
    sender.close()
    assert headers["x-tenant"] == "t1" and "authorization" in headers
    about = {each.key: each.value.string_value for each in request.resource_spans[0].resource.attributes}
    assert about["service.name"] == "mine"
    where = receiver.url.removesuffix("/v1/traces")
    assert report == f"Rebalances are not exported to {where}: it answers 401 Unauthorized."
    assert reports.get(timeout=LIMIT_S) == f"1 rebalances were not exported to {where}."
    assert "hunter2" not in report + caplog.text


def test_a_failure_is_reported_once_and_so_is_its_end(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")  # for all attempts of the exporter
    receiver.status = 503
    reports: Queue[str] = Queue()
    sender = Sender("cluster", receiver.url, reports.put, again_s=0.01)
    sender.start()
    sender.put((rebalance(100), Earlier()))
    where = receiver.url.removesuffix("/v1/traces")
    assert (
        reports.get(timeout=LIMIT_S) == f"Rebalances are not exported to {where}: it answers 503 Service Unavailable."
    )
    for _ in range(3):
        receiver.next()
    receiver.status = 200
    assert reports.get(timeout=LIMIT_S) == f"Rebalances are exported to {where} again; 0 were lost."
    sender.close()
    assert reports.empty()
    assert "Failed to export" not in caplog.text and "Transient error" not in caplog.text


def test_a_receiver_that_does_not_answer_loses_the_oldest_and_blocks_nobody(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.watch.otlp.sender._MOST_QUEUED", 3)
    receiver.hold = threading.Event()
    reports: Queue[str] = Queue()
    sender = Sender("cluster", receiver.url, reports.put)
    sender.start()
    for generation in range(1, 8):
        sender.put((rebalance(100, generation), Earlier()))
    receiver.hold.set()
    seen: set[int] = set()
    while 7 not in seen:
        for span in receiver.spans():
            seen |= {each.value.int_value for each in span.attributes if each.key == "kohort.rebalance.generation"}
    sender.close()
    assert {5, 6, 7} <= seen
    assert reports.get(timeout=LIMIT_S).endswith(f"rebalances were not exported to {receiver.url[:-10]}.")


def test_lost_rebalances_are_counted_once(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    monkeypatch.setattr("kohort.watch.otlp.sender._MOST_QUEUED", 2)
    receiver.status = 503
    reports: Queue[str] = Queue()
    sender = Sender("cluster", receiver.url, reports.put, again_s=0.01)
    sender.start()
    sender.put((rebalance(100, 1), Earlier()))
    assert "it answers 503" in reports.get(timeout=LIMIT_S)
    for generation_id in (2, 3, 4):
        sender.put((rebalance(100, generation_id), Earlier()))
    receiver.status = 200
    assert reports.get(timeout=LIMIT_S).endswith("again; 2 were lost.")
    sender.close()
    assert reports.empty(), "the end does not report them again"


def test_a_receiver_that_is_not_there_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    reports: Queue[str] = Queue()
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
    sender = Sender("cluster", f"{url}/secret/v1/traces", reports.put)
    sender.start()
    sender.put((rebalance(100), Earlier()))
    assert reports.get(timeout=LIMIT_S) == f"Rebalances are not exported to {url}: Connection refused."
    sender.close()
