"""Settings that an experiment and its trials share, with their texts for files and help."""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from typing import Any, TypeVar

STORES = ("memory", "rocksdb")

_T = TypeVar("_T")


def setting(default: _T, text: str, *, name: str = "", least: float | None = None, choices: tuple[str, ...] = ()) -> _T:
    """Return a dataclass field for a setting.

    `text` is its comment in a file. `name` is its name there if that is not the attribute's with
    dashes, `least` its minimum, and `choices` its possible values or elements.
    """
    metadata = {"text": text, "name": name, "least": least, "choices": choices}
    made: Any = field(default=default, metadata=metadata)
    result: _T = made
    return result


def name_of(setting: Field[Any]) -> str:
    """Return the name of a setting in files."""
    return str(setting.metadata["name"] or setting.name.replace("_", "-"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of the group of a trial, its load, and its triggers."""

    members: int = setting(10, "Number of members at the start.", least=1)
    partitions: int = setting(50, "Number of partitions of the topic.", least=1)
    tick_ms: int = setting(50, "Interval between records per partition.", least=1)
    restore_ms: int = setting(0, "Simulated time to restore each new partition.", least=0)
    state_keys: int = setting(
        0, "Keys per partition in a changelog from which members restore; 0: no changelog.", least=0
    )
    store: str = setting("memory", "Store of the members' counts; rocksdb needs state-keys.", choices=STORES)
    commit_ms: int = setting(5_000, "Commit interval; 0 commits only before giving partitions up.", least=0)
    gap_ms: int = setting(0, "Time between the end of a member and its next start (bounce).", least=0)
    out_of_step: bool = setting(
        False, "Spread heartbeats before each trigger, as after hours without a rebalance, which synchronises them."
    )
    rest_ms: int = setting(
        3_000,
        "Rest before each trigger, plus a different part of up to as much again: triggers at a fixed distance"
        " would all meet the same phase of the heartbeats.",
        least=0,
    )
    warmup: bool = setting(False, "Move partitions only to members that have copied their state (KIP-441).")
    num_standby: int = setting(
        0, "Members that copy each partition in addition to its owner; any number above 0 enables warm-up.", least=0
    )
    max_warmups: int = setting(
        2, "Maximum number of concurrent copies of partitions that are to move.", name="max-warmup-replicas", least=1
    )
    acceptable_lag: int = setting(
        100,
        "Maximum number of changelog records that a copy may lack to count as complete. Kafka Streams' default of"
        " 10,000 suits changelogs of millions.",
        name="acceptable-recovery-lag",
        least=0,
    )
    probing_ms: int = setting(
        5_000,
        "Interval of reports to the group about copies that moved nothing. Kafka Streams probes every 10 minutes.",
        name="probing-rebalance-interval-ms",
        least=1,
    )
    trace: bool = setting(
        False, "Trace the requests of the group in a broker of Kohort, to show which hop of a move takes what."
    )
    settle_s: float = setting(60.0, "Time limit for the group to settle after a trigger, in seconds.", least=0)

    @property
    def is_warm(self) -> bool:
        """Whether partitions are copied before they move."""
        return self.warmup or self.num_standby > 0
