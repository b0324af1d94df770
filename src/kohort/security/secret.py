"""Passwords, tokens and private keys as a type that no log, repr or pickle reveals."""

import hmac
from typing import NoReturn, Self

HIDDEN = "[hidden]"
"""Text that replaces every secret, as in Kafka's logs."""


class Secret:
    """Secret text. Only `reveal` and `reveal_bytes` return it.

    Its repr, str and format are "[hidden]". It cannot be pickled: what must leave the process is
    revealed on purpose.
    """

    __slots__ = ("_value",)
    _value: bytes

    def __init__(self, value: str | bytes) -> None:
        object.__setattr__(self, "_value", value.encode() if isinstance(value, str) else bytes(value))

    def reveal(self) -> str:
        """Return the secret as text."""
        return self._value.decode()

    def reveal_bytes(self) -> bytes:
        """Return the secret as bytes, in UTF-8."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time. A secret never equals plain text."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled, because the pickle would reveal it")

    def __reduce__(self) -> NoReturn:
        self.__getstate__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__getstate__()
