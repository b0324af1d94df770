"""The columns of spark-sql-kafka, as DDL for Spark; which of them a query asks for is its schema."""

COLUMNS: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = "headers"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def ddl(*, include_headers: bool) -> str:
    """The full schema, with `headers` last as Spark's own source has it."""
    columns = COLUMNS | ({HEADERS: HEADERS_TYPE} if include_headers else {})
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
