"""Clusters for the tests of the page: one for pictures, one with names that do harm, and a large one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

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


def _finding(code: str, severity: str, title: str, text: str, advice: str, **evidence: Any) -> Json:
    return {
        "code": code,
        "severity": severity,
        "title": title,
        "text": text,
        "advice": advice,
        "member_ids": [],
        "doc": None,
        "evidence": evidence,
    }


def showcase() -> MadeCluster:
    """The cluster of the pictures: most groups are well, some hurt."""
    static = _finding(
        "static_membership",
        "critical",
        "Restarts make the group rebalance twice",
        "18 of 18 rebalances in the last hour are restarts: a member left and came back within 30 s. "
        "Each time, all 24 partitions stopped for up to 8.3 s.",
        "Set group.instance.id on each member, and session.timeout.ms above the time of a restart (45 s).",
        restarts=9,
        median_absence_ms=28_000,
    )
    cooperative = _finding(
        "cooperative",
        "warning",
        "The eager protocol stops everybody",
        "21 of 24 partitions had the same owner before and after the median rebalance, and stopped nevertheless.",
        "Set partition.assignment.strategy to CooperativeStickyAssignor, or group.protocol to consumer.",
        undisturbed_median=21,
    )
    poll = _finding(
        "poll_slow",
        "warning",
        "A member polls too slowly",
        "settlement-2 left four times because it did not poll for max.poll.interval.ms (300 s).",
        "Lower max.poll.records, or raise max.poll.interval.ms above the time that a batch takes.",
        timeouts=4,
    )
    groups = [
        MadeGroup(
            "checkout-enricher",
            {"orders": 16, "payments": 8},
            6,
            restarts=[3 + 6.1 * step for step in range(9)],
            dark_now=2,
            lag_seconds=41.7,
            hurts=["18 rebalances in the last hour", "2 partitions dark now"],
            findings=[static, cooperative],
        ),
        MadeGroup(
            "settlement",
            {"payments": 8, "refunds": 4},
            4,
            restarts=[12, 27, 41, 55],
            lag_seconds=764.0,
            lag_rises=True,
            hurts=["12 min behind, and rising"],
            findings=[poll],
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
            findings=[_finding("x", "critical", name[:200], name[:200], name[:200], x=name[:200])],
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
