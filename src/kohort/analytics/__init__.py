"""Analysis of the history of consumer groups in a cluster's `__consumer_offsets`, with Spark: docs/analytics.md.

`analyse` computes the tables and a store keeps them. `from_cluster`, `from_segments` and `from_raw`
read a history.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.analytics.job import Settings, analyse, from_cluster, from_raw, from_segments
    from kohort.analytics.stores import DeltaStore, IcebergStore, ParquetStore

__all__ = [
    "DeltaStore",
    "IcebergStore",
    "ParquetStore",
    "Settings",
    "analyse",
    "from_cluster",
    "from_raw",
    "from_segments",
]


def __getattr__(name: str) -> Any:
    """Import an exported name on demand.

    Executors import this package for its decoder, which needs only the parts of Spark that they
    have already loaded.
    """
    if name in __all__:
        from kohort.analytics import job, stores

        return getattr(stores if name.endswith("Store") else job, name)
    raise AttributeError(name)
