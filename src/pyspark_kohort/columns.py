"""Columns of spark-sql-kafka: those that a query may read, and those that it may write."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kohort.errors import ConfigError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
WITH_HEADERS = StructType([*COLUMNS.fields, StructField("headers", ArrayType(_HEADER))])


def check_columns(schema: StructType) -> None:
    """Check the schema that a query requests. Raises ConfigError.

    A query may request fewer columns, which are read several times faster, but no others.
    """
    for field in schema:
        if field.name not in WITH_HEADERS.names:
            known = ", ".join(WITH_HEADERS.names)
            raise ConfigError(f"Column {field.name} is unknown to format kohort, which has {known}.")
        kind = WITH_HEADERS[field.name].dataType.simpleString()
        if field.dataType.simpleString() != kind:
            raise ConfigError(f"Column {field.name} is {kind}, not {field.dataType.simpleString()}; cast it instead.")


_WRITTEN = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (WITH_HEADERS["headers"].dataType.simpleString(),),
}


def check_written_columns(schema: StructType, topic: str | None) -> None:
    """Check the schema of rows to write. Raises ConfigError.

    Rows need the column `value`, and the column `topic` unless the option `topic` is set.
    """
    for field in schema:
        if field.name not in _WRITTEN:
            known = ", ".join(_WRITTEN)
            raise ConfigError(f"Column {field.name} cannot be written by format kohort, which writes {known}.")
        kind, kinds = field.dataType.simpleString(), _WRITTEN[field.name]
        if kind not in kinds:
            raise ConfigError(f"Column {field.name} must be {' or '.join(kinds)} to be written, not {kind}; cast it.")
    if "value" not in schema.names:
        raise ConfigError("There is no column value to write.")
    if topic is None and "topic" not in schema.names:
        raise ConfigError("No target topic: set the option topic or add a column topic.")
