"""Write docs/api/*.md from the docstrings: one page for each class of the client.

    python docs/generate.py

A test fails where a page is out of step.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import kohort
from kohort.client.options import AdminOptions, ClientOptions, ConsumerOptions, GroupOptions, ProducerOptions

PAGES: dict[str, tuple[type, type[ClientOptions]]] = {
    "consumer": (kohort.Consumer, ConsumerOptions),
    "producer": (kohort.Producer, ProducerOptions),
    "admin": (kohort.Admin, AdminOptions),
}
DIRECTORY = Path(__file__).parent / "api"


def page(name: str) -> str:
    """The text of one page."""
    kind, options = PAGES[name]
    parts = [
        f"# kohort.{kind.__name__}\n",
        f"Made from the docstrings by `docs/generate.py`. `kohort.blocking.{kind.__name__}` has the same methods for"
        " plain threads, without `await`.\n",
        _doc(kind),
        "\n## Methods and properties\n",
    ]
    for member, found in sorted(_public(kind).items()):
        parts.append(f"### {_heading(member, found)}\n\n{_doc(found)}\n")
    parts.append("## Options\n\nKafka's names and defaults, in snake case; durations are milliseconds.\n")
    parts += _options(options)
    return "\n".join(parts).rstrip() + "\n"


def _public(kind: type) -> dict[str, object]:
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and name not in {"read_ahead", "next_unread", "close_after_callback", "abandon"}
    }


def _heading(name: str, found: object) -> str:
    if isinstance(found, property):
        return f"`{name}`"
    function = found.__func__ if isinstance(found, classmethod) else found
    assert inspect.isfunction(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    shown = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters])
    word = "await " if inspect.iscoroutinefunction(function) else ""
    return f"`{word}{name}{shown}`"


def _doc(found: object) -> str:
    text = inspect.getdoc(found.fget if isinstance(found, property) else found) or ""
    return _with_code(text)


def _with_code(text: str) -> str:
    """Paragraphs that are code become blocks."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        is_code = re.match(r"(async with|with|import|from) ", paragraph)
        paragraphs.append(f"```python\n{paragraph}\n```" if is_code else paragraph)
    return "\n\n".join(paragraphs)


def _options(options: type[ClientOptions]) -> list[str]:
    said = _said(options)
    lines = ["| option | default | |", "| --- | --- | --- |"]
    for one in fields(options):
        default = "needed" if one.default is one.default_factory else f"`{one.default!r}`"
        lines.append(f"| `{one.name}` | {default} | {said.get(one.name, '')} |")
    return lines


def _said(options: type[ClientOptions]) -> dict[str, str]:
    """What stands below an option in the source."""
    found = {}
    for kind in (ClientOptions, GroupOptions, options):
        pattern = re.compile(r'^    (\w+): [^\n]*\n    """(.*?)"""', re.MULTILINE | re.DOTALL)
        for name, text in pattern.findall(inspect.getsource(kind)):
            found[name] = " ".join(text.split())
    return found


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for name in PAGES:
        (DIRECTORY / f"{name}.md").write_text(page(name))


if __name__ == "__main__":
    main()
