"""How long the sticky assignors take, beside those of kafka-python and aiokafka: python bench/bench_assignors.py

Everybody computes the same two generations of the same group, in one run: the first, and the one after a member
joined. The large size is for ours alone: the peers take 15 s each there.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.assignor import ASSIGNORS
from kohort.wire.messages.consumer_protocol import Subscription
from tests.assignor.groups import Group
from tests.assignor.peers import aiokafka, kafka_python

Assign = Callable[[str, Mapping[str, int], Mapping[str, Subscription]], Mapping[str, Any]]


def ours(name: str, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Mapping[str, Any]:
    return ASSIGNORS[name].assign(partitions, members)


def one_joins(name: str, members: int, partitions: int, topics: int, *, mixed: bool = False) -> Group:
    """A group after its first generation, with one more member than that knew."""
    names = [f"topic-{n:03}" for n in range(topics)]
    counts = dict.fromkeys(names, partitions // topics)
    wanted = {f"member-{n:04}": names[: topics // 2] if mixed and n % 2 else names for n in range(members)}
    newcomer, topics_of_newcomer = wanted.popitem()
    group = Group(ASSIGNORS[name], counts, wanted)
    group.settle()
    group.topics[newcomer] = topics_of_newcomer
    return group


def best(assign: Assign, name: str, group: Group, repeats: int) -> float:
    members = group.subscriptions()
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        assign(name, group.partitions, members)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=300, help="for the comparison")
    parser.add_argument("--partitions", type=int, default=3000, help="for the comparison")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{platform.python_implementation()} {platform.python_version()}, one member joins, milliseconds")

    rivals: list[tuple[str, str, Assign]] = [
        ("sticky", "kafka-python", kafka_python),
        ("sticky", "aiokafka", aiokafka),
        ("cooperative-sticky", "kafka-python", kafka_python),
    ]
    for name, rival, assign in rivals:
        group = one_joins(name, options.members, options.partitions, 10)
        mine, theirs = best(ours, name, group, 5), best(assign, name, group, 1)
        size = f"{options.members} members, {options.partitions} partitions"
        print(f"{name:20} {size:32} ours {mine * 1000:8.2f}   {rival} {theirs * 1000:9.1f}   x {theirs / mine:,.0f}")
    for name in ASSIGNORS:
        for mixed in (False, True):
            group = one_joins(name, 500, 5000, 50, mixed=mixed)
            kind = "two subscriptions" if mixed else "one subscription"
            taken = best(ours, name, group, 5)
            print(f"{name:20} 500 members, 5000 partitions     ours {taken * 1000:8.2f}   {kind}")


if __name__ == "__main__":
    main()
