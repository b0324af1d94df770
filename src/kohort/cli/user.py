"""`kohort user`: add, list and delete SCRAM users of a running cluster, or in the store of a stopped one."""

import getpass
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, Postgres, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.broker.security import ScramCredentials
    from kohort.client import ScramCredentialInfo, ScramMechanism
    from kohort.security import Secret

commands = typer.Typer(help="Add, list and delete users that authenticate with SCRAM.", rich_markup_mode=None)

_PASSWORD_VARIABLE = "KOHORT_PASSWORD"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="user")


class Mechanism(StrEnum):
    """A mechanism on the command line."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


User = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Log directory of a stopped broker, instead of --bootstrap.",
        show_default=False,
    ),
]
Mechanisms = Annotated[
    list[Mechanism] | None,
    typer.Option("--mechanism", help="Mechanism of the credential; repeatable. Default: both.", show_default=False),
]


@commands.command("add", epilog="Example: kohort user add alice --data kohort-data")
def add_user(
    user: User,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int, typer.Option(min=4096, max=16_384, metavar="N", help="Iterations of the hash of the password.")
    ] = 4096,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
    ] = False,
    data: Data = None,
    postgres: Postgres = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Add a user, or change its password.

    The command asks for the password, unless --password-stdin or the variable KOHORT_PASSWORD
    supplies it. If only users may connect to a cluster, add the first one with --data or --postgres
    before the cluster starts.
    """
    offline = _offline(data, postgres, bootstrap)
    if not user:
        raise ConfigError("The name of a user cannot be empty.")
    password = _password(user, from_stdin=password_stdin)
    chosen = _mechanisms(mechanism)
    if offline is None:
        _add(bootstrap_servers(bootstrap), user, password, chosen, iterations)
    else:
        from kohort.security.sasl import ScramCredential, salt_of

        with offline as credentials:
            salts = {each: salt_of(os.urandom(32)) for each in chosen}
            made = {each: ScramCredential.from_password(each, password, salts[each], iterations) for each in chosen}
            credentials.change(user, (), made)
    print_line(f"{user}: the password is set for {' and '.join(each.value for each in chosen)}")


@commands.command("list", epilog="Example: kohort user list --json")
def list_users(
    data: Data = None, postgres: Postgres = None, bootstrap: Bootstrap = None, as_json: AsJson = False
) -> None:
    """List the users with their mechanisms and iterations."""
    offline = _offline(data, postgres, bootstrap)
    if offline is None:
        found = _described(bootstrap_servers(bootstrap))
    else:
        from kohort.client import ScramCredentialInfo

        with offline as credentials:
            found = {
                user: [ScramCredentialInfo(each, credential.iterations) for each, credential in own.items()]
                for user, own in sorted(credentials.users().items())
            }
    if as_json:
        print_json(
            [
                {
                    "user": user,
                    "credentials": [
                        {"mechanism": info.mechanism.value, "iterations": info.iterations} for info in infos
                    ],
                }
                for user, infos in found.items()
            ]
        )
    elif found:
        rows = [(user, info.mechanism.value, info.iterations) for user, infos in found.items() for info in infos]
        columns(("user", "mechanism", "iterations"), rows)
    else:
        print_line("There are no SCRAM users; add one with kohort user add.")


@commands.command("delete", epilog="Example: kohort user delete alice")
def delete_user(
    user: User, mechanism: Mechanisms = None, data: Data = None, postgres: Postgres = None, bootstrap: Bootstrap = None
) -> None:
    """Delete a user, or its credentials for some mechanisms.

    Connections that are authenticated already stay open. Exit code 1 if there is no such user.
    """
    offline = _offline(data, postgres, bootstrap)
    chosen = _mechanisms(mechanism)
    if offline is None:
        gone = _delete(bootstrap_servers(bootstrap), user, chosen)
    else:
        with offline as credentials:
            own = credentials.users().get(user, {})
            gone = [each for each in chosen if each in own]
            if gone:
                credentials.change(user, gone, {})
    if not gone:
        raise Refused(
            f"{user} has no credential for {' or '.join(each.value for each in chosen)}; see kohort user list."
        )
    print_line(f"{user}: deleted for {' and '.join(each.value for each in gone)}")


def _offline(
    data: Path | None, postgres: str | None, bootstrap: str | None
) -> "AbstractContextManager[ScramCredentials] | None":
    """Return the credentials in a store; None if the command uses a running cluster."""
    if bootstrap is not None:
        if data is not None:
            raise ConfigError("--bootstrap and --data contradict each other: name the cluster or its store.")
        return None
    if data is None and postgres is None:
        return None
    from kohort.broker import stored_credentials

    return stored_credentials(data, None if data is not None else postgres)


def _mechanisms(chosen: Sequence[Mechanism] | None) -> "list[ScramMechanism]":
    from kohort.security.sasl import ScramMechanism

    return [known for known in ScramMechanism if not chosen or known.value in {each.value for each in chosen}]


def _password(user: str, *, from_stdin: bool) -> "Secret":
    """Return the password. It is never an argument, because all users of a machine can see arguments."""
    from kohort.security import Secret

    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif _PASSWORD_VARIABLE in os.environ:
        password = os.environ[_PASSWORD_VARIABLE]
    elif not sys.stdin.isatty():
        raise ConfigError(
            f"There is no terminal to ask for the password: use --password-stdin or {_PASSWORD_VARIABLE}."
        )
    else:
        password = getpass.getpass(f"Password of {user}: ")
        if getpass.getpass("Repeat it: ") != password:
            raise ConfigError("The two passwords differ: nothing has changed.")
    if not password:
        raise ConfigError("The password cannot be empty.")
    return Secret(password)


def _add(servers: str, user: str, password: "Secret", mechanisms: "list[ScramMechanism]", iterations: int) -> None:
    from kohort.client import ScramCredentialInfo, UserScramCredentialUpsertion

    async def work() -> None:
        async with admin_client(servers) as admin:
            await admin.alter_user_scram_credentials(
                UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), password)
                for mechanism in mechanisms
            )

    run(work(), servers)


def _described(servers: str) -> "dict[str, list[ScramCredentialInfo]]":
    async def work() -> "dict[str, list[ScramCredentialInfo]]":
        async with admin_client(servers) as admin:
            return await admin.describe_user_scram_credentials()

    return run(work(), servers)


def _delete(servers: str, user: str, mechanisms: "list[ScramMechanism]") -> "list[ScramMechanism]":
    """Delete the credentials that the user has, and return their mechanisms."""
    from kohort.client import UserScramCredentialDeletion

    async def work() -> "list[ScramMechanism]":
        gone = []
        async with admin_client(servers) as admin:
            for mechanism in mechanisms:
                try:
                    await admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)])
                except KafkaError as error:
                    if error.code is not ErrorCode.RESOURCE_NOT_FOUND:
                        raise
                else:
                    gone.append(mechanism)
        return gone

    return run(work(), servers)
