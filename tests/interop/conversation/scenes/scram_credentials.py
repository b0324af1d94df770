"""SCRAM credentials of users: set, described, deleted, and rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.interop.conversation.stage import Stage, scene

Deletion = tuple[str, int]
SHA_256, SHA_512 = 1, 2


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = b"s" * 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


async def alter(
    s: Stage, name: str, upsertions: Sequence[ScramCredentialUpsertion] = (), deletions: Sequence[Deletion] = ()
) -> None:
    gone = [ScramCredentialDeletion(name=user, mechanism=mechanism) for user, mechanism in deletions]
    await s.admin.ask(name, AlterUserScramCredentialsRequest(deletions=gone, upsertions=list(upsertions)), 0)


async def describe(s: Stage, name: str, users: list[str] | None) -> None:
    wanted = None if users is None else [UserName(name=user) for user in users]
    await s.admin.ask(name, DescribeUserScramCredentialsRequest(users=wanted), 0)


async def until_known(s: Stage, user: str, mechanisms: set[int]) -> None:
    """Wait until the broker knows these credentials of the user: Kafka's brokers do so a little later."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])
    for _ in range(500):
        answer = await s.admin.quietly(request, 0)
        if {info.mechanism for result in answer.results for info in result.credential_infos} == mechanisms:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the credentials of {user} do not become {mechanisms}")


@scene
async def scram_credentials(s: Stage) -> None:
    """Users come, change and go."""
    alice, bob, nobody = (f"{s.scene}-{name}" for name in ("alice", "bob", "nobody"))
    await alter(s, "alice", [upsertion(alice)])
    await alter(s, "alice's second mechanism", [upsertion(alice, SHA_512, 16_384, salted=b"s" * 64)])
    await alter(s, "bob", [upsertion(bob, SHA_512, 8192)])
    await until_known(s, bob, {SHA_512})
    for name, users in (
        ("all users", None),
        ("no users, which are all", []),
        ("both", [bob, alice]),
        ("an unknown one", [nobody]),
        ("a known and an unknown one", [alice, nobody]),
        ("one twice", [alice, alice, bob]),
        ("an unknown one twice", [nobody, nobody]),
        ("one without a name", [""]),
    ):
        await describe(s, name, users)
    await alter(s, "more iterations", [upsertion(alice, iterations=5000)])
    await alter(s, "bob leaves while alice changes", [upsertion(alice, iterations=6000)], [(bob, SHA_512)])
    await until_known(s, bob, set())
    await describe(s, "alice alone", None)
    await alter(s, "bob leaves again", (), [(bob, SHA_512)])
    await alter(s, "good and bad", [upsertion(bob), upsertion(nobody, iterations=1)], [(alice, SHA_256)])
    await until_known(s, bob, {SHA_256})
    await describe(s, "what is left", None)


@scene
async def refused_scram_credentials(s: Stage) -> None:
    """Changes that cannot be made."""
    alice = f"{s.scene}-alice"
    await alter(s, "alice", [upsertion(alice)])
    await until_known(s, alice, {SHA_256})
    for iterations in (-1, 0, 4095, 16_385, 2**31 - 1):
        await alter(s, f"{iterations} iterations", [upsertion(alice, iterations=iterations)])
    for mechanism in (-1, 0, 3):
        await alter(s, f"mechanism {mechanism}", [upsertion(alice, mechanism, 1)])
        await alter(s, f"deletion of mechanism {mechanism}", (), [(alice, mechanism)])
    await alter(s, "the mechanism that alice does not have", (), [(alice, SHA_512)])
    await alter(s, "nobody", (), [(f"{s.scene}-nobody", SHA_256)])
    await alter(s, "no name", [upsertion("", 9)])
    await alter(s, "deletion of no name", (), [("", 9)])
    await alter(s, "no salt", [upsertion(alice, salt=b"")])
    await alter(s, "no password", [upsertion(alice, salted=b"")])
    await alter(s, "both mechanisms at once", [upsertion(alice), upsertion(alice, SHA_512)])
    await alter(s, "set and deleted", [upsertion(alice, SHA_512)], [(alice, SHA_256)])
    await alter(s, "deleted twice", (), [(alice, SHA_256), (alice, SHA_256)])
    await alter(s, "three times", [upsertion(alice), upsertion(alice), upsertion(alice)])
    await alter(s, "a bad one twice", [upsertion(alice, iterations=1), upsertion(alice, iterations=20_000)])
    await alter(s, "good, then bad", [upsertion(alice), upsertion(alice, iterations=20_000)])
    await alter(s, "a bad deletion, then a good change", [upsertion(alice)], [(alice, SHA_512)])
    await alter(s, "nothing")
    await describe(s, "alice as she was", [alice])
