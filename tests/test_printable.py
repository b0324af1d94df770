from __future__ import annotations

import json

import pytest

from kohort.cli.output import columns, json_line, print_line, print_note
from kohort.printable import printable, printable_lines


def test_what_a_terminal_would_obey_is_an_escape() -> None:
    assert printable("grüße 群組 [red]x[/]") == "grüße 群組 [red]x[/]"
    assert printable("\x1b[31m\r\n\x9b2J") == r"\x1b[31m\r\n\x9b2J"
    assert printable("\u202egnp\ud800\u200b") == r"\u202egnp\ud800\u200b"
    assert printable_lines("a\n\tb\x1b") == "a\n\tb\\x1b"


def test_commands_print_names_of_strangers_in_one_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    columns(("group", "state"), [("a\nb\x1b[2J", "Stable"), ("c", None)])
    print_line("a\r\x1b]0;title\x07")
    print_note("kohort: There is no group \x1b[31m.")
    out, err = capfdbinary.readouterr()
    assert out.decode().splitlines() == [
        "group        state",
        r"a\nb\x1b[2J  Stable",
        "c            -",
        r"a\r\x1b]0;title\x07",
    ]
    assert err == b"kohort: There is no group \\x1b[31m.\n"


@pytest.mark.parametrize("name", ["\x9b2J", "\u202egnp", "\U000e0001", "\x7f", "plain ü", "a\nb"])
def test_json_for_a_terminal_has_the_same_meaning(name: str) -> None:
    line = json_line({name: name})
    assert json.loads(line) == {name: name}
    assert line.decode().rstrip("\n").isprintable()
