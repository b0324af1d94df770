"""Keys of `kohort top`: bytes of the terminal to keys, and what each key changes. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kohort.cli.top_rows import Order

_SEQUENCES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "[5~": "page up", "[6~": "page down",
    "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "OH": "home", "OF": "end", "[Z": "left",
}  # fmt: skip
_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.)")
_PARTIAL = re.compile(r"\x1b(\[[0-9;?]*[ -/]*|O)?\Z")
_LONGEST_FILTER = 60
_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "right", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}


def read_keys(text: str) -> tuple[list[str], str]:
    """Return the keys in what was typed, and the rest, which may be the beginning of a sequence.

    A rest that stays alone is the Escape key. Unknown sequences are left out.
    """
    keys = []
    at = 0
    while at < len(text):
        if found := _SEQUENCE.match(text, at):
            at = found.end()
            if key := _SEQUENCES.get(found[1]):
                keys.append(key)
        elif _PARTIAL.match(text, at):
            return keys, text[at:]
        else:
            keys.append(_CONTROLS.get(text[at], text[at]))
            at += 1
    return keys, ""


class Tab(Enum):
    """What an open group shows."""

    FINDINGS = "findings"
    MEMBERS = "members"
    PARTITIONS = "partitions"
    REBALANCES = "rebalances"


@dataclass(frozen=True, slots=True)
class View:
    """What the user chose to see."""

    order: Order = Order.HURT
    wanted: str = ""
    """Part of a group ID to show only those groups."""
    typing: bool = False
    """Whether keys are typed into the filter."""
    selected: str | None = None
    """Group ID of the selected row; None for the first."""
    opened: str | None = None
    tab: Tab = Tab.FINDINGS
    scroll: int = 0
    """First line of an open group that is shown."""
    help: bool = False
    over: bool = False
    """Whether the user wants to leave."""


def press(view: View, key: str, groups: Sequence[str], page: int) -> View:
    """Return the view after a key.

    - `groups`: IDs of the listed groups, in their order.
    - `page`: Number of lines that a page has.
    """
    if view.typing:
        return _type(view, key)
    if key == "q":
        return replace(view, over=True)
    if view.help:
        return replace(view, help=False)
    if key == "?":
        return replace(view, help=True)
    return _in_list(view, key, groups, page) if view.opened is None else _in_group(view, key, page)


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view, typing=False, wanted="")
        case "backspace":
            return replace(view, wanted=view.wanted[:-1])
        case _ if len(key) == 1 and key.isprintable() and len(view.wanted) < _LONGEST_FILTER:
            return replace(view, wanted=view.wanted + key)
        case _:
            return view


def _in_list(view: View, key: str, groups: Sequence[str], page: int) -> View:
    if key == "/":
        return replace(view, typing=True, wanted="")
    if key == "escape":
        return replace(view, wanted="")
    if key == "s":
        orders = list(Order)
        return replace(view, order=orders[(orders.index(view.order) + 1) % len(orders)])
    if any(key == order.value for order in Order):
        return replace(view, order=Order(key))
    if not groups:
        return view
    at = position(view, groups)
    if key in ("enter", "right"):
        return replace(view, selected=groups[at], opened=groups[at], tab=Tab.FINDINGS, scroll=0)
    return replace(view, selected=groups[min(len(groups) - 1, _moved(at, key, page, len(groups)))])


def _in_group(view: View, key: str, page: int) -> View:
    tabs = list(Tab)
    match key:
        case "escape" | "backspace":
            return replace(view, opened=None)
        case "right" | "left":
            step = 1 if key == "right" else -1
            return replace(view, tab=tabs[(tabs.index(view.tab) + step) % len(tabs)], scroll=0)
        case "1" | "2" | "3" | "4":
            return replace(view, tab=tabs[int(key) - 1], scroll=0)
        case _:
            return replace(view, scroll=_moved(view.scroll, key, page, 1_000_000))


def _moved(at: int, key: str, page: int, number: int) -> int:
    step = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, " ": page}
    match key:
        case "home" | "g":
            return 0
        case "end" | "G":
            return number - 1
        case _:
            return max(0, at + step.get(key, 0))


def position(view: View, groups: Sequence[str]) -> int:
    """Return the index of the selected group; 0 if it is not listed."""
    return groups.index(view.selected) if view.selected in groups else 0
