"""Classes of other Python libraries for Kafka over Kohort's client: `kafka_python`, `aiokafka`, `confluent`.

A program changes only its imports. The adapters do not use the libraries. `docs/coming-from.md`
lists the differences. This package has the parts that the first two share.
"""

from kohort.compat.error_names import ErrorNames
from kohort.compat.library_options import LibraryOptions, assignors, milliseconds, servers

__all__ = ["ErrorNames", "LibraryOptions", "assignors", "milliseconds", "servers"]
