"""Analysis of the history of consumer groups in a cluster's `__consumer_offsets`, with Spark: docs/analytics.md.

`analyse` computes the tables and a store keeps them; `write_report` makes a page of them.
`from_cluster`, `from_segments` and `from_raw` read a history. Executors import this package for its
decoder, which needs only the parts of Spark that they have already loaded, so names load on demand.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.analytics.arrow_functions import Mapped
    from kohort.analytics.ends import ends_of_cluster
    from kohort.analytics.job import (
        OnProgress,
        Settings,
        analyse,
        analyse_journal,
        from_cluster,
        from_raw,
        from_segments,
        has_journal,
        journal_of_cluster,
        journal_of_segments,
    )
    from kohort.analytics.places import Destination, place
    from kohort.analytics.report import write_report
    from kohort.analytics.source import estimated_records
    from kohort.analytics.stores import DeltaStore, Format, IcebergStore, ParquetStore, store
else:
    __getattr__ = on_demand(
        __name__,
        {
            "arrow_functions": ("Mapped",),
            "ends": ("ends_of_cluster",),
            "job": (
                "OnProgress",
                "Settings",
                "analyse",
                "analyse_journal",
                "from_cluster",
                "from_raw",
                "from_segments",
                "has_journal",
                "journal_of_cluster",
                "journal_of_segments",
            ),
            "places": (
                "Destination",
                "place",
            ),
            "report": ("write_report",),
            "source": ("estimated_records",),
            "stores": (
                "DeltaStore",
                "Format",
                "IcebergStore",
                "ParquetStore",
                "store",
            ),
        },
    )

__all__ = [
    "DeltaStore",
    "Destination",
    "Format",
    "IcebergStore",
    "Mapped",
    "OnProgress",
    "ParquetStore",
    "Settings",
    "analyse",
    "analyse_journal",
    "ends_of_cluster",
    "estimated_records",
    "from_cluster",
    "from_raw",
    "from_segments",
    "has_journal",
    "journal_of_cluster",
    "journal_of_segments",
    "place",
    "store",
    "write_report",
]
