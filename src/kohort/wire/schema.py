"""How a message is declared: once, for all its versions.

A message is a class whose annotations are wire types and whose defaults may be `since(...)`, which says in which
versions the field exists. `@message` and `@struct` turn it into plain data with slots and keyword arguments; the
schema that the codec compiles from stays on the class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from kohort.model import NO_TOPIC_ID, UUID

NEWEST = 32767
"""The upper bound of a field that no version has removed."""

NOT_ASKED = -(2**31)
"""What stands for the operations that a caller may do where it did not ask for them (KIP-430)."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number: `format` as in the module struct."""

    format: str
    size: int


@dataclass(frozen=True, slots=True)
class UuidType:
    """Sixteen bytes."""


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 behind its length."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes behind their length; as a view (`in_place`) they are neither copied when read nor joined when written."""

    in_place: bool = False


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """Elements behind their number."""

    element: "WireType"


@dataclass(frozen=True, slots=True)
class Nested:
    """A struct in place."""

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
Records = Annotated[Buffer | None, Blob(in_place=True)]
"""Record batches as they stand on the wire: a view into the request that they came in."""
RecordParts = Annotated[Buffer | list[Buffer] | None, Blob(in_place=True)]
"""The same, or several buffers that follow one another on the wire; decoding gives one view."""


class _Unset:
    """No default was given: the type's zero holds."""


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
    """A field that exists in versions `first` to `until`.

    Outside them it has its default; another value there is the caller's error unless the field is `ignorable`. Without
    a `default` it is the type's zero, for nullable strings and arrays too, as in Kafka's schemas.
    `nullable`: the first version that may hold null, where that is not `first`.
    `tag`: the field is a tagged one (KIP-482), absent from the bytes while it has its default.
    """
    return _Since(first, until, default, ignorable, nullable, tag)


# A type checker sees `since` and `array` as plain values, not field specifiers: so every field has a default to it.


def array() -> Any:
    """An array that exists in all versions; empty by default."""
    return _Since(0, NEWEST, _UNSET, False, None, None)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct, over all versions."""

    name: str
    type: WireType
    first: int
    last: int
    default: Any
    """A list stands for a fresh empty one, a kind of struct for a fresh one of that kind."""
    ignorable: bool
    nullable: int
    """The first version in which null is allowed."""
    tag: int | None

    def exists(self, version: int) -> bool:
        """Whether that version has the field."""
        return self.first <= version <= self.last

    def may_be_null(self, version: int) -> bool:
        """Whether that version allows null."""
        return version >= self.nullable


class Struct:
    """Plain data with a place on the wire; equal when all fields are. It is mutable and has one owner."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __init__(self, **values: Any) -> None:
        # Most kinds are never constructed in a given process, so the real constructor is made by the first that is.
        type.__setattr__(type(self), "__init__", _constructor(type(self)))
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={value!r}" for field in self.FIELDS if (value := getattr(self, field.name)) != field.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A struct that is sent by itself."""

    __slots__ = ()
    KEY: ClassVar[int] = -1
    """The api key; -1 for what is not a request or response."""
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE: ClassVar[int] = NEWEST
    """The first version with compact lengths and tagged fields."""


_S = TypeVar("_S", bound=Struct)
_M = TypeVar("_M", bound=Message)


@dataclass_transform(kw_only_default=True)
def struct(kind: type[_S]) -> type[_S]:
    """Make a struct of a class of annotated fields."""
    return _with_slots(kind)


@dataclass_transform(kw_only_default=True)
def message(*, versions: tuple[int, int], flexible: int = NEWEST, key: int = -1) -> Callable[[type[_M]], type[_M]]:
    """Make a message of a class of annotated fields: `versions` are the lowest and highest, both included."""

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
    # None as the value of a tagged struct says that it is absent; few have a null of their own on the wire besides.
    has_null = optional and not (isinstance(wire_type, Nested) and spec.tag is not None)
    nullable = spec.nullable if spec.nullable is not None else spec.first if has_null else NEWEST
    if isinstance(wire_type, Nested) and not optional:
        default = wire_type.kind
    assert spec.tag is None or spec.last == NEWEST, "a tagged field that was removed"
    return Field(name, wire_type, spec.first, spec.last, default, spec.ignorable, nullable, spec.tag)


def _wire_type(annotation: Any) -> tuple[WireType, bool]:
    """The wire type that an annotation stands for, and whether it admits None."""
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
    """`__init__` of that kind, compiled."""
    scope: dict[str, Any] = {}
    arguments, body = [], []
    for index, field in enumerate(kind.FIELDS):
        scope[f"d{index}"] = None if isinstance(field.default, list) else field.default
        arguments.append(f"{field.name}=d{index}")
        if isinstance(field.default, list) and field.nullable == NEWEST:
            body.append(f"self.{field.name} = [] if {field.name} is None else {field.name}")
        elif isinstance(field.default, list):
            # None is a value of its own here, so another object says that nothing was given.
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
