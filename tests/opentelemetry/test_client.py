"""Spans of the client, and their way through a broker."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes, server_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind, StatusCode

from kohort import Admin, Consumer, ConsumerRecord, KafkaError, NewTopic, Producer, TopicPartition, blocking
from kohort.compat import aiokafka, confluent, kafka_python
from kohort.opentelemetry import KohortInstrumentor, conventions, processing
from tests.interop.broker import Broker

LIMIT_S = 40


class Spans(InMemorySpanExporter):
    """Finished spans."""

    def __init__(self) -> None:
        super().__init__()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self))
        self.on_export: Callable[[], object] = list

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self.on_export()
        return result

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.get_finished_spans() if span.name.startswith(start)]

    def one(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self.get_finished_spans() if span.name == name)
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def instrumented(spans: Spans) -> Iterator[Spans]:
    """New clients make spans."""
    KohortInstrumentor().instrument(tracer_provider=spans.provider, skip_dep_check=True)
    yield spans
    if KohortInstrumentor().is_instrumented_by_opentelemetry:
        KohortInstrumentor().uninstrument()


@pytest.fixture(autouse=True)
def nothing_stays_current() -> Iterator[None]:
    yield
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.fixture
async def topic(any_broker: Broker) -> str:
    name = f"traced-{uuid.uuid4().hex[:8]}"
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, 1)])
    return name


def reading(broker: Broker, **options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", "client_id": "reader"} | options


def span_id(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


async def test_a_trace_goes_from_the_producer_through_the_broker_to_the_consumer(
    any_broker: Broker, topic: str, instrumented: Spans
) -> None:
    tracer = instrumented.provider.get_tracer("application")
    group = f"g-{topic}"
    async with Producer(bootstrap_servers=any_broker.bootstrap, client_id="writer") as producer:
        with tracer.start_as_current_span("order") as order:
            await (await producer.send(topic, b"1", key=b"k"))
    options = reading(any_broker, group_id=group, enable_auto_commit=False)
    async with asyncio.timeout(LIMIT_S), Consumer(topic, **options) as consumer:
        record = await anext(consumer)
        with tracer.start_as_current_span("work"):
            await consumer.commit()
    assert [name for name, _ in record.headers] == ["traceparent"]
    sent, processed = instrumented.one(f"send {topic}"), instrumented.one(f"process {topic}")
    committed, worked = instrumented.one(f"commit {topic}"), instrumented.one("work")
    assert {span_id(span)[0] for span in (sent, processed, worked, committed)} == {order.get_span_context().trace_id}
    assert parent_of(processed) == span_id(sent)
    assert links_of(processed) == [span_id(sent)]
    assert parent_of(worked) == span_id(processed)
    assert parent_of(committed) == span_id(worked)
    host, _, port = any_broker.bootstrap.partition(",")[0].rpartition(":")
    where = {"server.address": host, "server.port": int(port), "messaging.system": "kafka"}
    at = {"messaging.destination.name": topic, "messaging.destination.partition.id": "0"}
    member = {"messaging.client.id": "reader", "messaging.consumer.group.name": group}
    assert sent.attributes == where | at | {
        "messaging.client.id": "writer",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
    }
    assert processed.attributes == where | at | member | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
    }
    assert committed.attributes == where | at | member | {
        "messaging.operation.name": "commit",
        "messaging.operation.type": "settle",
        "messaging.kafka.offset": 1,
    }
    assert [span.kind for span in (sent, processed, committed)] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    assert sent.start_time and sent.end_time and processed.start_time and sent.start_time < processed.start_time
    assert {span.status.status_code for span in (sent, processed, committed)} == {StatusCode.UNSET}


async def test_a_poll_of_several_records_has_links_to_their_producers(
    any_broker: Broker, topic: str, instrumented: Spans
) -> None:
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for number in range(3):
            await producer.send(topic, str(number).encode())
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(LIMIT_S), Consumer(**reading(any_broker, group_id=None)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(records) < 3:
            records += await consumer.poll()
            assert not trace.get_current_span().get_span_context().is_valid
    polls = instrumented.named("poll ")
    sent = {span_id(span) for span in instrumented.named("send ")}
    assert {link for span in polls for link in links_of(span)} == sent
    assert sum(_int(span, "messaging.batch.message_count") for span in polls) == 3
    attributes = polls[0].attributes or {}
    assert attributes["messaging.operation.type"] == "receive"
    assert "messaging.consumer.group.name" not in attributes
    assert (polls[0].kind, polls[0].parent) == (SpanKind.CLIENT, None)
    assert polls[0].links[0].attributes == {
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    with processing(records, group_id="g", tracer_provider=instrumented.provider):
        pass
    batch = instrumented.one(f"process {topic}")
    assert (set(links_of(batch)), batch.parent) == (sent, None)
    assert (batch.attributes or {})["messaging.batch.message_count"] == 3


def _int(span: ReadableSpan, name: str) -> int:
    value = (span.attributes or {})[name]
    assert isinstance(value, int)
    return value


async def test_the_time_between_two_records_is_no_processing(
    any_broker: Broker, topic: str, instrumented: Spans
) -> None:
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await (await producer.send(topic, b"1"))
        async with asyncio.timeout(LIMIT_S), Consumer(**reading(any_broker)) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await anext(consumer)
            assert trace.get_current_span().get_span_context().is_valid
            ended = asyncio.Event()
            instrumented.on_export = ended.set
            following = asyncio.ensure_future(_next(consumer))
            await ended.wait()
            assert len(instrumented.named("process ")) == 1
            await (await producer.send(topic, b"2"))
            assert await following == b"2"
            first, second = instrumented.named("process ")[0], instrumented.named("send ")[1]
            assert first.end_time and second.start_time and first.end_time <= second.start_time
    assert len(instrumented.named("process ")) == 2


async def _next(consumer: Consumer) -> Any:
    return (await anext(consumer)).value


def test_the_blocking_client_makes_the_same_spans(any_broker: Broker, topic: str, instrumented: Spans) -> None:
    tracer = instrumented.provider.get_tracer("application")
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with tracer.start_as_current_span("order"):
            producer.send(topic, b"1").result()
    options = reading(any_broker, group_id=f"g-{topic}", consumer_timeout_ms=20_000, enable_auto_commit=False)
    with blocking.Consumer(topic, **options) as consumer:
        for _ in consumer:
            with tracer.start_as_current_span("work"):
                consumer.commit()
            break
        consumer.seek_to_beginning()
        while not consumer.poll(timeout=0.5):
            assert True
    order, sent = instrumented.one("order"), instrumented.one(f"send {topic}")
    processed, committed = instrumented.one(f"process {topic}"), instrumented.one(f"commit {topic}")
    assert parent_of(sent) == span_id(order)
    assert parent_of(processed) == span_id(sent)
    assert parent_of(committed) == span_id(instrumented.one("work"))
    assert links_of(instrumented.one(f"poll {topic}")) == [span_id(sent)]


async def test_a_failed_send_and_a_failed_commit_are_errors(
    any_broker: Broker, topic: str, instrumented: Spans
) -> None:
    async with Producer(bootstrap_servers=any_broker.bootstrap, max_request_size=1000) as producer:
        with pytest.raises(KafkaError):
            await producer.send(topic, bytes(2000))
    async with Consumer(**reading(any_broker, group_id=f"g-{topic}", enable_auto_commit=False)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(KafkaError):
            await consumer.commit({TopicPartition(f"{topic}-unknown", 0): 5})
    sent, committed = instrumented.one(f"send {topic}"), instrumented.one(f"commit {topic}-unknown")
    for span, code in ((sent, "MESSAGE_TOO_LARGE"), (committed, "UNKNOWN_TOPIC_OR_PARTITION")):
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == code
    assert committed.start_time and committed.end_time and committed.start_time < committed.end_time


async def test_baggage_and_a_custom_context_travel_in_headers(
    any_broker: Broker, topic: str, instrumented: Spans
) -> None:
    earlier = "00-11111111111111111111111111111111-2222222222222222-01"
    token = context.attach(baggage.set_baggage("tenant", "t1"))
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send(topic, None, key=b"7", headers=[("traceparent", earlier.encode()), ("h", b"1")])
    context.detach(token)
    async with asyncio.timeout(LIMIT_S), Consumer(**reading(any_broker)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        record = await anext(consumer)
        assert baggage.get_baggage("tenant") == "t1"
    assert [name for name, _ in record.headers] == ["h", "traceparent", "baggage"]
    sent = instrumented.one(f"send {topic}")
    assert links_of(sent) == [(int("1" * 32, 16), int("2" * 16, 16))]
    assert (sent.attributes or {})["messaging.kafka.message.tombstone"] is True
    assert baggage.get_baggage("tenant") is None


async def test_one_client_can_be_instrumented_and_no_longer(any_broker: Broker, topic: str, spans: Spans) -> None:
    instrumentor = KohortInstrumentor()
    assert instrumentor is KohortInstrumentor()
    async with (
        asyncio.timeout(LIMIT_S),
        Producer(bootstrap_servers=any_broker.bootstrap) as producer,
        Consumer(**reading(any_broker)) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        await producer.send(topic, b"0")
        assert instrumentor.instrument_producer(producer, spans.provider) is producer
        instrumentor.instrument_producer(producer, spans.provider)  # once is enough
        await producer.send(topic, b"1")
        instrumentor.uninstrument_producer(producer)
        await producer.send(topic, b"2")
        await producer.flush()
        assert len(spans.named("send ")) == 1
        assert (await anext(consumer)).value == b"0"
        instrumentor.instrument_consumer(consumer, spans.provider)
        assert (await anext(consumer)).value == b"1"
        instrumentor.uninstrument_consumer(consumer)
        assert (await anext(consumer)).value == b"2"
    assert [(span.attributes or {})["messaging.kafka.offset"] for span in spans.named("process ")] == [1]
    with (
        blocking.Consumer(**reading(any_broker)) as other,
        blocking.Producer(bootstrap_servers=any_broker.bootstrap) as writer,
    ):
        other.assign([TopicPartition(topic, 0)])
        instrumentor.instrument_consumer(other, spans.provider)
        instrumentor.instrument_producer(writer, spans.provider)
        assert len(other.interceptors) == len(writer.interceptors) == 1
        assert next(other).value == b"0"
        writer.send(topic, b"3").result()
    assert (len(spans.named("process ")), len(spans.named("send "))) == (2, 2)


async def test_nothing_is_made_after_uninstrument(
    any_broker: Broker, topic: str, instrumented: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    KohortInstrumentor().instrument()
    assert "already instrumented" in caplog.text
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        KohortInstrumentor().uninstrument()
        delivery = await (await producer.send(topic, b"1"))
    assert delivery.offset == 0
    async with Producer(bootstrap_servers=any_broker.bootstrap) as later:
        assert later.interceptors == ()
        await later.send(topic, b"2")
    assert instrumented.get_finished_spans() == ()
    KohortInstrumentor().uninstrument()
    assert "not instrumented" in caplog.text


async def test_suppressed_instrumentation_makes_no_spans(any_broker: Broker, topic: str, instrumented: Spans) -> None:
    token = context.attach(context.set_value("suppress_instrumentation", True))
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send(topic, b"1")
    context.detach(token)
    assert instrumented.get_finished_spans() == ()


def by_kafka_python(broker: Broker, topic: str) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, b"1").get(timeout=LIMIT_S)
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id=f"g-{topic}"
    )
    for _ in consumer:
        break
    consumer.close()


def by_confluent(broker: Broker, topic: str) -> None:
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"1")
    assert producer.flush(LIMIT_S) == 0
    options = {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    consumer = confluent.Consumer(options)
    consumer.subscribe([topic])
    message = consumer.poll(LIMIT_S)
    assert message is not None and message.value() == b"1"
    assert trace.get_current_span().get_span_context().is_valid
    consumer.close()


def by_aiokafka(broker: Broker, topic: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        await producer.send_and_wait(topic, b"1")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id=f"g-{topic}"
        )
        await consumer.start()
        async with asyncio.timeout(LIMIT_S):
            await consumer.getone()
        await consumer.stop()

    asyncio.run(run())


@pytest.mark.parametrize("run", [by_kafka_python, by_confluent, by_aiokafka])
def test_programs_of_other_libraries_make_the_same_spans(
    any_broker: Broker, topic: str, instrumented: Spans, run: Callable[[Broker, str], None]
) -> None:
    run(any_broker, topic)
    sent, processed = instrumented.one(f"send {topic}"), instrumented.one(f"process {topic}")
    assert parent_of(processed) == span_id(sent)
    assert (processed.attributes or {})["messaging.consumer.group.name"] == f"g-{topic}"
    assert instrumented.named("commit ")


def test_processing_within_another_span_stays_in_its_trace_and_links_to_the_producer(spans: Spans) -> None:
    headers = [("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")]
    record = ConsumerRecord("orders", 1, 9, 0, "k", b"v", headers)
    with spans.provider.get_tracer("application").start_as_current_span("work"):
        with processing(record, tracer_provider=spans.provider):
            pass
    processed = spans.one("process orders")
    assert parent_of(processed) == span_id(spans.one("work"))
    assert links_of(processed) == [(int("1" * 32, 16), int("2" * 16, 16))]


def test_processing_reports_an_exception(spans: Spans) -> None:
    record = ConsumerRecord("orders", 1, 9, 0, "k", b"v", ())
    with pytest.raises(ZeroDivisionError):
        with processing(record, group_id="g", tracer_provider=spans.provider) as span:
            assert trace.get_current_span() is span
            raise ZeroDivisionError("by zero")
    processed = spans.one("process orders")
    assert (processed.status.status_code, processed.events[0].name) == (StatusCode.ERROR, "exception")
    assert processed.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": 9,
        "messaging.kafka.message.key": "k",
        "messaging.consumer.group.name": "g",
        "error.type": "ZeroDivisionError",
    }


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", b"\xff\xfe")],
        [("traceparent", None)],
        [("traceparent", b"00-zz-zz-zz")],
        [("traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
        [("traceparent", b"x" * 100_000)],
        [("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"), ("traceparent", b"")],
        [("tracestate", b"a" * 5000 + b"=" * 50), ("baggage", b"=;,==%%%")],
        [("baggage", b"a=" + b"%" * 8000)],
        [("", b"")],
    ],
)
def test_malformed_headers_of_strangers_are_ignored(spans: Spans, headers: list[tuple[str, bytes | None]]) -> None:
    with processing(ConsumerRecord("orders", 0, 0, 0, None, b"", headers), tracer_provider=spans.provider):
        pass
    assert (spans.one("process orders").parent, spans.one("process orders").links) == (None, ())


def test_a_header_that_is_too_large_does_not_reach_the_propagator(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[str] | None] = {}

    def look(carrier: Any, around: Any, getter: Any) -> Any:
        seen.update({name: getter.get(carrier, name) for name in ("fits", "large")})
        return around

    monkeypatch.setattr("opentelemetry.propagate.extract", look)
    headers = [("fits", b"x" * 8192), ("large", b"x" * 8193)]
    with processing(ConsumerRecord("orders", 0, 0, 0, None, b"", headers), tracer_provider=spans.provider):
        pass
    assert seen == {"fits": ["x" * 8192], "large": None}


def test_a_propagator_that_fails_is_logged_once(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> None:
        raise KeyError("header")

    monkeypatch.setattr("opentelemetry.propagate.extract", fail)
    caplog.set_level(logging.WARNING)
    record = ConsumerRecord("orders", 0, 0, 0, None, b"", [("traceparent", b"1")])
    for _ in range(2):
        with processing(record, tracer_provider=spans.provider):
            pass
    assert caplog.text.count("context in headers cannot be read: KeyError") == 1


@pytest.mark.parametrize(
    ("key", "shown"),
    [(b"k", "k"), ("k", "k"), (7, "7"), (b"\xff", None), (None, None), ("k" * 257, None), (True, None)],
)
def test_a_key_is_shown_if_it_is_short_text(key: Any, shown: str | None) -> None:
    assert conventions.message_attributes(key, b"").get("messaging.kafka.message.key") == shown


@pytest.mark.parametrize(
    ("servers", "address", "port"),
    [
        ("a:9092,b:9093", "a", 9092),
        (["[::1]:9092"], "::1", 9092),
        (["kafka"], "kafka", None),
        ([], None, None),
    ],
)
def test_the_server_is_the_first_bootstrap_server(servers: Any, address: str | None, port: int | None) -> None:
    attributes = conventions.client_attributes("c", servers)
    assert (attributes.get("server.address"), attributes.get("server.port")) == (address, port)


def test_the_names_are_those_of_the_conventions() -> None:
    known = {
        value
        for module in (messaging_attributes, server_attributes, error_attributes)
        for name, value in vars(module).items()
        if isinstance(value, str) and name.isupper()
    }
    ours = {
        value
        for name, value in vars(conventions).items()
        if name.isupper() and isinstance(value, str) and name != "SCHEMA_URL"
    }
    assert len(ours) == 14
    assert ours <= known
