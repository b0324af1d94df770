"""`kohort features`: describe, upgrade and downgrade the finalized levels of features (KIP-584)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers, read_pairs
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import FeatureMetadata, FeatureUpdate, UpgradeType

commands = typer.Typer(
    help="Describe, upgrade and downgrade features of a cluster, such as transaction.version.", rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="features")


Features = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="Feature and its new level; repeatable.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the change without making it.")]


@commands.command("describe", epilog="Example: kohort features describe")
def describe_features(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show the levels of features: those that are supported, and the finalized one, which clients use."""
    servers = bootstrap_servers(bootstrap)
    found = run(_described(servers), servers)
    rows = [
        (name, levels.min_version, levels.max_version, found.finalized_features.get(name, 0))
        for name, levels in found.supported_features.items()
    ]
    if as_json:
        features = [dict(zip(("feature", "min", "max", "finalized"), row, strict=True)) for row in rows]
        print_json({"epoch": found.finalized_features_epoch, "features": features})
        return
    columns(("feature", "min", "max", "finalized"), rows)
    if found.finalized_features_epoch is not None:
        print_line(f"epoch {found.finalized_features_epoch}")


async def _described(servers: str) -> "FeatureMetadata":
    async with admin_client(servers) as admin:
        return await admin.describe_features()


@commands.command("upgrade", epilog="Example: kohort features upgrade --feature transaction.version=2")
def upgrade_features(feature: Features, dry_run: DryRun = False, bootstrap: Bootstrap = None) -> None:
    """Raise levels of features, all or none. Exit code 1 if the brokers do not support one of them."""
    from kohort.client import UpgradeType

    _update(bootstrap, feature, UpgradeType.UPGRADE, "upgrade", dry_run=dry_run)


@commands.command("downgrade", epilog="Example: kohort features downgrade --feature transaction.version=1")
def downgrade_features(
    feature: Features,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Lower the level even if metadata is lost.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Lower levels of features, all or none; level 0 turns a feature off."""
    from kohort.client import UpgradeType

    upgrade_type = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _update(bootstrap, feature, upgrade_type, "downgrade", dry_run=dry_run)


def _update(
    bootstrap: str | None, features: list[str], upgrade_type: "UpgradeType", verb: str, *, dry_run: bool
) -> None:
    from kohort.client import FeatureUpdate

    levels = read_pairs("--feature", features)
    if len(levels) < len(features):
        raise ConfigError("--feature names a feature more than once.")
    updates = {name: FeatureUpdate(_level(name, level), upgrade_type) for name, level in levels.items()}
    servers = bootstrap_servers(bootstrap)
    run(_updated(servers, updates, dry_run=dry_run), servers)
    done = f"can be {verb}d" if dry_run else f"was {verb}d"
    for name, update in updates.items():
        print_line(f"{name} {done} to {update.max_version_level}.")


async def _updated(servers: str, updates: "Mapping[str, FeatureUpdate]", *, dry_run: bool) -> None:
    async with admin_client(servers) as admin:
        try:
            await admin.update_features(updates, validate_only=dry_run)
        except KafkaError as problem:
            if problem.code is not ErrorCode.INVALID_UPDATE_VERSION:
                raise
            raise Refused(problem.sentence) from None


def _level(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 0x7FFF:
        raise ConfigError(f"The level of {name} is a number from 0 to 32767, not {text!r}.")
    return int(text)
