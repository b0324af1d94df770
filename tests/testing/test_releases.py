"""Versions by release: the table is that of the jars, and a broker announces no more than the release does."""

from __future__ import annotations

import shutil

import pytest

from kohort.broker.apis import SERVED
from kohort.errors import ConfigError
from kohort.testing.releases import RELEASES, read_release, served_by, settings_of
from kohort.wire.messages.api_key import ApiKey
from tests.interop.kafka import Unavailable
from tests.testing.announced import announced, found_jars


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_the_table_is_what_the_jars_announce() -> None:
    if not found_jars():
        pytest.skip("there is no jar of kafka-clients in the local Maven repository")
    try:
        found = announced()
    except Unavailable as why:
        pytest.skip(str(why))
    for release, versions in found.items():
        served = {key: versions[key][1] for key, _, _ in SERVED if key in versions}
        assert RELEASES[release] == served, f"release {release}"


def test_an_old_release_has_neither_new_versions_nor_new_requests() -> None:
    versions = {key: (low, high) for key, low, high in served_by("2.3")}
    assert versions[ApiKey.JOIN_GROUP][1] == 5
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in versions
    assert all(low <= high for low, high in versions.values())
    assert settings_of("2.3") == settings_of("3.9") == {"group.coordinator.rebalance.protocols": "classic"}


def test_the_latest_release_is_served_as_it_is() -> None:
    *_, latest = RELEASES
    assert served_by(latest) == SERVED
    assert settings_of("4.0") == settings_of(latest) == {}


@pytest.mark.parametrize("text", ["3.9", "v3.9", "3.9.1", " 3.9 "])
def test_a_release_is_read_with_or_without_its_patch(text: str) -> None:
    assert read_release(text) == "3.9"


@pytest.mark.parametrize("text", ["", "3", "1.1", "5.0", "3.9.1-rc0", "latest"])
def test_an_unknown_release_is_refused_with_those_that_are_known(text: str) -> None:
    with pytest.raises(ConfigError, match=r"from 2\.0 to 4\.3"):
        read_release(text)
