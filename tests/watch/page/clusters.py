"""Clusters for the tests of the page: one for pictures, one with names that do harm, and a large one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from kohort.watch.findings import KINDS, Finding
from tests.watch.page.made import HOUR, MINUTE, NOW, Json, MadeGroup

HOSTILE = (
    "<img src=x onerror=document.title='pwned'>",
    "\u202egnp.exe\x00\x1b[31m",
    "a/b?c=d#e&f=%2F",
    "'\"><script>document.title='pwned'</script>",
    "zero\u200bwidth ",
    "x" * 2000,
)
"""IDs that strangers may choose for groups, clients and topics."""


@dataclass
class MadeCluster:
    """What the API of a made cluster answers."""

    groups: dict[str, MadeGroup]
    summaries: list[Json] = field(default_factory=list)
    """Summaries of further groups, which have no details."""
    problems: list[str] = field(default_factory=list)

    def document(self) -> Json:
        return {
            "at": NOW,
            "cluster": {"id": "Qk3pZ0rTR2mWc1", "name": "orders-eu", "bootstrap": "kafka-1.example:9092"},
            "history_from": NOW - 6 * HOUR,
            "sources": [
                {
                    "kind": "log",
                    "state": "following",
                    "since": NOW - 6 * HOUR,
                    "detail": None,
                    "cannot": [
                        "A member that left and a member whose session expired write the same record.",
                        "First reads are bound by commits, so dark times are known to one commit interval.",
                    ],
                },
                {"kind": "telemetry", "state": "off", "since": NOW - 6 * HOUR, "detail": None, "cannot": []},
            ],
            "problems": self.problems,
            "log": {"records": 48_211, "foreign": 0, "unreadable": 0},
            "groups": [*(group.summary() for group in self.groups.values()), *self.summaries],
        }


def _finding(code: str, text: str, advice: str, **evidence: Any) -> Json:
    return Finding(code, text, advice, evidence=evidence).to_json()


def _hurting(*found: Json) -> list[str]:
    """Return the titles of the findings that mark a group."""
    return [finding["title"] for finding in found if KINDS[finding["code"]].hurts]


def showcase() -> MadeCluster:
    """The cluster of the pictures: most groups are well, some hurt."""
    dark = _finding(
        "dark-partition",
        "The group is stable, but 2 partitions that it subscribes to have no member: orders-6, orders-15.",
        "An assignor left them out: check partition.assignment.strategy and your own assignors. If the topic was"
        " deleted, delete its offsets (kohort group delete-offsets). If the members may not describe the topic,"
        " grant it.",
        partitions=["orders-6", "orders-15"],
    )
    flapping = _finding(
        "flapping-member",
        "checkout-enricher-0 on 10.4.0.x left and came back 9 times in the last hour, after 28 s on average. The log of"
        " the cluster does not tell a leave from an expired session.".replace("0.x", f"0.{11}"),
        "Look at its log: a crash loop, a failing health check or a poll that is late (max.poll.interval.ms) look like"
        " this. If its restarts are wanted, group.instance.id keeps the others from rebalancing.",
        returns=9,
    )
    static = _finding(
        "static-membership",
        "18 of 18 rebalances in the last hour happened because 1 client left and came back within 28 s.",
        "Give each member a name that survives its restart (group.instance.id), and set session.timeout.ms above the"
        " time of a restart; then a restart within that time causes no rebalance.",
        rebalances=18,
    )
    cooperative = _finding(
        "eager-assignor",
        "18 rebalances with the assignor range stopped all 24 partitions each time, although 83 % of them stayed with"
        " their member.",
        "Use partition.assignment.strategy=cooperative-sticky or group.protocol=consumer: only partitions that move"
        " then stop.",
        rebalances=18,
    )
    poll = _finding(
        "poll-too-slow",
        "4 members left in the last hour because they did not poll in time: settlement-2.",
        "Raise max.poll.interval.ms above the time of the slowest batch, or lower max.poll.records.",
        members=4,
    )
    grows = _finding(
        "lag-grows",
        "The lag in seconds rose for 40 minutes, to 12 min 44 s.",
        "Process faster, or add members up to the number of partitions.",
    )
    groups = [
        MadeGroup(
            "checkout-enricher",
            {"orders": 16, "payments": 8},
            6,
            restarts=[3 + 6.1 * step for step in range(9)],
            dark_now=2,
            lag_seconds=41.7,
            hurts=_hurting(dark, flapping),
            findings=[dark, flapping, static, cooperative],
        ),
        MadeGroup(
            "settlement",
            {"payments": 8, "refunds": 4},
            4,
            restarts=[12, 27, 41, 55],
            lag_seconds=764.0,
            lag_rises=True,
            hurts=_hurting(poll, grows),
            findings=[poll, grows],
        ),
        MadeGroup(
            "fraud-scoring",
            {"payments": 8, "logins": 48},
            12,
            "consumer",
            restarts=[1.2],
            state="Reconciling",
            lag_seconds=3.1,
        ),
        MadeGroup("search-indexer", {"catalogue": 64}, 16, "consumer", restarts=[33], lag_seconds=0.8),
        MadeGroup("email-notifications", {"orders": 16}, 3, restarts=[88], lag_seconds=0.2),
        MadeGroup("warehouse-sync", {"orders": 16, "stock": 12}, 5, lag_seconds=1.4),
        MadeGroup("clickstream-sessions", {"clicks": 120}, 30, "consumer", restarts=[19, 21], lag_seconds=2.2),
        MadeGroup("billing-export", {"invoices": 6}, 0, lag_seconds=5400.0, lag_rises=True),
        MadeGroup("audit-archive", {"audit": 12}, 2, lag_seconds=12.4),
        MadeGroup("recommendations", {"clicks": 120, "catalogue": 64}, 8, "consumer", restarts=[48], lag_seconds=6.3),
        MadeGroup("customer-360", {"profiles": 24}, 6, lag_seconds=0.6),
        MadeGroup("price-watch", {"prices": 9}, 3, "consumer", lag_seconds=0.3),
        MadeGroup("ledger-snapshot", {"ledger": 10}, 1, lag_seconds=None),
        MadeGroup("loyalty-points", {"orders": 16}, 4, "consumer", restarts=[51], lag_seconds=0.4),
    ]
    return MadeCluster({group.group_id: group for group in groups})


def hostile() -> MadeCluster:
    """Groups, clients and topics whose names strangers chose to do harm."""
    groups = [
        MadeGroup(
            name,
            {name[:200]: 3},
            2,
            restarts=[5],
            client=name[:200],
            hurts=[name[:200]],
            findings=[_finding("thrashing", *[name[:200]] * 2, x=name[:200]) | {"title": name[:200]}],
        )
        for name in HOSTILE
    ]
    return MadeCluster({group.group_id: group for group in groups}, problems=[f"Topic {HOSTILE[0]} cannot be read."])


def large(groups: int = 1000, partitions: int = 1000) -> MadeCluster:
    """A thousand groups, and one group of a thousand partitions with twenty rebalances."""
    chance = random.Random(7)
    big = MadeGroup(
        "firehose",
        {f"events-{letter}": partitions // 4 for letter in "abcd"},
        40,
        "consumer",
        restarts=[6 * step + 1.0 for step in range(10)],
        lag_seconds=9.0,
    )
    summaries = []
    for index in range(groups - 1):
        lag = round(chance.expovariate(0.3), 2)
        summaries.append(
            {
                "group": f"team-{index % 37:02}.service-{index:04}",
                "type": "consumer" if index % 3 else "classic",
                "state": "Stable",
                "members": 1 + index % 12,
                "partitions": 4 + index % 60,
                "lag": round(lag * 120),
                "lag_seconds": lag,
                "lag_series": [[NOW - HOUR + step * MINUTE, round(lag * chance.random(), 2)] for step in range(60)],
                "rebalances_1h": index % 5,
                "dark_seconds_1h": index % 7 * 1.5,
                "dark_now": 0,
                "last_rebalance": {"generation": index, "at": NOW - index * 9000, "cause": "member joined", "moved": 3},
                "hurts": index % 97 == 0,
                "hurts_because": ["5 rebalances in the last hour"] if index % 97 == 0 else [],
            }
        )
    return MadeCluster({big.group_id: big}, summaries)
