"""Which quota applies to a client, and which traffic it is measured by."""

import pytest

from kohort.broker.quotas.entities import Entity
from kohort.broker.quotas.limits import Limits

EVERYTHING: dict[str, Entity] = {
    "the pair": (("client-id", "app"), ("user", "alice")),
    "alice with any client id": (("client-id", None), ("user", "alice")),
    "alice": (("user", "alice"),),
    "any user with app": (("client-id", "app"), ("user", None)),
    "any pair": (("client-id", None), ("user", None)),
    "any user": (("user", None),),
    "app": (("client-id", "app"),),
    "any client id": (("client-id", None),),
}
"""All entities that may have a quota for alice's client app, in the order of precedence."""
BY_THE_USER = {"alice", "any user"}
BY_THE_CLIENT_ID = {"app", "any client id"}


def test_the_most_specific_quota_applies() -> None:
    names = list(EVERYTHING)
    for most_specific in range(len(names)):
        left = names[most_specific:]
        limits = Limits({EVERYTHING[name]: float(names.index(name) + 1) for name in left})
        meter = limits.meter("alice", "app")
        assert limits.limit(meter) == most_specific + 1, left


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_quota_measures_what_it_is_for(name: str) -> None:
    expected = ("alice", "app")
    if name in BY_THE_USER:
        expected = ("alice", "")
    elif name in BY_THE_CLIENT_ID:
        expected = ("", "app")
    assert Limits({EVERYTHING[name]: 1.0}).meter("alice", "app") == expected
    # The same if quotas of all kinds exist, of others.
    others: dict[Entity, float] = {
        (("user", "bob"),): 2.0,
        (("client-id", "other"),): 2.0,
        (("client-id", "other"), ("user", "bob")): 2.0,
    }
    limits = Limits({**others, EVERYTHING[name]: 1.0})
    assert limits.meter("alice", "app") == expected
    assert limits.limit(expected) == 1.0


def test_a_default_measures_each_client_by_itself() -> None:
    limits = Limits({EVERYTHING["any user"]: 1.0})
    assert limits.meter("alice", "app") != limits.meter("bob", "app")
    assert limits.meter("alice", "app") == limits.meter("alice", "other")


def test_clients_without_a_quota_have_no_limit() -> None:
    limits = Limits({EVERYTHING["the pair"]: 1.0, EVERYTHING["app"]: 2.0})
    assert limits.limit(limits.meter("alice", "other")) is None
    assert limits.limit(limits.meter("bob", "app")) == 2.0


def test_a_client_without_an_id_has_only_the_quotas_of_its_user() -> None:
    assert (limits := Limits({EVERYTHING["any client id"]: 1.0})).limit(limits.meter("alice", "")) is None
    assert (limits := Limits({EVERYTHING["any pair"]: 1.0})).limit(limits.meter("alice", "")) is None
    assert (limits := Limits({EVERYTHING["any user"]: 1.0})).limit(limits.meter("alice", "")) == 1.0
