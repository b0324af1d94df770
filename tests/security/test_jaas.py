"""Login configurations as users of Java's clients write them."""

import pytest

from kohort.security import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_an_entry_has_a_module_and_options() -> None:
    entry = parse_jaas(f'{PLAIN} required username="alice" password="a;b=c \\"d\\"";')
    assert (entry.module, entry.name) == (PLAIN, "PlainLoginModule")
    assert {name: value.reveal() for name, value in entry.options.items()} == {
        "username": "alice",
        "password": 'a;b=c "d"',
    }


def test_line_breaks_and_words_without_quotes_are_accepted() -> None:
    entry = parse_jaas(f"\n{PLAIN} required\n  user_bob=builder\n  user_eve='x y' ;\n")
    assert {name: value.reveal() for name, value in entry.options.items()} == {"user_bob": "builder", "user_eve": "x y"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begins with the name"),
        (f"{PLAIN};", "begins with the name"),
        (f"{PLAIN} always;", "begins with the name"),
        (f'{PLAIN} required username="alice"', "ends with a semicolon"),
        (f"{PLAIN} required a=b; {PLAIN} required;", "only one login module"),
        (f"{PLAIN} required username;", "name="),
        (f"{PLAIN} required username=;", "name="),
        (f"{PLAIN} required username=alice bob;", "name="),
        (f"{PLAIN} required a=b a=c;", "a of the login module appears twice"),
        (f'{PLAIN} required password="wonderland;', "has no end"),
    ],
)
def test_an_error_names_the_problem_and_no_secret(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as raised:
        parse_jaas(text)
    assert "wonderland" not in str(raised.value)


def test_the_repr_of_an_entry_does_not_show_passwords() -> None:
    assert "wonderland" not in repr(parse_jaas(f'{PLAIN} required user_alice="wonderland";'))
