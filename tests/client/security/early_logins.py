"""Connections that log in again long before their sessions end."""

from __future__ import annotations

from collections import Counter

import pytest

from kohort.client.net import Authentication
from kohort.client.net import authentication as module
from kohort.security.sasl import SaslClient
from tests.client.security.secured_kafka import LONG_SESSION_MS

_AGAIN_MS = 1_200
"""Brokers refuse to authenticate a connection twice within a second."""


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> Counter[Authentication]:
    """Number of logins of each connection of this process. Each logs in again every 1.2 s, in a session of LONG.

    Were the sessions so short, a connection would be closed if its process stands still at the wrong time, as KIP-368
    demands.
    """
    share, done = _AGAIN_MS / LONG_SESSION_MS, Counter[Authentication]()
    monkeypatch.setattr(module, "_AGAIN", (share, share))
    authenticate = Authentication.authenticate

    async def counted(authentication: Authentication, machine: SaslClient) -> None:
        await authenticate(authentication, machine)
        done[authentication] += 1

    monkeypatch.setattr(Authentication, "authenticate", counted)
    return done
