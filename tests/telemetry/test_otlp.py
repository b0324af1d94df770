"""OTLP metrics, read from bytes that any client may have sent."""

from __future__ import annotations

import pytest

from kohort.telemetry import Kind, MalformedMetrics, Point, TooManyMetrics, read_metrics
from kohort.telemetry.otlp import MAX_FIELDS, MAX_POINTS
from tests.telemetry.otlp import attribute, field, gauge, metrics_data, point, total, varint


def test_gauges_and_sums_become_numbers_by_name() -> None:
    data = metrics_data(
        gauge("poll.idle.ratio.avg", point(0.25)),
        total("rebalance.total", point(7)),
        total("connections", point(3), delta=True),
        resource={"group_id": "billing", "group_member_id": "m-1"},
    )
    found = read_metrics(data)
    assert found.resource == {"group_id": "billing", "group_member_id": "m-1"}
    assert found.points == [
        Point("poll.idle.ratio.avg", Kind.GAUGE, 0.25),
        Point("rebalance.total", Kind.TOTAL, 7.0),
        Point("connections", Kind.INCREMENT, 3.0),
    ]
    assert found.left_out == 0


def test_attributes_are_part_of_a_name_in_the_order_of_their_keys() -> None:
    data = metrics_data(gauge("latency", point(1.5, node_id=2, b=True, a=-1, ratio=0.5), point(2.5, node_id="3")))
    names = [found.name for found in read_metrics(data).points]
    assert names == ["latency{a=-1,b=true,node_id=2,ratio=0.5}", "latency{node_id=3}"]


def test_a_client_may_come_after_its_metrics() -> None:
    metrics, client = field(2, 2, gauge("a", point(1))), field(1, 2, attribute("group_id", "g"))
    found = read_metrics(field(1, 2, field(2, 2, metrics) + field(1, 2, client)))
    assert (found.resource, [one.value for one in found.points]) == ({"group_id": "g"}, [1.0])


def test_nothing_is_no_metrics() -> None:
    assert read_metrics(b"").points == []


def test_what_is_no_finite_number_is_counted() -> None:
    histogram = field(1, 2, b"h") + field(9, 2, b"")
    no_value = field(1, 2, b"n") + field(5, 2, field(1, 2, b""))
    data = metrics_data(
        histogram, no_value, gauge("nan", point(float("nan"))), gauge("inf", point(float("inf"))), gauge("", point(1))
    )
    found = read_metrics(data)
    assert (found.points, found.left_out) == ([], 5)


def test_unknown_fields_are_skipped() -> None:
    unknown = field(900, 0, varint(1 << 63)) + field(901, 1, b"8" * 8) + field(902, 2, b"text") + field(903, 5, b"4444")
    found = read_metrics(unknown + metrics_data(unknown + gauge("a", unknown + point(1))) + unknown)
    assert [one.value for one in found.points] == [1.0]


def test_a_known_field_of_another_wire_type_is_unknown() -> None:
    assert read_metrics(field(1, 0, b"\5") + metrics_data(field(1, 0, b"\5") + gauge("a", point(1)))).points


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # no length
        b"\x0a\x05\x00",  # shorter than its length
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length near 2^64
        b"\x80" * 11,  # a number without an end
        b"\x00\x00",  # field 0
        b"\x0b\x0c",  # a group
        b"\x09\x00",  # a fixed64 of one byte
        b"nonsense",
        metrics_data(gauge("a", point(1)))[:-1],
        metrics_data(field(1, 2, b"\xff") + field(5, 2, field(1, 2, point(1)))),  # a name that is not UTF-8
    ],
)
def test_bytes_that_are_no_metrics_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        read_metrics(data)


def test_numbers_above_the_limit_are_counted() -> None:
    found = read_metrics(metrics_data(gauge("a", *[point(1)] * (MAX_POINTS + 5))))
    assert (len(found.points), found.left_out) == (MAX_POINTS, 5)


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(TooManyMetrics, match=f"more than {MAX_FIELDS} fields"):
        read_metrics(field(900, 0, b"\0") * (MAX_FIELDS + 1))


def test_a_name_that_is_too_long_is_left_out() -> None:
    found = read_metrics(metrics_data(gauge("a" * 301, point(1)), gauge("a" * 300, point(1))))
    assert (len(found.points), found.left_out) == (1, 1)
