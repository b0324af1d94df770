"""The columns of spark-sql-kafka; which of them a query asks for is its schema."""

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
