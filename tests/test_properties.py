"""Files in the form of Kafka's configuration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kohort.properties import format_properties, parse_properties


def test_a_file_is_read_as_java_reads_properties() -> None:
    text = (
        "# comment\n! comment\n\n"
        "a=1\n b : 2\nc 3\nd\n"
        'sasl.jaas.config=org.Plain required \\\n   username="al\\\\ice" \\\r\n  password="x=y:z";\n'
        "spaced\\ name = \\u00fc \\t|\n"
        "odd=ends with a backslash\\\\\nnext=5"
    )
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "",
        "sasl.jaas.config": 'org.Plain required username="al\\ice" password="x=y:z";',
        "spaced name": "ü \t|",
        "odd": "ends with a backslash\\",
        "next": "5",
    }


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_is_written_is_read(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values
