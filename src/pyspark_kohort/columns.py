"""The columns of spark-sql-kafka: which of them a query reads is its schema, which it writes is its rows'."""

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
    """A query may ask for fewer columns, not for others: fewer are read several times faster. Raises ConfigError."""
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
    """Rows to be written have a value, and a topic where the option gives none. Raises ConfigError."""
    for field in schema:
        if field.name not in _WRITTEN:
            known = ", ".join(_WRITTEN)
            raise ConfigError(f"Column {field.name} is nothing to write by format kohort, which takes {known}.")
        kind, kinds = field.dataType.simpleString(), _WRITTEN[field.name]
        if kind not in kinds:
            raise ConfigError(f"Column {field.name} must be {' or '.join(kinds)} to be written, not {kind}; cast it.")
    if "value" not in schema.names:
        raise ConfigError("There is no column value to write.")
    if topic is None and "topic" not in schema.names:
        raise ConfigError("Where to write to is not said: give the option topic, or a column topic.")
