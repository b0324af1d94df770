"""Principals from certificates, as Java writes subjects and as mapping rules change them."""

import pytest

from kohort.security.principal import PrincipalRules, PrincipalRulesError, subject_text

SUBJECT = "CN=alice,OU=Ops,O=Acme"


def test_a_subject_is_written_as_java_writes_it() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", 'A "B", C'),), (("commonName", "alice"),))
    assert subject_text(subject) == 'CN=alice,O=A \\"B\\"\\, C,C=DE'
    assert subject_text(((("commonName", "a"), ("userId", "b")),)) == "CN=a+UID=b"
    # openssl and Java's keytool agree: the value of an attribute without a short name is its DER encoding.
    assert subject_text(((("emailAddress", "a@b.c"),),)) == "1.2.840.113549.1.9.1=#16056140622e63"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", f"User:{SUBJECT}"),
        ("", f"User:{SUBJECT}"),
        ("RULE:^CN=(.*?),.*$/$1/", "User:alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "User:ALICE@OPS"),
        ("RULE:^CN=(.*?),OU=Dev.*$/$1/,RULE:^CN=(.*?),.*$/x-$1/L, DEFAULT", "User:x-alice"),
        ("RULE:^UID=(.*)$/$1/", None),
        (r"RULE:^CN=(\w+).*$/a\/$1/", "User:a/alice"),
    ],
)
def test_the_first_rule_that_matches_makes_the_principal(rules: str, principal: str | None) -> None:
    assert PrincipalRules(rules).principal(SUBJECT) == principal


@pytest.mark.parametrize("rules", ["default", "RULE:^CN=(.*)$/$1", "RULE:(/$1/", "DEFAULT DEFAULT", "RULE:a/b/X"])
def test_a_wrong_rule_is_refused(rules: str) -> None:
    with pytest.raises(PrincipalRulesError):
        PrincipalRules(rules)
