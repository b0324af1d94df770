"""A scrape of 1,000 groups with 10 members and 10 partitions each: `python bench/run.py metrics`.

Beside it, the same partitions by prometheus_client, which has no rebalances to tell, and blocks all the time.
"""

import argparse
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from kohort.group_events import MemberFacts
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord, Trigger
from kohort.watch import Commit, Live, WatchedGroup, WatchedMember
from kohort.watch.metrics import GroupMetrics, MetricsOptions

NOW = 1_700_000_000_000
GROUPS, MEMBERS = 1_000, 10
TURNS = 5
LIMIT_S = 0.5


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    live = groups()
    metrics = GroupMetrics(live, MetricsOptions(cluster="main"), 0)
    joined = (Trigger("member joined"),)
    live.rebalanced([RebalanceRecord(f, 3, NOW - 900, NOW, joined, "range", "leader") for f in live.groups], NOW)
    best, longest, size = min(scrape(metrics) for _ in range(TURNS))
    print(f"kohort: {best:.3f} s (limit {LIMIT_S}), longest step {1000 * longest:.1f} ms, {size / 1e6:.1f} MB")
    registry = CollectorRegistry()
    registry.register(Peer(live))
    peer = min(timed(registry) for _ in range(TURNS))
    print(f"prometheus_client, lags and offsets only: {peer:.3f} s at once, {peer / best:.1f} times as long")


def groups() -> Live:
    """Groups that are behind, with tables of one minute of end offsets."""
    live = Live()
    for group_id in (f"group-{number}" for number in range(GROUPS)):
        group = WatchedGroup(group_id, "classic", 3, protocol="range", protocol_type="consumer")
        for number in range(MEMBERS):
            partition = TopicPartition(f"{group_id}-topic", number)
            facts = MemberFacts(f"{group_id}-{number}-5f2b1d5c-0c2f-4a7f", f"client-{number}", "/127.0.0.1")
            group.members[facts.member_id] = WatchedMember(
                facts, frozenset({partition.topic}), owned=frozenset({partition})
            )
            group.commits[partition] = Commit(100 + number, NOW - 500)
        live.watcher.groups[group_id] = group
    partitions = [partition for group in live.groups.values() for partition in group.commits]
    for second in range(60):
        live.sampled(dict.fromkeys(partitions, 50 + 2 * second), NOW - 60_000 + 1_000 * second)
    return live


def scrape(metrics: GroupMetrics) -> tuple[float, float, int]:
    """Return the seconds of a scrape, those of its longest step, and the size of its text."""
    started = last = time.perf_counter()
    longest = 0.0
    steps = metrics.steps(NOW, openmetrics=True)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            done = time.perf_counter()
            return done - started, max(longest, done - last), len(end.value)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()


class Peer:
    """The same partitions for prometheus_client."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot = self._live.snapshot(NOW)
        labels = ["cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id"]
        names = ("offset", "lag", "lag_seconds")
        families = [GaugeMetricFamily(f"kafka_consumergroup_group_{name}", name, labels=labels) for name in names]
        end = GaugeMetricFamily("kafka_partition_latest_offset", "end", labels=["cluster_name", "topic", "partition"])
        for group in snapshot.groups:
            for each in snapshot.progress(group):
                assert each.lag is not None
                assert each.owner is not None
                facts = group.members[each.owner].facts
                place = [each.partition.topic, str(each.partition.partition)]
                owner = [facts.client_host, facts.member_id, facts.client_id]
                values = (each.committed or 0, each.lag.records, each.lag.seconds)
                for family, value in zip(families, values, strict=True):
                    family.add_metric(["main", group.group_id, *place, *owner], value)
                end.add_metric(["main", *place], each.end or 0)
        yield from families
        yield end


def timed(registry: CollectorRegistry) -> float:
    started = time.perf_counter()
    generate_latest(registry)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
