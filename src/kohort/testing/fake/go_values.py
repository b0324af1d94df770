"""JSON and durations as Go reads and prints them, with its error messages.

`kcl fake --control` is written in Go, and its clients rely on what it accepts and show what it answers. The rules and
the messages are those of encoding/json/v2 with unknown members rejected, and of `time.ParseDuration`. Only messages
about malformed JSON text are shorter here: they name the place, and not what was expected there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from kohort.model import NO_TOPIC_ID, UUID


class GoError(ValueError):
    """Text that a Go program would not accept; the message is Go's."""


# Durations

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_MAX_NS = 2**63 - 1
_LONGEST_FLOAT = 400
_DURATION_PART = re.compile(r"(\d*)(\.?)(\d*)([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as "300ms", "-1.5h" or "2h45m". Raises GoError."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise GoError(f"time: invalid duration {_quote_bytes(text)}")
    total = Fraction(0)
    while rest:
        found = _DURATION_PART.match(rest)
        assert found is not None
        whole, _, fraction, unit = found.groups()
        if not whole and not fraction:
            raise GoError(f"time: invalid duration {_quote_bytes(text)}")
        if not unit:
            raise GoError(f"time: missing unit in duration {_quote_bytes(text)}")
        if unit not in _UNITS_NS:
            raise GoError(f"time: unknown unit {_quote_bytes(unit)} in duration {_quote_bytes(text)}")
        total += int(Fraction(f"{whole or 0}.{fraction or 0}") * _UNITS_NS[unit])
        rest = rest[found.end() :]
        if total > _MAX_NS:
            raise GoError(f"time: invalid duration {_quote_bytes(text)}")
    return -int(total) if text.startswith("-") else int(total)


def print_duration(nanoseconds: int) -> str:
    """Return a duration as Go prints it: 300ms, 1.5s, 1m30s, 1h0m0s."""
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest == 0:
        return "0s"
    for unit, scale in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if rest < scale * 1_000:
            return f"{sign}{_decimal(rest, scale)}{unit}"
    minutes, below = divmod(rest, _UNITS_NS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(below, _UNITS_NS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(number: int, scale: int) -> str:
    whole, fraction = divmod(number, scale)
    digits = f"{fraction:0{len(str(scale)) - 1}d}".rstrip("0") if scale > 1 else ""
    return f"{whole}.{digits}" if digits else str(whole)


def quote(text: str) -> str:
    """Return a text as Go's verb %q prints it."""
    escaped = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    out = []
    for each in text:
        if each in escaped:
            out.append(escaped[each])
        elif each.isprintable():
            out.append(each)
        elif ord(each) < 0x100:
            out.append(f"\\x{ord(each):02x}" if ord(each) < 0x80 else f"\\u{ord(each):04x}")
        else:
            out.append(f"\\u{ord(each):04x}" if ord(each) < 0x10000 else f"\\U{ord(each):08x}")
    return f'"{"".join(out)}"'


def _quote_bytes(text: str) -> str:
    """Return a text as Go's package time quotes it: bytes outside of printable ASCII as \\x.."""
    out = []
    for byte in text.encode("utf-8", "surrogatepass"):
        each = chr(byte)
        out.append(f"\\{each}" if each in '"\\' else each if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
    return f'"{"".join(out)}"'


# JSON


class _Number(str):
    """The literal of a JSON number."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object."""


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text, with numbers and objects as this module's types. Raises GoError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise GoError(f"jsontext: invalid UTF-8{_after(error.start)}") from None
    try:
        return json.loads(
            text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_no_constant,
            object_pairs_hook=_pairs,
        )
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
            raise GoError(f"jsontext: unexpected EOF{_after(len(data))}") from None
        found = text[error.pos]
        where = "after top-level value" if error.msg == "Extra data" else "at start of value"
        shown = "'\\''" if found == "'" else f"'{quote(found)[1:-1]}'"
        raise GoError(f"jsontext: invalid character {shown} {where}{_after(offset)}") from None
    except RecursionError:
        raise GoError("jsontext: exceeded max depth") from None


def _after(offset: int) -> str:
    return f" after offset {offset}" if offset else ""


def _no_constant(name: str) -> Any:
    raise GoError(f"jsontext: invalid character '{name[0]}' at start of value")


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise GoError(f"jsontext: duplicate object member name {quote(name)}")
        names.add(name)
    return _Pairs(pairs)


def _kind(value: Any) -> str:
    if isinstance(value, _Number):
        return "number"
    if isinstance(value, _Pairs):
        return "object"
    return {str: "string", bool: "boolean", list: "array", type(None): "null"}[type(value)]


def _within(path: str) -> str:
    return f" within {quote(path)}" if path else ""


class GoType(Protocol):
    """A type of Go."""

    @property
    def name(self) -> str:
        """The name that Go prints."""
        ...

    @property
    def zero(self) -> Any:
        """The value that JSON's null has."""
        ...

    def read(self, value: Any, path: str = "") -> Any:
        """Return the value that `parse_json` returned as one of this type; `path` is its JSON pointer."""
        ...


def _mismatch(value: Any, of: GoType, path: str) -> GoError:
    return GoError(f"json: cannot unmarshal JSON {_kind(value)} into Go {of.name}{_within(path)}")


@dataclass(frozen=True, slots=True)
class _String:
    name: str = "string"
    zero: str = ""

    def read(self, value: Any, path: str = "") -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or isinstance(value, _Number):
            raise _mismatch(value, self, path)
        return value


@dataclass(frozen=True, slots=True)
class _Bool:
    name: str = "bool"
    zero: bool = False

    def read(self, value: Any, path: str = "") -> bool:
        if value is None:
            return False
        if not isinstance(value, bool):
            raise _mismatch(value, self, path)
        return value


@dataclass(frozen=True, slots=True)
class _Int:
    name: str
    bits: int
    zero: int = 0

    def read(self, value: Any, path: str = "") -> int:
        if value is None:
            return 0
        if not isinstance(value, _Number):
            raise _mismatch(value, self, path)
        problem = "invalid syntax"
        if re.fullmatch(r"-?\d+", value):
            limit = 1 << (self.bits - 1)
            if len(value) <= len(str(limit)) + 1 and -limit <= (number := int(value)) < limit:
                return number
            problem = "value out of range"
        raise GoError(f"json: cannot unmarshal JSON number {value} into Go {self.name}{_within(path)}: {problem}")


@dataclass(frozen=True, slots=True)
class _Float:
    name: str = "float64"
    zero: float = 0.0

    def read(self, value: Any, path: str = "") -> float:
        if value is None:
            return 0.0
        if not isinstance(value, _Number):
            raise _mismatch(value, self, path)
        if len(value) > _LONGEST_FLOAT:
            raise GoError(
                f"json: cannot unmarshal JSON number {value} into Go float64{_within(path)}: value out of range"
            )
        return float(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A slice."""

    of: GoType

    @property
    def name(self) -> str:
        return f"[]{self.of.name}"

    @property
    def zero(self) -> list[Any]:
        return []

    def read(self, value: Any, path: str = "") -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list) or isinstance(value, _Pairs):
            raise _mismatch(value, self, path)
        return [self.of.read(each, f"{path}/{place}") for place, each in enumerate(value)]


@dataclass(frozen=True, slots=True)
class _StringMap:
    name: str = "map[string]string"

    @property
    def zero(self) -> dict[str, str]:
        return {}

    def read(self, value: Any, path: str = "") -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, _Pairs):
            raise _mismatch(value, self, path)
        return {name: STRING.read(each, _inner(path, name)) for name, each in value}


@dataclass(frozen=True, slots=True)
class Pointer:
    """A value that may be absent: None."""

    to: GoType
    zero: None = None

    @property
    def name(self) -> str:
        return f"*{self.to.name}"

    def read(self, value: Any, path: str = "") -> Any:
        return None if value is None else self.to.read(value, path)


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with these members and no others."""

    name: str
    members: Mapping[str, GoType]
    defaults: Mapping[str, Any]
    """Values of members that are absent; the others have the zero value of their type."""

    @property
    def zero(self) -> dict[str, Any]:
        return {name: member.zero for name, member in self.members.items()}

    def read(self, value: Any, path: str = "") -> dict[str, Any]:
        if value is None:
            return self.zero
        if not isinstance(value, _Pairs):
            raise _mismatch(value, self, path)
        found = {**self.zero, **self.defaults}
        for name, each in value:
            if name not in self.members:
                # Go reports the kind of the name, which is a string.
                problem = f"json: cannot unmarshal JSON string into Go {self.name}"
                raise GoError(f"{problem}: unknown object member name {quote(name)}{_within(path)}")
            found[name] = self.members[name].read(each, _inner(path, name))
        return found


def anonymous(defaults: Mapping[str, Any] | None = None, /, **members: tuple[str, GoType]) -> Struct:
    """Return a struct without a name of its own; each member is given by its Go name, with its JSON name and type."""
    fields = (f'{go_name} {member.name} "json:\\"{json_name}\\""' for go_name, (json_name, member) in members.items())
    return Struct(f"struct {{ {'; '.join(fields)} }}", dict(members.values()), defaults or {})


def _inner(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


@dataclass(frozen=True, slots=True)
class _TopicId:
    name: str = "[16]uint8"
    zero: UUID = NO_TOPIC_ID

    def read(self, value: Any, path: str = "") -> UUID:
        if not isinstance(value, str):
            raise _mismatch(value, self, path)
        return parse_uuid(value)


def parse_uuid(text: str) -> UUID:
    """Return a UUID in one of its usual forms. Raises GoError."""
    try:
        return UUID(text)
    except ValueError:
        raise GoError("invalid UUID") from None


STRING: GoType = _String()
BOOL: GoType = _Bool()
FLOAT: GoType = _Float()
INT: GoType = _Int("int", 64)
INT32: GoType = _Int("int32", 32)
INT64: GoType = _Int("int64", 64)
STRING_MAP: GoType = _StringMap()
TOPIC_ID: GoType = _TopicId()


def read_argument(of: GoType, text: str) -> Any:
    """Return one argument of a call: a string as it is, a topic ID in any usual form, everything else as JSON."""
    if of is STRING:
        return text
    if of is TOPIC_ID:
        return parse_uuid(text)
    return of.read(parse_json(text.encode("utf-8", "surrogatepass")))


def members_of(values: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Return the members that are not zero, in this order, as Go prints a struct with `omitzero`."""
    return {name: values[name] for name in order if values[name] not in ("", 0, False, None) and values[name] != []}
