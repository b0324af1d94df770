"""Scrapes of watched groups, read back with the parsers of prometheus_client."""

import re
from collections.abc import Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from kohort.group_events import Cause, MemberFacts
from kohort.model import TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.watch.changes import CommitDeleted, Committed, GenerationMember, GenerationWritten, GroupDeleted
from kohort.watch.group import GroupFound, WatchedMember
from kohort.watch.live import Live, SourceKind
from kohort.watch.metrics import GroupMetrics, MetricNames, MetricsOptions

A = MemberFacts("a-1", "client-a", "/10.0.0.1")


def orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def live(*groups: str) -> Live:
    """Return groups of one member that owns two partitions, and is behind in the first."""
    made = Live()
    for group in groups or ("g",):
        member = GenerationMember(A, frozenset({"orders"}), frozenset({orders(0), orders(1)}))
        made.apply(
            [
                GenerationWritten(group, 1_000, 7, "consumer", "range", "a-1", (member,)),
                Committed(group, 2_000, orders(0), 5),
                Committed(group, 2_000, orders(1), 20),
            ],
            2_000,
        )
    made.sampled({orders(0): 5, orders(1): 20}, 2_000)
    made.sampled({orders(0): 15, orders(1): 20}, 3_000)
    return made


def scraped(metrics: GroupMetrics, now: int = 4_000, *, openmetrics: bool = False) -> list[Sample]:
    body = metrics.exposition(now, openmetrics=openmetrics).decode()
    samples = [
        sample for family in (parse_openmetrics if openmetrics else parse_text)(body) for sample in family.samples
    ]
    keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(keys) == len(set(keys)), "Prometheus rejects a scrape with two samples of the same labels"
    return samples


def values(samples: Iterable[Sample], name: str, *labels: str) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in samples if sample.name == name}


@pytest.mark.parametrize("openmetrics", [False, True])
def test_lags_have_the_names_and_labels_of_kafka_lag_exporter(*, openmetrics: bool) -> None:
    samples = scraped(GroupMetrics(live(), MetricsOptions("main"), 0), openmetrics=openmetrics)
    by_name = {sample.name: sample for sample in reversed(samples)}
    partition = {
        "cluster_name": "main",
        "group": "g",
        "topic": "orders",
        "partition": "0",
        "member_host": "/10.0.0.1",
        "consumer_id": "a-1",
        "client_id": "client-a",
    }
    assert by_name["kafka_consumergroup_group_offset"][:3] == (
        "kafka_consumergroup_group_offset",
        partition,
        5,
    )
    assert by_name["kafka_consumergroup_group_lag"][1:3] == (partition, 10)
    assert by_name["kafka_consumergroup_group_lag_seconds"][1:3] == (partition, 1.95)
    group = {"cluster_name": "main", "group": "g"}
    assert by_name["kafka_consumergroup_group_max_lag"][1:3] == (group, 10)
    assert by_name["kafka_consumergroup_group_max_lag_seconds"][1:3] == (group, 1.95)
    assert by_name["kafka_consumergroup_group_sum_lag"][1:3] == (group, 10)
    assert by_name["kafka_consumergroup_group_topic_sum_lag"][1:3] == (group | {"topic": "orders"}, 10)
    assert values(samples, "kafka_partition_latest_offset", "cluster_name", "topic", "partition") == {
        ("main", "orders", "0"): 15,
        ("main", "orders", "1"): 20,
    }


@pytest.mark.parametrize(
    ("names", "series"),
    [
        (MetricNames.KAFKA_LAG_EXPORTER, ("kafka_partition_earliest_offset", "topic", "partition")),
        (MetricNames.KAFKA_EXPORTER, ("kafka_topic_partition_oldest_offset", "topic", "partition")),
        (MetricNames.KMINION, ("kminion_kafka_topic_partition_low_water_mark", "topic_name", "partition_id")),
    ],
)
def test_earliest_offsets_are_shown_under_the_name_of_the_exporter(
    names: MetricNames, series: tuple[str, str, str]
) -> None:
    groups = live()
    groups.starts[orders(0)] = 3
    assert values(scraped(GroupMetrics(groups, MetricsOptions(names=names), 0)), *series) == {("orders", "0"): 3}
    assert not values(scraped(GroupMetrics(groups, MetricsOptions(names=names, most_partitions=1), 0)), *series)
    groups.keep_ends(set())
    assert not values(scraped(GroupMetrics(groups, MetricsOptions(names=names), 0)), *series)


@pytest.mark.parametrize(
    ("names", "series"),
    [
        (MetricNames.KAFKA_EXPORTER, ("kafka_topic_partition_current_offset", "topic", "partition")),
        (MetricNames.KMINION, ("kminion_kafka_topic_partition_high_water_mark", "topic_name", "partition_id")),
    ],
)
def test_ends_are_shown_under_the_name_of_the_exporter(names: MetricNames, series: tuple[str, str, str]) -> None:
    samples = scraped(GroupMetrics(live(), MetricsOptions(names=names), 0))
    assert values(samples, *series) == {("orders", "0"): 15, ("orders", "1"): 20}


def test_the_time_of_the_last_questions_is_shown_as_the_poll_time() -> None:
    groups = live()
    metrics = GroupMetrics(groups, MetricsOptions("main"), 0)
    assert not values(scraped(metrics), "kafka_consumergroup_poll_time_ms")
    groups.poll_ms = 12
    assert values(scraped(metrics), "kafka_consumergroup_poll_time_ms", "cluster_name") == {("main",): 12}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_members_of_an_eager_group_that_rebalances_are_paused(state: str) -> None:
    groups = live("g", "h")
    member = GenerationMember(A, frozenset({"orders"}), frozenset({orders(0)}))
    written = GenerationWritten("h", 10_000, 8, "consumer", "cooperative-sticky", "a-1", (member,))
    groups.apply([written], 10_100)
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    assert values(scraped(metrics), "kohort_group_paused_members", "group") == {("g",): 0, ("h",): 0}
    for group in ("g", "h"):
        groups.in_state(group, state, 11_000)
    samples = scraped(metrics)
    assert values(samples, "kohort_group_paused_members", "group") == {("g",): 1, ("h",): 0}
    assert values(samples, "kohort_group_state", "group", "state") == {("g", state): 1, ("h", state): 1}
    groups.in_state("g", None, 12_000)
    assert values(scraped(metrics), "kohort_group_paused_members", "group") == {("g",): 0, ("h",): 0}


def test_lags_have_the_names_of_other_exporters_if_asked() -> None:
    samples = scraped(GroupMetrics(live(), MetricsOptions(names=MetricNames.KAFKA_EXPORTER), 0))
    assert values(samples, "kafka_consumergroup_lag", "consumergroup", "topic", "partition") == {
        ("g", "orders", "0"): 10,
        ("g", "orders", "1"): 0,
    }
    assert values(samples, "kafka_consumergroup_lag_sum", "consumergroup", "topic") == {("g", "orders"): 10}
    assert values(samples, "kafka_consumergroup_members", "consumergroup") == {("g",): 1}
    assert values(samples, "kafka_consumergroup_current_offset_sum", "topic") == {("orders",): 25}
    assert not values(samples, "kafka_consumergroup_group_lag")
    samples = scraped(GroupMetrics(live(), MetricsOptions(names=MetricNames.KMINION), 0))
    lags = values(samples, "kminion_kafka_consumer_group_topic_partition_lag", "group_id", "topic_name", "partition_id")
    assert lags == {("g", "orders", "0"): 10, ("g", "orders", "1"): 0}
    assert values(samples, "kminion_kafka_consumer_group_info", "group_id", "state") == {("g", "Stable"): 1}
    assert values(samples, "kminion_kafka_consumer_group_topic_offset_sum", "topic_name") == {("orders",): 25}


def test_a_partition_without_an_owner_has_empty_labels_of_its_member() -> None:
    groups = live()
    groups.apply([GenerationWritten("g", 3_500, 8, "consumer", None, None, ())], 3_500)
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0))
    of_member = ("member_host", "consumer_id", "client_id")
    assert values(samples, "kafka_consumergroup_group_lag", "partition", *of_member) == {
        ("0", "", "", ""): 10,
        ("1", "", "", ""): 0,
    }


@pytest.mark.parametrize("names", MetricNames)
def test_the_lag_in_seconds_of_a_group_is_the_largest_of_its_partitions_under_every_name(names: MetricNames) -> None:
    groups = live()
    groups.sampled({orders(1): 21}, 11_000)  # the other partition is behind, too
    now = 12_000
    lags = [each.lag.seconds for each in groups.snapshot(now).progress(groups.groups["g"]) if each.lag is not None]
    assert min(lags) > 0
    samples = scraped(GroupMetrics(groups, MetricsOptions("main", names=names), 0), now=now)
    found = values(samples, "kafka_consumergroup_group_max_lag_seconds", "cluster_name", "group")
    assert found == {("main", "g"): pytest.approx(max(lags))}


def test_a_rebalance_is_counted_with_its_cause_and_an_exemplar() -> None:
    groups = live()
    metrics = GroupMetrics(groups, MetricsOptions(), 5_000)
    joined = (Trigger(Cause.MEMBER_JOINED.value, "b"),)
    for ended_at in (4_999, 5_300):  # the first one ended before the start
        groups.rebalanced([RebalanceRecord("g", ended_at, 4_800, ended_at, joined, "range", "a-1")], ended_at)
    samples = scraped(metrics, 6_000, openmetrics=True)
    counts = values(samples, "kohort_group_rebalances_total", "group", "cause", "protocol")
    assert counts == {
        ("g", "member joined", "eager"): 1,
        ("g", "member left or expired", "eager"): 0,
    }
    (exemplar,) = (s.exemplar for s in samples if s.name == "kohort_group_rebalances_total" and s.value)
    assert exemplar is not None
    assert exemplar.timestamp is not None
    assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == ({"generation": "5300"}, 1, 5.3)
    assert values(samples, "kohort_group_rebalance_seconds_sum", "group") == {("g",): 0.5}


def test_times_and_moves_of_rebalances_are_counted_in_seconds_and_by_need() -> None:
    groups = live()
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    b = MemberFacts("b-1", "client-b", "/10.0.0.2")
    changes = (
        PartitionChange("orders", 0, "a-1", "b-1", 3_400, 4_000, 4_500),  # the new member needs one
        PartitionChange("orders", 1, "a-1", "a-1", 3_600, 4_000, 4_100),
    )
    joined = RebalanceRecord(
        "g", 8, 3_000, 4_000, protocol="range", leader_id="a-1", before=(A,), after=(A, b), partitions=changes
    )
    groups.rebalanced([joined], 5_000)
    swap = (PartitionChange("orders", 0, "b-1", "a-1"), PartitionChange("orders", 1, "a-1", "b-1"))
    groups.rebalanced(
        [RebalanceRecord("g", 10, None, 9_000, protocol="range", before=(A, b), after=(A, b), partitions=swap)], 9_000
    )
    samples = scraped(metrics, 9_000)
    assert values(samples, "kohort_group_dark_partition_seconds_total", "group") == {("g",): 1.6}
    assert values(samples, "kohort_group_paused_member_seconds_total", "group") == {("g",): 0.4}
    assert values(samples, "kohort_group_partitions_moved_total", "needless") == {("false",): 1, ("true",): 2}


def test_members_of_a_consumer_group_are_shown_by_state() -> None:
    groups = Live()
    members = tuple(
        WatchedMember(MemberFacts(name, name, ""), epoch=epoch, stable=stable)
        for name, epoch, stable in (("a", 5, True), ("b", 4, True), ("c", 5, False), ("d", -2, True))
    )
    groups.found(GroupFound("g", "consumer", "Reconciling", 5, 5, "uniform", None, members, {}), 1_000)
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0))
    assert values(samples, "kohort_group_members", "state") == {("stable",): 1, ("reconciling",): 2, ("away",): 1}


def test_figures_of_the_last_hour_follow_rebalances_and_time() -> None:
    groups = live()
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    b = MemberFacts("b-1", "client-b", "/10.0.0.2")
    assert values(scraped(metrics), "kohort_group_missing_members", "group") == {("g",): 0}
    went = RebalanceRecord("g", 8, None, 4_500, protocol="range", before=(A, b), after=(A,))
    groups.groups["g"].rebalances.append(went)
    groups.rebalanced([went], 5_000)
    assert values(scraped(metrics, 5_000), "kohort_group_missing_members", "group") == {("g",): 1}
    assert values(scraped(metrics, 4_500 + 3_600_000), "kohort_group_missing_members", "group") == {("g",): 0}


def test_the_longest_dark_time_is_that_of_the_partition_that_is_dark_for_longest() -> None:
    groups = live()
    groups.groups["g"].unowned |= {orders(0): 10_000, orders(1): 12_000}
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0), 13_000)
    assert values(samples, "kohort_group_longest_dark_seconds", "group") == {("g",): 3}


def test_partitions_are_counted_by_the_way_their_lag_is_known() -> None:
    samples = scraped(GroupMetrics(live(), MetricsOptions(), 0))
    assert values(samples, "kohort_group_lag_partitions", "method") == {("interpolated",): 1, ("caught up",): 1}


def test_partitions_without_an_owner_are_dark_since_the_rebalance() -> None:
    groups = live()
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    assert values(scraped(metrics), "kohort_group_dark_partitions", "group") == {("g",): 0}
    member = GenerationMember(A, frozenset({"orders"}), frozenset({orders(0)}))
    groups.apply([GenerationWritten("g", 10_000, 8, "consumer", "range", "a-1", (member,))], 10_100)
    samples = scraped(metrics, 13_000)
    assert values(samples, "kohort_group_dark_partitions", "group") == {("g",): 1}
    assert values(samples, "kohort_group_longest_dark_seconds", "group") == {("g",): 3}
    member = GenerationMember(A, frozenset({"orders"}), frozenset({orders(0), orders(1)}))
    groups.apply([GenerationWritten("g", 14_000, 9, "consumer", "range", "a-1", (member,))], 14_100)
    assert values(scraped(metrics, 15_000), "kohort_group_longest_dark_seconds", "group") == {("g",): 0}


def test_partitions_of_topics_that_nobody_subscribes_to_are_not_dark() -> None:
    groups = live()
    groups.apply([Committed("g", 3_000, TopicPartition("returns", 0), 5)], 3_000)
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0))
    assert values(samples, "kohort_group_dark_partitions", "group") == {("g",): 0}


def test_an_empty_group_is_not_dark() -> None:
    groups = live()
    groups.apply([GenerationWritten("g", 10_000, 8, "consumer", None, None, ())], 10_100)
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0), 20_000)
    assert values(samples, "kohort_group_dark_partitions", "group") == {("g",): 0}
    assert values(samples, "kohort_group_members", "group", "state") == {("g", "stable"): 0}
    assert values(samples, "kohort_group_state", "state") == {("Empty",): 1}


def test_a_deleted_group_disappears_with_its_counters() -> None:
    groups = live("g", "h")
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    record = RebalanceRecord("g", 8, 3_000, 3_500, protocol="range", leader_id="a-1")
    groups.rebalanced([record], 3_500)
    deletions = [CommitDeleted("g", 5_000, orders(number)) for number in (0, 1)]
    groups.apply([GroupDeleted("g", 5_000, "classic"), *deletions], 5_000)
    samples = scraped(metrics, 6_000)
    assert {sample.labels["group"] for sample in samples if "group" in sample.labels} == {"h"}
    member = GenerationMember(A, frozenset({"orders"}), frozenset())
    groups.apply([GenerationWritten("g", 7_000, 1, "consumer", "range", "a-1", (member,))], 7_000)
    counts = values(scraped(metrics, 8_000), "kohort_group_rebalances_total", "group", "cause")
    assert counts["g", "first member"] == 1


def test_too_many_partitions_lose_their_series_and_a_problem_tells_it() -> None:
    groups = live("g", "h")
    metrics = GroupMetrics(groups, MetricsOptions(most_partitions=3), 0)
    samples = scraped(metrics)
    assert not any("partition" in sample.labels for sample in samples)
    assert values(samples, "kafka_consumergroup_group_topic_sum_lag", "group") == {("g",): 10, ("h",): 10}
    assert values(samples, "kohort_watch_partitions_left_out") == {(): 1}
    assert any("more than 3 partitions" in problem for problem in groups.problems)
    for group in groups.groups.values():
        group.commits.clear()  # their members own them still
    assert not any("partition" in sample.labels for sample in scraped(metrics))
    groups.apply([GroupDeleted("h", 5_000, "classic")], 5_000)
    assert values(scraped(metrics, 6_000), "kohort_watch_partitions_left_out") == {(): 0}
    assert not groups.problems


def test_too_many_groups_are_left_out_and_a_problem_tells_it() -> None:
    groups = live("g", "h")
    samples = scraped(GroupMetrics(groups, MetricsOptions(most_groups=1), 0))
    assert {sample.labels["group"] for sample in samples if "group" in sample.labels} == {"g"}
    assert any("more than 1 groups" in problem for problem in groups.problems)


def test_groups_are_selected_by_their_whole_id() -> None:
    groups = live("shop-a", "shop-b", "old-shop-a")
    options = MetricsOptions(include=re.compile("shop-.*"), exclude=re.compile(".*-b"))
    samples = scraped(GroupMetrics(groups, options, 0))
    assert {sample.labels["group"] for sample in samples if "group" in sample.labels} == {"shop-a"}


def test_the_watcher_tells_what_it_can_see() -> None:
    groups = live()
    groups.source(SourceKind.LOG, "following", 1_000)
    groups.source(SourceKind.ADMIN, "failed", 1_000, "No broker answers.")
    groups.problem("A problem.", 1_000)
    groups.counts.records, groups.counts.unreadable = 9, 2
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0), 5_000)
    assert values(samples, "kohort_watch_source_following", "source") == {("log",): 1, ("admin",): 0}
    assert values(samples, "kohort_watch_end_offsets_age_seconds") == {(): 2}
    assert values(samples, "kohort_watch_records_total") == {(): 9}
    assert values(samples, "kohort_watch_unreadable_records_total") == {(): 2}
    groups.sampled({orders(0): 15}, 4_500)  # the other partition was not asked for
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0), 5_000)
    assert values(samples, "kohort_watch_end_offsets_age_seconds") == {(): 0.5}
    groups.sampled({}, 4_900)  # no end changed
    samples = scraped(GroupMetrics(groups, MetricsOptions(), 0), 5_000)
    assert values(samples, "kohort_watch_end_offsets_age_seconds") == {(): 0.1}
    assert values(samples, "kohort_watch_problems") == {(): 1}


@pytest.mark.parametrize("names", MetricNames)
@pytest.mark.parametrize("openmetrics", [False, True])
def test_hostile_names_make_a_valid_scrape(names: MetricNames, *, openmetrics: bool) -> None:
    hostile = 'g"} 1\n# EOF\n\\'
    groups = Live()
    facts = MemberFacts(hostile, hostile, hostile, hostile)
    topic = TopicPartition(hostile, 0)
    member = GenerationMember(facts, frozenset({hostile}), frozenset({topic}))
    for group in (hostile, "x" * 40_000, b"\xff".decode("utf-8", "surrogateescape")):
        groups.apply(
            [
                GenerationWritten(group, 1_000, 1, hostile, hostile, hostile, (member,)),
                Committed(group, 2_000, topic, 5),
            ],
            2_000,
        )
    groups.sampled({topic: 9}, 2_000)
    metrics = GroupMetrics(groups, MetricsOptions(hostile, names), 0)
    change = PartitionChange(hostile, 0, hostile, "b", 2_500, 3_000)
    record = RebalanceRecord(
        hostile, 2, 2_000, 3_000, (Trigger(hostile),), hostile, hostile, after=(facts,), partitions=(change,)
    )
    groups.groups[hostile].rebalances.append(record)
    groups.rebalanced([record], 3_000)
    samples = scraped(metrics, openmetrics=openmetrics)
    assert len([sample for sample in samples if sample.name == "kohort_group_epoch"]) == 3
    assert values(samples, "kohort_group_slowest_revoke_seconds", "client_id") == {(hostile,): 0.5}


def test_a_group_that_disappears_between_two_steps_does_not_end_the_scrape() -> None:
    groups = live(*(f"g{number:03}" for number in range(200)))
    metrics = GroupMetrics(groups, MetricsOptions(), 0)
    steps = metrics.steps(4_000, openmetrics=True)
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            body = end.value
            break
        taken += 1
        group = f"g{199 - taken:03}"
        deletions = [CommitDeleted(group, 5_000, orders(number)) for number in (0, 1)]
        groups.apply([GroupDeleted(group, 5_000, "classic"), *deletions], 5_000)
    assert taken > 2
    shown = set(re.findall(r'^kohort_group_epoch\{cluster_name="",group="(\w+)"\} 7$', body.decode(), re.MULTILINE))
    assert "g198" not in shown
    assert len(shown) >= 200 - taken
