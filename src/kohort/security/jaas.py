"""Entries of Java's login configuration, as `sasl.jaas.config` has them.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wonderland";

A value is a word or a quoted string, in which a backslash escapes the next character, as in Java.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.security.secret import Secret

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s;="']+)|(?P<sign>[;=]))""", re.S
)


class JaasError(ValueError):
    """The text is not a login configuration. The message contains no part of it, because it may be secret."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    module: str
    """Name of the class, with its package."""
    options: Mapping[str, Secret]

    @property
    def name(self) -> str:
        """Name of the class without its package, such as PlainLoginModule."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> JaasEntry:
    """Return the only entry of a login configuration. Raises JaasError."""
    words = _words(text)
    if len(words) < 2 or words[0] in (";", "=") or words[1] not in _FLAGS:
        raise JaasError("a login configuration begins with the name of a login module and the word required")
    if words[-1] != ";":
        raise JaasError("a login configuration ends with a semicolon")
    body = words[2:-1]
    if ";" in body:
        raise JaasError("a login configuration has only one login module")
    options: dict[str, Secret] = {}
    for at in range(0, len(body), 3):
        if len(body) < at + 3 or body[at + 1] != "=" or "=" in (body[at], body[at + 2]):
            raise JaasError('the options of a login module have the form name="value"')
        if body[at] in options:
            raise JaasError(f"the option {body[at]} of the login module appears twice")
        options[body[at]] = Secret(_unquoted(body[at + 2]))
    return JaasEntry(words[0], options)


def _words(text: str) -> list[str]:
    words: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"a quoted string that begins at character {position + 1} has no end")
        words.append(found.group().strip() if found["quoted"] is None else found["quoted"])
        position = found.end()
    return words


def _unquoted(word: str) -> str:
    if word[0] not in "\"'":
        return word
    return re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.S)
