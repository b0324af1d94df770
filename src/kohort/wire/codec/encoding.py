"""Compile an encoder: straight-line code that encodes one message in one version as a list of buffers.

One `struct` call writes adjacent numbers together with the length of the field that follows them.
Nothing is joined here: record batches are sent in the buffers in which they arrived.
"""

import struct
from collections.abc import Callable
from typing import Any

from kohort.wire.codec.decoding import nearly_fixed
from kohort.wire.codec.schema import (
    NEWEST,
    ArrayOf,
    Blob,
    Buffer,
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
from kohort.wire.codec.varint import EncodeError, varint, write_tags

Encoder = Callable[[Any, list[Buffer]], None]


def compile_encoder(kind: type[Message], version: int) -> Encoder:
    """Return a function that appends the buffers of a message to a list."""
    return _Compiler(kind, version).compile()


def _absent(kind: str, field: str, version: int) -> EncodeError:
    return EncodeError(f"{kind}.{field} is set, but version {version} does not have it")


def _null(where: str, version: int) -> EncodeError:
    return EncodeError(f"{where} is null, but version {version} does not allow that")


_SCOPE = {
    "EncodeError": EncodeError,
    "struct_error": struct.error,
    "absent": _absent,
    "null": _null,
    "varint": varint,
    "write_tags": write_tags,
    "pack": struct.pack,
}


class _Compiler(Source):
    """Generator of one encoder's source.

    `run` collects the values for the next `struct` call; `out` is the name of the target list.
    """

    def __init__(self, kind: type[Message], version: int) -> None:
        super().__init__(_SCOPE)
        self.kind = kind
        self.version = version
        self.flexible = version >= kind.FLEXIBLE
        self.out = "parts"
        self.run: list[tuple[str, str]] = []

    @property
    def add(self) -> str:
        """Expression of the function that appends to `out`."""
        return "add" if self.out == "parts" else f"{self.out}.append"

    def compile(self) -> Encoder:
        self.lines = ["def encode(m, parts):", " add = parts.append", " try:"]
        self.struct(self.kind, "m")
        self.flush()
        self.emit("return")
        self.lines += [
            " except (struct_error, UnicodeEncodeError, OverflowError) as error:",
            f"  raise EncodeError(f'{self.kind.__name__} v{self.version}: {{error}}') from error",
        ]
        made: Encoder = self.function("encode", f"<encode {self.kind.__name__} v{self.version}>")
        return made

    # Runs of numbers

    def write(self, form: str, expression: str = "") -> None:
        self.run.append((form, expression))

    def packed(self, run: list[tuple[str, str]]) -> str:
        """Return the expression that packs that run."""
        packer = struct.Struct(">" + "".join(form for form, _ in run))
        values = [expression for _, expression in run if expression]
        if not values:
            return repr(bytes(packer.size))
        return f"{self.constant(packer.pack, 'p')}({', '.join(values)})"

    def flush(self) -> None:
        run, self.run = self.run, []
        if run:
            self.emit(f"{self.add}({self.packed(run)})")

    def write_length(self, legacy: str, length: str) -> None:
        """End the run with that length. A compact length is one more than the length, and 0 for null."""
        if not self.flexible:
            self.write(legacy, length)
            self.flush()
            return
        run, self.run = self.run, []
        short = self.packed([*run, ("B", length)])
        long = f"{self.packed(run)} + varint({length})" if run else f"varint({length})"
        self.emit(f"if {length} < 128:", f" {self.add}({short})", "else:", f" {self.add}({long})")

    # Structs and their fields

    def struct(self, kind: type[Struct], source: str) -> None:
        tagged = []
        for field in kind.FIELDS:
            if not field.exists(self.version):
                self.refuse(kind, field, source)
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(field, f"{source}.{field.name}", f"{kind.__name__}.{field.name}")
        if self.flexible:
            self.tags(kind, tagged, source)

    def refuse(self, kind: type[Struct], field: Field, source: str) -> None:
        if not field.ignorable:
            self.emit(
                f"if {self.is_set(field, f'{source}.{field.name}')}:",
                f" raise absent({kind.__name__!r}, {field.name!r}, {self.version})",
            )

    def is_set(self, field: Field, value: str) -> str:
        """Return the expression that tests whether a field differs from its default."""
        has_null = field.nullable != NEWEST
        if isinstance(field.default, list):
            return f"{value} is None or {value}" if has_null else value
        if field.default is None:
            if isinstance(field.type, Nested) and not has_null:
                return f"{value} is not None and {value} != {self.constant(field.type.kind(), 'd')}"
            return f"{value} is not None"
        if isinstance(field.default, type):
            return f"{value} != {self.constant(field.default(), 'd')}"
        if not field.default and isinstance(field.type, Fixed | Text | Blob):
            return f"{value} is None or {value}" if has_null else value
        return f"{value} != {self.constant(field.default, 'd')}"

    def field(self, field: Field, value: str, where: str) -> None:
        nullable = field.may_be_null(self.version)
        if not isinstance(field.type, Nested):
            self.value(field.type, value, nullable, where)
        elif not nullable:
            self.struct(field.type.kind, self.local(value))
        else:
            self.flush()
            inner = self.local(value)
            self.emit(f"if {inner} is None:", f" {self.add}(b'\\xff')", "else:")
            with self.indented():
                self.write("b", "1")
                self.struct(field.type.kind, inner)

    def local(self, value: str) -> str:
        """Assign the value to a local variable, and return its name."""
        local = self.name("x")
        self.emit(f"{local} = {value}")
        return local

    def value(self, wire_type: WireType, value: str, nullable: bool, where: str) -> None:
        match wire_type:
            case Fixed(form):
                self.write(form, value)
            case UuidType():
                self.write("16s", f"{value}.int.to_bytes(16, 'big')")
            case Text():
                self.sized(value, nullable, "h", ".encode('utf-8', 'surrogateescape')", where)
            case Blob(in_place=False):
                self.sized(value, nullable, "i", "", where)
            case Blob():
                self.in_place(value, nullable, where)
            case ArrayOf(element):
                self.array(element, value, nullable, where)
            case Nested():
                raise AssertionError("a struct is written by `field`")

    def if_null(self, local: str, nullable: bool, *empty: str, where: str) -> None:
        then = empty if nullable else (f"raise null({where!r}, {self.version})",)
        self.emit(f"if {local} is None:", *(f" {line}" for line in then), "else:")

    def sized(self, value: str, nullable: bool, legacy: str, convert: str, where: str) -> None:
        raw, length = self.name("b"), self.name("n")
        null = "0" if self.flexible else "-1"
        self.emit(f"{raw} = {value}")
        self.if_null(raw, nullable, f"{raw} = b''", f"{length} = {null}", where=where)
        if convert:
            self.emit(f" {raw} = {raw}{convert}")
        self.emit(f" {length} = len({raw}){' + 1' if self.flexible else ''}")
        self.write_length(legacy, length)
        self.emit(f"{self.add}({raw})")

    def in_place(self, value: str, nullable: bool, where: str) -> None:
        raw, length = self.name("b"), self.name("n")
        null, more = ("0", " + 1") if self.flexible else ("-1", "")
        self.emit(f"{raw} = {value}")
        self.if_null(raw, nullable, f"{raw} = b''", f"{length} = {null}", where=where)
        self.emit(f" {length} = (sum(map(len, {raw})) if type({raw}) is list else len({raw})){more}")
        self.write_length("i", length)
        self.emit(f"if type({raw}) is list:", f" {self.out}.extend({raw})", "else:", f" {self.add}({raw})")

    def array(self, element: WireType, value: str, nullable: bool, where: str) -> None:
        items, count = self.name("a"), self.name("n")
        null = "0" if self.flexible else "-1"
        self.emit(f"{items} = {value}")
        self.if_null(items, nullable, f"{items} = ()", f"{count} = {null}", where=where)
        self.emit(f" {count} = len({items}){' + 1' if self.flexible else ''}")
        self.write_length("i", count)
        if isinstance(element, Fixed):
            self.emit(f"if {items}:", f" {self.add}(pack(f'>{{len({items})}}{element.format}', *{items}))")
            return
        item = self.name("e")
        if isinstance(element, Nested) and nearly_fixed(element.kind, self.version):
            self.nearly_fixed(element.kind, item, items)
            return
        self.emit(f"for {item} in {items}:")
        with self.indented():
            if isinstance(element, Nested):
                self.struct(element.kind, item)
            else:
                self.value(element, item, False, where)

    def nearly_fixed(self, kind: type[Struct], item: str, items: str) -> None:
        """Write structs that consist of numbers if their strings are empty, with one `struct` call each."""
        unusual = []
        for field in kind.FIELDS:
            value = f"{item}.{field.name}"
            if not field.exists(self.version):
                if not field.ignorable:
                    unusual.append(self.is_set(field, value))
            elif field.tag is not None:
                unusual.append(self.is_set(field, value))
            elif isinstance(field.type, Text):
                unusual.append(value)
                empty, null = (1, 0) if self.flexible else (0, -1)
                self.write("B" if self.flexible else "h", f"{null} if {value} is None else {empty}")
            else:
                self.value(field.type, value, False, "")
        if self.flexible:
            self.write("x")
        run, self.run = self.run, []
        if not unusual:
            self.emit(f"if {items}:", f" {self.out} += [{self.packed(run)} for {item} in {items}]")
            return
        self.emit(f"for {item} in {items}:")
        with self.indented():
            self.emit(f"if not ({' or '.join(unusual)}):", f" {self.add}({self.packed(run)})", "else:")
            with self.indented():
                self.struct(kind, item)

    def tags(self, kind: type[Struct], tagged: list[Field], source: str) -> None:
        if not tagged:
            self.write("x")
            return
        tests = [self.is_set(field, f"{source}.{field.name}") for field in tagged]
        self.flush()
        self.emit(f"if not ({' or '.join(f'({test})' for test in tests)}):", f" {self.add}(b'\\0')", "else:")
        with self.indented():
            self.set_tags(kind, tagged, tests, source)

    def set_tags(self, kind: type[Struct], tagged: list[Field], tests: list[str], source: str) -> None:
        written, outer = self.name("w"), self.out
        self.emit(f"{written} = []")
        for field, test in sorted(zip(tagged, tests, strict=True), key=lambda pair: pair[0].tag or 0):
            self.out = self.name("c")
            self.emit(f"if {test}:", f" {self.out} = []")
            with self.indented():
                self.field(field, f"{source}.{field.name}", f"{kind.__name__}.{field.name}")
                self.flush()
                self.emit(f"{written}.append(({field.tag}, b''.join({self.out})))")
        self.out = outer
        self.emit(f"{self.add}(write_tags({written}))")
