"""Principals: names of authenticated clients, as Kafka writes them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

USER = "User"
ANONYMOUS = "User:ANONYMOUS"
"""Principal of a client that did not authenticate."""

_SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""Attribute types that RFC 2253 abbreviates, by the names that Python's ssl module returns."""
_X520 = "2.5.4"
"""Object ID of the attribute types of X.520."""
_OTHER_TYPES = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": (f"{_X520}.5", 0x13),
    "surname": (f"{_X520}.4", 0x0C),
    "givenName": (f"{_X520}.42", 0x0C),
    "title": (f"{_X520}.12", 0x0C),
}
"""Object ID and ASN.1 type of further attributes, which Java prints as numbers."""

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*"
)


def user_principal(name: str) -> str:
    """Return the principal of a user."""
    return f"{USER}:{name}"


def subject_text(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a certificate's subject as RFC 2253 writes it, and Java: the most specific part first.

    `subject` has the form in which Python's `SSLSocket.getpeercert` returns it.
    """
    return ",".join("+".join(_attribute(kind, value) for kind, value in part) for part in reversed(subject))


def _attribute(kind: str, value: str) -> str:
    short = _SHORT_NAMES.get(kind)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, tag = _OTHER_TYPES.get(kind, (kind, 0x0C))
    data = value.encode()
    if len(data) > 127:
        return f"{number}={_escaped(value)}"
    return f"{number}=#{bytes([tag, len(data)]).hex()}{data.hex()}"


def _escaped(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(value) > 1 else escaped


class PrincipalRulesError(ValueError):
    """The text is not a list of mapping rules."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: the rule DEFAULT, which keeps the subject."""
    replacement: str = ""
    case: str = ""


class PrincipalRules:
    """Rules that make a principal from a certificate's subject, as `ssl.principal.mapping.rules` (KIP-371)."""

    def __init__(self, text: str) -> None:
        """Parse `RULE:pattern/replacement/[LU]` and `DEFAULT`, separated by commas. Raises PrincipalRulesError."""
        self._rules = list(_parse(text.strip() or "DEFAULT"))

    def principal(self, subject: str) -> str | None:
        """Return the principal by the first rule that matches the subject; None if no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return user_principal(subject)
            found = rule.pattern.fullmatch(subject)
            if found is None:
                continue
            try:
                name = found.expand(rule.replacement)
            except (re.error, IndexError):
                continue
            name = {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
            return user_principal(name.strip())
        return None


def _parse(text: str) -> Iterable[_Rule]:
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            raise PrincipalRulesError(
                f"the rule at character {position + 1} is neither DEFAULT nor RULE:pattern/replacement/[LU]"
            )
        if found["default"]:
            yield _Rule(None)
        else:
            try:
                pattern = re.compile(found["pattern"].replace("\\/", "/"))
            except re.error as error:
                raise PrincipalRulesError(f"the pattern {found['pattern']!r} is not valid: {error}") from None
            replacement = found["replacement"].replace("\\/", "/")
            yield _Rule(pattern, re.sub(r"\$(\d+)", r"\\g<\1>", replacement), found["case"])
        position = found.end() + 1
