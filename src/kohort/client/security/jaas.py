"""Parser of `sasl.jaas.config`, the line in which Java's clients take their credentials."""

import re

from kohort.errors import ConfigError

_TOKEN = re.compile(
    r"""\s*(?:(?P<key>[\w.$-]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"']+)))"""
)
_HEAD = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b", re.IGNORECASE)
_END = re.compile(r"\s*;\s*")


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the name of the login module's class and its options.

    Raises ConfigError, which does not repeat the text, because it contains a password.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ConfigError('sasl.jaas.config must look like: CLASS required username="NAME" password="PASSWORD";')
    at, options = head.end(), dict[str, str]()
    while found := _TOKEN.match(text, at):
        quoted = found["double"] if found["double"] is not None else found["single"]
        options[found["key"]] = found["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = found.end()
    if not _END.fullmatch(text, at):
        raise ConfigError(
            f'sasl.jaas.config is malformed after {len(options)} options: give name="value" pairs and a semicolon at'
            " the end."
        )
    return head["module"].rpartition(".")[2], options
