"""Compile a decoder: straight-line code for one message in one version.

One `struct` call reads adjacent numbers together with the length of the field that follows them.
Nested structs are inlined. Positions only increase, so a length beyond the end of the data makes
the next read fail, or the check at the end: a string needs no check of its own. An array needs one,
because its count determines how much memory is allocated.
"""

import struct
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from kohort.model import UUID
from kohort.wire.codec.schema import (
    NEWEST,
    ArrayOf,
    Blob,
    Field,
    Fixed,
    Message,
    Nested,
    Struct,
    Text,
    UuidType,
    WireType,
)
from kohort.wire.codec.source import Source
from kohort.wire.codec.varint import DecodeError, read_varint, skip_tags

NO_LIMIT = 2**63
_M_co = TypeVar("_M_co", bound=Message, covariant=True)


class Decoder(Protocol[_M_co]):
    """A compiled decoder."""

    def __call__(self, data: bytes | bytearray, position: int, most_elements: int = ..., /) -> tuple[_M_co, int]:
        """Return the message at that position, and the position after it. Raises DecodeError.

        A message with more than `most_elements` elements in all its arrays is rejected as soon as
        that is known. An element of three bytes becomes an object of 150 bytes, so the size of a
        message says little about its memory use.
        """


_SHORT = 32
"""Array length below which the unpackers are prepared in advance."""


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def compile_decoder(kind: type[Message], version: int) -> Decoder[Any]:
    """Return a function that decodes a message at a position, and returns it with the position after it."""
    return _Compiler(kind, version).compile()


def minimal_size(wire_type: WireType, version: int, flexible: bool, optional: bool = False) -> int:
    """Return the minimum number of bytes of a value of that type."""
    match wire_type:
        case Fixed(size=size):
            return size
        case UuidType():
            return 16
        case Text():
            return 1 if flexible else 2
        case Blob() | ArrayOf():
            return 1 if flexible else 4
        case Nested() if optional:
            return 1
        case Nested(kind):
            fields = (field for field in kind.FIELDS if field.exists(version) and field.tag is None)
            return int(flexible) + sum(
                minimal_size(field.type, version, flexible, field.nullable != NEWEST) for field in fields
            )


def nearly_fixed(kind: type[Struct], version: int) -> bool:
    """Return whether the struct has only numbers, UUIDs, and strings that are usually null.

    Tagged fields are disregarded.
    """
    fields = [field for field in kind.FIELDS if field.exists(version) and field.tag is None]
    return sum(isinstance(field.type, Fixed) for field in fields) > 1 and all(
        isinstance(field.type, Fixed | UuidType) or (isinstance(field.type, Text) and field.may_be_null(version))
        for field in fields
    )


_SCOPE = {
    "DecodeError": DecodeError,
    "struct_error": struct.error,
    "new": object.__new__,
    "read_varint": read_varint,
    "skip_tags": skip_tags,
    "uuid": _uuid,
    "unpack_from": struct.unpack_from,
}


class _Compiler(Source):
    """Generator of one decoder's source; `run` collects the reads for the next `struct` call."""

    def __init__(self, kind: type[Message], version: int) -> None:
        super().__init__(_SCOPE)
        self.kind = kind
        self.version = version
        self.flexible = version >= kind.FLEXIBLE
        self.run: list[tuple[str, str]] = []
        self.after: list[str] = []

    def compile(self) -> Decoder[Any]:
        self.lines = [f"def decode(data, p, left={NO_LIMIT}):", " end = len(data)", " try:"]
        header = len(self.lines)
        self.struct(self.kind, "m")
        self.flush()
        if "view" in self.scope:
            self.lines.insert(header, "  view = memoryview(data)")
        self.emit("if p > end:", f" raise DecodeError('{self.kind.__name__} v{self.version} is cut short')")
        self.emit("return m, p")
        self.lines += [
            " except (IndexError, struct_error, ValueError, OverflowError) as error:",
            f"  raise DecodeError(f'{self.kind.__name__} v{self.version} is malformed: {{error}}') from error",
        ]
        made: Decoder[Any] = self.function("decode", f"<decode {self.kind.__name__} v{self.version}>")
        return made

    # Runs of numbers

    def read(self, form: str, target: str) -> None:
        self.run.append((form, target))

    def read_length(self, legacy: str) -> tuple[str, str]:
        """Read a length after the run and end the run; return its variable and the test for null.

        A compact length keeps its encoded value, which is one more than the length.
        """
        length = self.name("n")
        self.read("B" if self.flexible else legacy, length)
        self.flush()
        if not self.flexible:
            return length, f"{length} < 0"
        self.emit(f"if {length} > 127:", f" {length}, p = read_varint(data, p - 1)")
        return length, f"not {length}"

    def flush(self) -> None:
        run, self.run = self.run, []
        after, self.after = self.after, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self.emit(f"{run[0][1]} = data[p]", "p += 1")
        else:
            packer = struct.Struct(">" + "".join(form for form, _ in run))
            unpack = self.constant(packer.unpack_from, "u")
            self.emit(f"{', '.join(target for _, target in run)}, = {unpack}(data, p)", f"p += {packer.size}")
        self.emit(*after)

    # Structs and their fields

    def struct(self, kind: type[Struct], target: str) -> None:
        self.flush()
        self.emit(f"{target} = new({self.constant(kind, 'K')})")
        tagged = [field for field in kind.FIELDS if field.tag is not None and field.exists(self.version)]
        for field in kind.FIELDS:
            if field.tag is not None or not field.exists(self.version):
                self.emit(f"{target}.{field.name} = {self.default(field)}")
            else:
                self.field(kind, field, target)
        if self.flexible:
            self.tags(kind, tagged, target)

    def default(self, field: Field) -> str:
        if isinstance(field.default, list):
            return "[]"
        if isinstance(field.default, type):
            return f"{self.constant(field.default, 'K')}()"
        if field.default is None or isinstance(field.default, int | str | bytes):
            return repr(field.default)
        return self.constant(field.default, "d")

    def field(self, kind: type[Struct], field: Field, owner: str) -> None:
        target, where = f"{owner}.{field.name}", f"{kind.__name__}.{field.name}"
        nullable = field.may_be_null(self.version)
        if isinstance(field.type, Nested) and nullable:
            present = self.name("n")
            self.read("b", present)
            self.flush()
            # Null is -1 in a regular field and 0 in a tagged field. Kafka writes the latter even
            # though null is the default.
            self.emit(f"if {present} < 1:", f" {target} = None", "else:")
            with self.indented():
                self.value(field.type, target, False, where)
        else:
            self.value(field.type, target, nullable, where)

    def value(self, wire_type: WireType, target: str, nullable: bool, where: str) -> None:
        match wire_type:
            case Fixed(form):
                self.read(form, target)
            case UuidType():
                self.read("16s", target)
                self.after.append(f"{target} = uuid({target})")
            case Text():
                self.sized(target, nullable, "h", "data[p:q].decode('utf-8', 'surrogateescape')", where)
            case Blob(in_place=False):
                self.sized(target, nullable, "i", "bytes(data[p:q])", where)
            case Blob():
                self.scope["view"] = None
                self.sized(target, nullable, "i", "view[p:q]", where)
            case ArrayOf(element):
                self.array(element, target, nullable, where)
            case Nested(kind):
                inner = self.name("m")
                self.struct(kind, inner)
                self.flush()
                self.emit(f"{target} = {inner}")

    def null(self, target: str, nullable: bool, where: str) -> str:
        return f" {target} = None" if nullable else f" raise DecodeError('{where} is null')"

    def sized(self, target: str, nullable: bool, legacy: str, expression: str, where: str) -> None:
        length, is_null = self.read_length(legacy)
        end = f"p + {length} - 1" if self.flexible else f"p + {length}"
        self.emit(f"if {is_null}:", self.null(target, nullable, where), "else:")
        self.emit(f" q = {end}", f" {target} = {expression}", " p = q")

    def array(self, element: WireType, target: str, nullable: bool, where: str) -> None:
        count, is_null = self.read_length("i")
        self.emit(f"if {is_null}:", self.null(target, nullable, where), "else:")
        with self.indented():
            self.elements(element, target, count, where)

    def elements(self, element: WireType, target: str, count: str, where: str) -> None:
        least = minimal_size(element, self.version, self.flexible)
        if self.flexible:
            self.emit(f"{count} -= 1")
        # The code below allocates as many elements as the peer specifies, so the peer must have
        # sent enough bytes for them.
        self.emit(f"if {count} * {least} > end - p:", f" raise DecodeError('{where} is longer than its message')")
        self.emit(f"left -= {count}", "if left < 0:", f" raise DecodeError('{where} has too many elements')")
        if isinstance(element, Fixed):
            self.numbers(element, target, count)
            return
        items = self.name("a")
        self.emit(f"{target} = {items} = []")
        left = count
        if isinstance(element, Nested) and nearly_fixed(element.kind, self.version):
            self.fixed_prefix(element.kind, items, count, least)
            left = f"{count} - len({items})"
        self.emit(f"for _ in range({left}):")
        with self.indented():
            self.item(element, items, where)

    def item(self, element: WireType, items: str, where: str) -> None:
        item = self.name("e")
        if isinstance(element, Nested):
            self.struct(element.kind, item)
        else:
            self.value(element, item, False, where)
        self.flush()
        self.emit(f"{items}.append({item})")

    def numbers(self, element: Fixed, target: str, count: str) -> None:
        unpackers = tuple(struct.Struct(f">{n}{element.format}").unpack_from for n in range(_SHORT))
        ready = self.constant(unpackers, "u")
        self.emit(
            f"if {count} < {_SHORT}:",
            f" {target} = list({ready}[{count}](data, p))",
            "else:",
            f" {target} = list(unpack_from(f'>{{{count}}}{element.format}', data, p))",
            f"p += {count} * {element.size}",
        )

    def fixed_prefix(self, kind: type[Struct], items: str, count: str, size: int) -> None:
        """Read the elements with empty strings and tags in one call, up to the first that has any."""
        form, targets, wanted, stores = ">", [], [], []
        for field in kind.FIELDS:
            if not field.exists(self.version) or field.tag is not None:
                stores.append(f"x.{field.name} = {self.default(field)}")
                continue
            local = self.name("v")
            targets.append(local)
            match field.type:
                case Fixed(piece):
                    form += piece
                    stores.append(f"x.{field.name} = {local}")
                case UuidType():
                    form += "16s"
                    stores.append(f"x.{field.name} = uuid({local})")
                case _:
                    form += "B" if self.flexible else "h"
                    wanted.append(f"{local} > {int(self.flexible)}")
                    present = local if self.flexible else f"{local} == 0"
                    stores.append(f"x.{field.name} = '' if {present} else None")
        if self.flexible:
            form += "B"
            targets.append(self.name("v"))
            wanted.append(targets[-1])
        packer = struct.Struct(form)
        assert packer.size == size
        unpack, made = self.constant(packer.iter_unpack, "u"), self.constant(kind, "K")
        self.emit(f"for {', '.join(targets)}, in {unpack}(data[p:p + {count} * {size}]):")
        if wanted:
            self.emit(f" if {' or '.join(wanted)}:", "  break")
        self.emit(f" x = new({made})", *(f" {store}" for store in stores), f" {items}.append(x)")
        self.emit(f"p += len({items}) * {size}")

    def tags(self, kind: type[Struct], known: list[Field], target: str) -> None:
        count = self.name("t")
        self.read("B", count)
        self.flush()
        if not known:
            self.emit(f"if {count}:", " p = skip_tags(data, p - 1)")
            return
        self.emit(f"if {count}:", f" {count}, p = read_varint(data, p - 1)", f" for _ in range({count}):")
        with self.indented(), self.indented():
            self.tag(kind, known, target)

    def tag(self, kind: type[Struct], known: list[Field], target: str) -> None:
        tag, stop = self.name("t"), self.name("s")
        self.emit(f"{tag}, p = read_varint(data, p)", f"{stop}, p = read_varint(data, p)", f"{stop} += p")
        for field in known:
            self.emit(f"if {tag} == {field.tag}:")
            with self.indented():
                self.field(kind, field, target)
        self.emit(f"if p > {stop} or {stop} > end:", f" raise DecodeError('a tag of {kind.__name__} is too long')")
        self.emit(f"p = {stop}")
