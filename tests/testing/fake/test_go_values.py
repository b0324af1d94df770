"""JSON and durations: what Go 1.26 with encoding/json/v2 answers to the same texts, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.testing.fake.fault_sets import RULE
from kohort.testing.fake.go_values import (
    INT,
    INT32,
    STRING,
    STRING_MAP,
    GoError,
    GoType,
    ListOf,
    anonymous,
    parse_duration,
    parse_json,
    print_duration,
    quote,
    read_argument,
)

CALL = anonymous(Args=("args", ListOf(STRING)))
FAULTS = anonymous(Rules=("rules", ListOf(RULE)))
WAIT = anonymous({"hits": 1, "timeout": "30s"}, Hits=("hits", INT), Timeout=("timeout", STRING))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0s"),
        ("1.5s", "1.5s"),
        ("-1s", "-1s"),
        ("+2m", "2m0s"),
        ("1h2m3.5s", "1h2m3.5s"),
        ("1us", "1µs"),
        ("1μs", "1µs"),
        (".5s", "500ms"),
        ("1.s", "1s"),
        ("300ms", "300ms"),
        ("1ns", "1ns"),
        ("90s", "1m30s"),
        ("3600s", "1h0m0s"),
        ("1.000000001s", "1.000000001s"),
        ("0.5ms", "500µs"),
        ("-0.5s", "-500ms"),
        ("1s1s", "2s"),
        ("0s", "0s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(text: str, printed: str) -> None:
    assert print_duration(parse_duration(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("1", 'time: missing unit in duration "1"'),
        ("x", 'time: invalid duration "x"'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
        (".s", 'time: invalid duration ".s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
        ("1s2", 'time: missing unit in duration "1s2"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        (" 1s", 'time: invalid duration " 1s"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("10s\n", r'time: unknown unit "s\x0a" in duration "10s\x0a"'),
        ("1é", r'time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9"'),
        ("-", 'time: invalid duration "-"'),
    ],
)
def test_an_invalid_duration_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(GoError) as refused:
        parse_duration(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (CALL, "{}", {"args": []}),
        (CALL, "null", {"args": []}),
        (CALL, '{"args":null}', {"args": []}),
        (CALL, '{"args":[null,"b"]}', {"args": ["", "b"]}),
        (WAIT, "{}", {"hits": 1, "timeout": "30s"}),
        (WAIT, "null", {"hits": 0, "timeout": ""}),
        (WAIT, '{"hits":null}', {"hits": 0, "timeout": "30s"}),
        (FAULTS, '{"rules":[null]}', {"rules": [RULE.zero]}),
    ],
)
def test_null_and_what_is_absent_have_their_defaults(form: GoType, text: str, value: Any) -> None:
    assert form.read(parse_json(text.encode())) == value


_CALL_NAME = r'struct { Args []string "json:\"args\"" }'


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (CALL, "", "jsontext: unexpected EOF"),
        (CALL, " ", "jsontext: unexpected EOF after offset 1"),
        (CALL, "{", "jsontext: unexpected EOF after offset 1"),
        (CALL, "[]", f"json: cannot unmarshal JSON array into Go {_CALL_NAME}"),
        (CALL, '"x"', f"json: cannot unmarshal JSON string into Go {_CALL_NAME}"),
        (CALL, '{"args":1}', 'json: cannot unmarshal JSON number into Go []string within "/args"'),
        (CALL, '{"args":[1]}', 'json: cannot unmarshal JSON number into Go string within "/args/0"'),
        (CALL, '{"args":{}}', 'json: cannot unmarshal JSON object into Go []string within "/args"'),
        (CALL, '{"args":true}', 'json: cannot unmarshal JSON boolean into Go []string within "/args"'),
        (CALL, '{"args":["a"],"args":[]}', 'jsontext: duplicate object member name "args"'),
        (CALL, '{"args":[]} x', "jsontext: invalid character 'x' after top-level value after offset 12"),
        (CALL, "'a'", r"jsontext: invalid character '\'' at start of value"),
        (
            CALL,
            '{"Args":["a"]}',
            f'json: cannot unmarshal JSON string into Go {_CALL_NAME}: unknown object member name "Args"',
        ),
        (
            FAULTS,
            '{"rules":[{"a~b":1}]}',
            'json: cannot unmarshal JSON string into Go fake.Rule: unknown object member name "a~b" within "/rules/0"',
        ),
        (FAULTS, '{"rules":{}}', 'json: cannot unmarshal JSON object into Go []fake.Rule within "/rules"'),
        (FAULTS, '{"rules":[1]}', 'json: cannot unmarshal JSON number into Go fake.Rule within "/rules/0"'),
        (
            FAULTS,
            '{"rules":[{"count":1.5}]}',
            'json: cannot unmarshal JSON number 1.5 into Go int within "/rules/0/count": invalid syntax',
        ),
        (
            FAULTS,
            '{"rules":[{"nodes":[3000000000]}]}',
            'json: cannot unmarshal JSON number 3000000000 into Go int32 within "/rules/0/nodes/0": value out of range',
        ),
        (
            FAULTS,
            '{"rules":[{"top_level":1}]}',
            'json: cannot unmarshal JSON number into Go bool within "/rules/0/top_level"',
        ),
        (
            WAIT,
            '{"x":1}',
            r'json: cannot unmarshal JSON string into Go struct { Hits int "json:\"hits\""; Timeout string'
            r' "json:\"timeout\"" }: unknown object member name "x"',
        ),
        (CALL, "[" * 100_000, "jsontext: exceeded max depth"),
        (CALL, '{"args":[NaN]}', "jsontext: invalid character 'N' at start of value"),
    ],
)
def test_json_that_does_not_fit_is_refused_in_the_words_of_go(form: GoType, text: str, message: str) -> None:
    with pytest.raises(GoError) as refused:
        form.read(parse_json(text.encode()))
    assert str(refused.value) == message


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(GoError, match="invalid UTF-8 after offset 10"):
        parse_json(b'{"args":["\xff"]}')


@pytest.mark.parametrize(
    ("of", "text", "value"),
    [
        (STRING, "a b", "a b"),
        (STRING, '"a"', '"a"'),
        (INT32, " 3 ", 3),
        (INT32, "-1", -1),
        (INT32, "null", 0),
        (ListOf(INT32), "[1,2]", [1, 2]),
        (STRING_MAP, '{"a":"b"}', {"a": "b"}),
    ],
)
def test_an_argument_is_read_as_its_type_says(of: GoType, text: str, value: Any) -> None:
    assert read_argument(of, text) == value


@pytest.mark.parametrize(
    ("of", "text", "message"),
    [
        (INT32, "", "jsontext: unexpected EOF"),
        (INT32, "1.5", "json: cannot unmarshal JSON number 1.5 into Go int32: invalid syntax"),
        (INT32, "9" * 5000, f"json: cannot unmarshal JSON number {'9' * 5000} into Go int32: value out of range"),
        (INT32, "[1]", "json: cannot unmarshal JSON array into Go int32"),
        (ListOf(INT32), '[1,"a"]', 'json: cannot unmarshal JSON string into Go int32 within "/1"'),
        (STRING_MAP, '{"a":1}', 'json: cannot unmarshal JSON number into Go string within "/a"'),
        (STRING_MAP, "[]", "json: cannot unmarshal JSON array into Go map[string]string"),
    ],
)
def test_an_argument_of_another_type_is_refused_in_the_words_of_go(of: GoType, text: str, message: str) -> None:
    with pytest.raises(GoError) as refused:
        read_argument(of, text)
    assert str(refused.value) == message


def test_a_text_is_quoted_as_go_quotes_it() -> None:
    assert quote('a"b\\c\n\x01é') == r'"a\"b\\c\n\x01é"'
