"""The declaration of messages. Each message is declared once, for all its versions.

A message is a class whose annotations are wire types. A default may be `since(...)`, which gives
the versions in which the field exists. `@message` and `@struct` turn the class into a plain data
class with slots and keyword arguments. The class keeps the schema, from which the codec is
compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from kohort.model import NO_TOPIC_ID, UUID

NEWEST = 32767
"""Upper bound for a field that no version has removed."""

NOT_ASKED = -(2**31)
"""Value of the authorized operations if the client did not request them (KIP-430)."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number. `format` is a format character of the module `struct`."""

    format: str
    size: int


@dataclass(frozen=True, slots=True)
class UuidType:
    """A UUID, 16 bytes."""


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string with its length in front."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with their length in front.

    With `in_place`, they are neither copied when read nor joined when written. With `secret`, a
    struct's repr does not show them.
    """

    in_place: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array of elements with their count in front."""

    element: "WireType"


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested struct."""

    kind: "type[Struct]"


WireType = Fixed | UuidType | Text | Blob | ArrayOf | Nested

Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
UInt16 = Annotated[int, Fixed("H", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Float64 = Annotated[float, Fixed("d", 8)]
Bool = Annotated[bool, Fixed("?", 1)]
Uuid = Annotated[UUID, UuidType()]
String = Annotated[str, Text()]
NullableString = Annotated[str | None, Text()]
Bytes = Annotated[bytes, Blob()]
NullableBytes = Annotated[bytes | None, Blob()]
SecretBytes = Annotated[bytes, Blob(secret=True)]
"""Bytes that contain a password or what is derived from one, such as a SASL token."""
Records = Annotated[Buffer | None, Blob(in_place=True)]
"""Record batches in wire format: a view into the request that contains them."""
RecordParts = Annotated[Buffer | list[Buffer] | None, Blob(in_place=True)]
"""Like `Records`, or several buffers that are written consecutively. Decoding returns one view."""


class _Unset:
    """Marker for a field without a default, which uses the zero value of its type."""


_UNSET = _Unset()


@dataclass(frozen=True, slots=True)
class _Since:
    first: int
    last: int
    default: Any
    ignorable: bool
    nullable: int | None
    tag: int | None


def since(
    first: int,
    *,
    until: int = NEWEST,
    default: Any = _UNSET,
    ignorable: bool = False,
    nullable: int | None = None,
    tag: int | None = None,
) -> Any:
    """Declare a field that exists in versions `first` to `until`.

    In other versions, the field has its default. Setting another value there is an error unless the
    field is `ignorable`. Without `default`, the default is the zero value of the type, also for
    nullable strings and arrays, as in Kafka's schemas.

    - `nullable`: the first version in which the field may be null, if not `first`.
    - `tag`: the tag of a tagged field (KIP-482), which is omitted while it has its default.
    """
    return _Since(first, until, default, ignorable, nullable, tag)


# For a type checker, the results of `since` and `array` are plain values, not field specifiers. So
# it treats every field as one with a default.


def array() -> Any:
    """Declare an array that exists in all versions and is empty by default."""
    return _Since(0, NEWEST, _UNSET, False, None, None)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct, for all versions."""

    name: str
    type: WireType
    first: int
    last: int
    default: Any
    """A list means a new empty list, a struct class a new instance of it."""
    ignorable: bool
    nullable: int
    """First version in which the field may be null."""
    tag: int | None

    def exists(self, version: int) -> bool:
        """Return whether that version has the field."""
        return self.first <= version <= self.last

    def may_be_null(self, version: int) -> bool:
        """Return whether the field may be null in that version."""
        return version >= self.nullable


class Struct:
    """Base class of structs, the parts of messages. Structs are equal if all their fields are equal.

    A struct is mutable and has one owner.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __init__(self, **values: Any) -> None:
        # A process never constructs most kinds, so the first instance of each compiles the real
        # constructor.
        type.__setattr__(type(self), "__init__", _constructor(type(self)))
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={'<secret>' if _is_secret(field) else repr(value)}"
            for field in self.FIELDS
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _is_secret(field: Field) -> bool:
    return isinstance(field.type, Blob) and field.type.secret


class Message(Struct):
    """Base class of messages: requests, responses and records."""

    __slots__ = ()
    KEY: ClassVar[int] = -1
    """API key, or -1 if the message is not a request or response."""
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE: ClassVar[int] = NEWEST
    """First version with compact lengths and tagged fields."""


_S = TypeVar("_S", bound=Struct)
_M = TypeVar("_M", bound=Message)


@dataclass_transform(kw_only_default=True)
def struct(kind: type[_S]) -> type[_S]:
    """Make a struct from a class of annotated fields."""
    return _with_slots(kind)


@dataclass_transform(kw_only_default=True)
def message(*, versions: tuple[int, int], flexible: int = NEWEST, key: int = -1) -> Callable[[type[_M]], type[_M]]:
    """Make a message from a class of annotated fields. `versions` are the lowest and highest version, inclusive."""

    def make(kind: type[_M]) -> type[_M]:
        made = _with_slots(kind)
        made.KEY, made.VERSIONS, made.FLEXIBLE = key, versions, flexible
        return made

    return make


def _with_slots(kind: type[_S]) -> type[_S]:
    fields = tuple(_field(name, kind.__annotations__[name], kind) for name in kind.__annotations__)
    names = {field.name for field in fields}
    body = {key: value for key, value in vars(kind).items() if key not in names | {"__dict__", "__weakref__"}}
    body |= {"__slots__": tuple(field.name for field in fields), "FIELDS": fields, "__qualname__": kind.__qualname__}
    return cast(type[_S], type(kind.__name__, kind.__bases__, body))


def _field(name: str, annotation: Any, owner: type[Struct]) -> Field:
    wire_type, optional = _wire_type(annotation)
    given = vars(owner).get(name, _UNSET)
    spec = given if isinstance(given, _Since) else _Since(0, NEWEST, given, False, None, None)
    default = _zero(wire_type) if spec.default is _UNSET else spec.default
    # In a tagged struct, None means that the field is omitted. Few such structs also have a null
    # value on the wire.
    has_null = optional and not (isinstance(wire_type, Nested) and spec.tag is not None)
    nullable = spec.nullable if spec.nullable is not None else spec.first if has_null else NEWEST
    if isinstance(wire_type, Nested) and not optional:
        default = wire_type.kind
    assert spec.tag is None or spec.last == NEWEST, "a tagged field that was removed"
    return Field(name, wire_type, spec.first, spec.last, default, spec.ignorable, nullable, spec.tag)


def _wire_type(annotation: Any) -> tuple[WireType, bool]:
    """Return the wire type of an annotation, and whether it allows None."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return args[1], NoneType in get_args(args[0])
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return _wire_type(inner)[0], True
    if origin is list:
        return ArrayOf(_wire_type(args[0])[0]), False
    assert isinstance(annotation, type) and issubclass(annotation, Struct), annotation
    return Nested(annotation), False


def _zero(wire_type: WireType) -> Any:
    match wire_type:
        case Fixed(format="?"):
            return False
        case Fixed(format="d"):
            return 0.0
        case Fixed():
            return 0
        case UuidType():
            return NO_TOPIC_ID
        case Text():
            return ""
        case Blob(in_place=False):
            return b""
        case Blob():
            return None
        case ArrayOf():
            return []
        case Nested():
            return None


def _constructor(kind: type[Struct]) -> Callable[..., None]:
    """Compile `__init__` for that class."""
    scope: dict[str, Any] = {}
    arguments, body = [], []
    for index, field in enumerate(kind.FIELDS):
        scope[f"d{index}"] = None if isinstance(field.default, list) else field.default
        arguments.append(f"{field.name}=d{index}")
        if isinstance(field.default, list) and field.nullable == NEWEST:
            body.append(f"self.{field.name} = [] if {field.name} is None else {field.name}")
        elif isinstance(field.default, list):
            # None is a valid value here, so another object marks an omitted argument.
            scope[f"d{index}"] = _UNSET
            scope["unset"] = _UNSET
            body.append(f"self.{field.name} = [] if {field.name} is unset else {field.name}")
        elif isinstance(field.default, type):
            scope[f"d{index}"], scope[f"k{index}"] = None, field.default
            body.append(f"self.{field.name} = k{index}() if {field.name} is None else {field.name}")
        else:
            body.append(f"self.{field.name} = {field.name}")
    signature = ", ".join(["self", *(["*"] if arguments else []), *arguments])
    source = f"def __init__({signature}):\n " + "\n ".join(body or ["pass"])
    exec(compile(source, f"<{kind.__name__}>", "exec"), scope)
    made: Callable[..., None] = scope["__init__"]
    return made
