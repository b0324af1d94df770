"""What a cluster's `__consumer_offsets` says of its groups' past, by Spark: docs/analytics.md.

`analyse` makes the tables, a store keeps them; `from_cluster`, `from_segments` and `from_raw` are where a history comes
from.
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
    """Executors import this package for its decoder, which needs no more of Spark than they have loaded."""
    if name in __all__:
        from kohort.analytics import job, stores

        return getattr(stores if name.endswith("Store") else job, name)
    raise AttributeError(name)
