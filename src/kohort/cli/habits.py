"""Hints for options of kcat and of Kafka's scripts that have another name here."""

from collections.abc import Collection

_OF_KCAT = {
    "-C": "kohort consume",
    "-G": "kohort consume --group GROUP",
    "-L": "kohort topic describe NAME, or kohort topic list",
    "-P": "kohort produce",
    "-Q": "kohort topic describe NAME --time TIME",
}
"""Modes of kcat, which are commands here."""
_RENAMED = {
    "--alter": "kohort topic partitions or kohort topic config set",
    "--broker-list": "--bootstrap-server",
    "--print-offset": "--show offset",
    "--whitelist": "--include",
}
_NAMES = ("--topic", "--group", "--entity-name")


def hint(option: str, path: str, subcommands: Collection[str], *, takes_names: bool) -> str:
    """Return what to use instead of an option that the command at `path` does not have, or an empty string."""
    if option in _OF_KCAT:
        return "" if path.count(" ") else f"use {_OF_KCAT[option]}"
    if option in _RENAMED:
        return f"use {_RENAMED[option]}"
    if option.removeprefix("--") in subcommands:
        return f"use {path} {option.removeprefix('--')}"
    if option in _NAMES and takes_names:
        return f"give the name alone, as in {path} NAME"
    return ""
