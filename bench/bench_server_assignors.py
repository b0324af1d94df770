"""What a change costs the server assignors in a large consumer group: python bench/bench_server_assignors.py

Each line is one assignor and one shape of group: a fresh target for all, then the median of a member that leaves and
of one that joins, as CPU time of the plan's update with the change that led to it. --peer runs Apache Kafka's own
assignors on the same groups in this run; Kafka's JMH benchmark gives 1.3 to 2.0 ms for a change with `uniform`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.assignor.server import SERVER_ASSIGNORS, MemberShape, Plan, TopicShape
from kohort.model import UUID
from tests.interop.kafka import jars

RACKS = "abc"
SHAPES = ((10, False), (100, False), (1000, False), (100, True))
"""Topics, and whether racks are known."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10_000, help="of the group (default 10,000)")
    parser.add_argument("--partitions", type=int, default=100_000, help="of its topics (default 100,000)")
    parser.add_argument("--changes", type=int, default=200, help="how many members leave and join")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka's assignors too")
    options = parser.parse_args()
    print(f"{options.members} members, {options.partitions} partitions; milliseconds of CPU time")
    for name in SERVER_ASSIGNORS:
        for topics, racks in SHAPES:
            fresh, leaves, joins = measure(name, options.members, options.partitions, topics, racks, options.changes)
            shape = f"{topics} topics{', 3 racks' if racks else ''}"
            print(f"{name:10} {shape:20} fresh {fresh:7.1f}   one leaves {leaves:7.3f}   one joins {joins:7.3f}")
    if options.peer:
        source = Path(__file__).with_name("ServerAssignors.java")
        sizes = [str(number) for number in (options.members, options.partitions, options.changes)]
        sys.stdout.flush()
        subprocess.run(["java", "-cp", f"{jars()}/*", str(source), *sizes], check=True)


def measure(
    name: str, members: int, partitions: int, topics: int, racks: bool, changes: int
) -> tuple[float, float, float]:
    """Milliseconds: the best of three fresh targets, and the medians of a leave and a join."""
    changes = changes if name == "uniform" else min(changes, 5)
    made = [group(name, members, partitions, topics, racks) for _ in range(3)]
    fresh = min(fresh_target(plan) for plan, _ in made)
    plan, subscription = made[0]
    leaves, joins = [], []
    shape = MemberShape(subscription, rack=RACKS[0] if racks else None)
    for number in range(changes):
        begun = time.process_time()
        plan.remove_member(f"member-{number * (members // changes):05}")
        plan.update()
        left = time.process_time()
        plan.set_member(f"newcomer-{number:05}", shape)
        plan.update()
        leaves.append((left - begun) * 1000)
        joins.append((time.process_time() - left) * 1000)
    return fresh, median(leaves), median(joins)


def group(name: str, members: int, partitions: int, topics: int, racks: bool) -> tuple[Plan, frozenset[UUID]]:
    """A plan that knows the group and has computed nothing."""
    plan = SERVER_ASSIGNORS[name].plan()
    # Ids as Kafka makes them: of all 128 bits.
    subscription = [UUID(int=(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128) for number in range(topics)]
    each = partitions // topics
    placed = tuple(frozenset((RACKS[n % 3], RACKS[(n + 1) % 3])) for n in range(each)) if racks else None
    for topic_id in subscription:
        plan.set_topic(topic_id, TopicShape(each, placed))
    topic_ids = frozenset(subscription)
    for number in range(members):
        plan.set_member(f"member-{number:05}", MemberShape(topic_ids, rack=RACKS[number % 3] if racks else None))
    return plan, topic_ids


def fresh_target(plan: Plan) -> float:
    begun = time.process_time()
    plan.update()
    return (time.process_time() - begun) * 1000


if __name__ == "__main__":
    main()
