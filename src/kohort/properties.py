"""Java's properties: the form of Kafka's configuration files."""

import re
from collections.abc import Mapping

_SPACE = " \t\f"
_NAMED: Mapping[str, str] = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans({"\\": "\\\\", **{character: f"\\{name}" for name, character in _NAMED.items()}})
_NAME_ESCAPES = str.maketrans({"=": "\\=", ":": "\\:", " ": "\\ ", "#": "\\#", "!": "\\!"})
_LINE = re.compile(r"\r\n|\r|\n")


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by name. A name that occurs again has its last value."""
    found = {}
    lines = iter(_LINE.split(text))
    for line in lines:
        logical = line.lstrip(_SPACE)
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1] + next(lines, "").lstrip(_SPACE)
        name, value = _split(logical)
        found[_unescaped(name)] = _unescaped(value)
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """Return the text of a file with these values."""
    lines = []
    for name, value in values.items():
        start = "\\" if value.startswith(" ") else ""
        lines.append(f"{name.translate(_ESCAPES).translate(_NAME_ESCAPES)}={start}{value.translate(_ESCAPES)}\n")
    return "".join(lines)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Divide a line at the first `=`, `:` or space that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _SPACE:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_SPACE)
    return line[:at], rest[1:].lstrip(_SPACE) if rest[:1] in ("=", ":") else rest


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _NAMED.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
