"""Write the reference: docs/api/*.md, a page for each class of the client, and docs/configuration.md.

    python docs/generate.py

The texts come from docstrings and tables in the source. A test fails if a page is out of date.
"""

import asyncio
import inspect
import logging
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Unpack, get_args, get_origin

import kohort
from kohort import schema_registry
from kohort.broker.config import Setting, setting_reference
from kohort.client import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
from kohort.client.security import SecurityOptions

PAGES: dict[str, tuple[type, type[ClientOptions]]] = {
    "consumer": (kohort.Consumer, ConsumerOptions),
    "producer": (kohort.Producer, ProducerOptions),
    "admin": (kohort.Admin, AdminOptions),
}
DIRECTORY = Path(__file__).parent / "api"
_UNLIMITED = (None, 2**31 - 1, 2**63 - 1)
"""Upper bounds that only say how large the type is."""
NOT_FOR_APPLICATIONS = {
    "abandon",
    "close_after_callback",
    "deserialization",
    "next_unread",
    "note_asked",
    "poll_bytes",
    "put_back",
    "read_ahead",
    "transaction_aborted",
    "transaction_committed",
    "transaction_offsets",
    "unread",
}
_UNITS = {"Millis": "`int`, milliseconds", "Bytes": "`int`, bytes"}


def page(name: str) -> str:
    """The text of one page."""
    kind, options = PAGES[name]
    parts = [
        f"# kohort.{kind.__name__}\n",
        f"Made from the docstrings by `docs/generate.py`. `kohort.blocking.{kind.__name__}` has the same"
        " methods for\nplain threads, without `await`.\n",
        _doc(kind),
        "\n## Methods and properties\n",
        _section(kind.__name__, inspect.getattr_static(kind, "__init__")),
    ]
    for member, found in sorted(_public(kind).items()):
        parts.append(_section(member, found))
    parts.append("## Options\n\nKeyword arguments with Kafka's names, in snake case, and Kafka's defaults.\n")
    parts += _options(options)
    return "\n".join(parts).rstrip() + "\n"


def values_page() -> str:
    """The text of docs/api/values.md: what the clients return, take and raise."""
    named = {name: getattr(kohort, name) for name in kohort.__all__ if name not in _ON_OTHER_PAGES}
    kinds = {name: kind for name, kind in named.items() if not name.endswith(("Keywords", "Options"))}
    errors = {name: kind for name, kind in kinds.items() if issubclass(kind, BaseException)}
    parts = [
        "# Values and errors of the client\n",
        "Made from the docstrings by `docs/generate.py`. Import all of them from `kohort`.\n",
        "## Values\n",
    ]
    parts += [_value(name, kind) for name, kind in kinds.items() if name not in errors]
    parts += ["## Errors\n", "All are subclasses of `KohortError`.\n"]
    parts += [_value(name, kind) for name, kind in errors.items()]
    return "\n".join(parts).rstrip() + "\n"


def metrics_page() -> str:
    """The text of docs/api/metrics.md: the metrics of each client."""
    parts = [
        "# Metrics\n",
        "Made from the code by `docs/generate.py`. [metrics.md](../metrics.md) says what the figures mean.\n",
        "Each metric has the tag `client-id`, and the tags that its group names here.\n",
    ]
    logging.disable(logging.WARNING)
    try:
        found = asyncio.run(_metric_names())
    finally:
        logging.disable(logging.NOTSET)
    for title, names in found.items():
        parts.append(f"## {title}\n")
        groups: dict[tuple[str, ...], list[kohort.MetricName]] = {}
        for name in names:
            tags = [f"`{tag}`" for tag in name.tags if tag != "client-id"]
            groups.setdefault((f"`{name.group}`", *tags), []).append(name)
        for (group, *tags), members in groups.items():
            parts.append(f"### {group}{', by ' if tags else ''}{' and '.join(tags)}\n")
            parts += ["| metric | description |", "| --- | --- |"]
            parts += [_row(f"`{name.name}`", name.description) for name in members]
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"


async def _metric_names() -> dict[str, list[kohort.MetricName]]:
    """The names of all metrics. There is no broker, so nodes and topics are added here."""
    nowhere, orders = "127.0.0.1:1", kohort.TopicPartition("orders", 0)
    async with (
        kohort.Consumer(bootstrap_servers=nowhere, group_id="g") as consumer,
        kohort.Producer(bootstrap_servers=nowhere) as producer,
        kohort.Admin(bootstrap_servers=nowhere) as admin,
    ):
        consumer.assign([orders])
        consumer._partitions.fetcher.metrics.fetched({orders.topic: 1}, 0.0)
        producer._core.metrics.failed(orders.topic, 1, 0.0)
        for cluster in (consumer.cluster, producer.cluster, admin._cluster):
            cluster.metrics.node(1)
        found = {"Consumer": consumer.metrics(), "Producer": producer.metrics(), "Admin": admin.metrics()}
    return {
        title: sorted(metrics, key=lambda name: (name.group, len(name.tags), name.name))
        for title, metrics in found.items()
    }


_ON_OTHER_PAGES = {"Admin", "Consumer", "Producer"}


def _value(name: str, kind: type) -> str:
    lines = [f"### {name}\n", _doc(kind), ""]
    if issubclass(kind, kohort.ErrorCode):
        lines += [f"- {member.value} `{member.name}`: {member.sentence}" for member in kind]
    elif issubclass(kind, Enum):
        lines += [f"- `{member.name}`: `{member.value!r}`" for member in kind]
    else:
        for base in reversed(kind.__mro__):
            if base.__module__.startswith("kohort"):
                annotated = inspect.get_annotations(base).items()
                lines += [_type_line(f"`{key}`", kind).rstrip() for key, kind in annotated if not key.startswith("_")]
        for key, found in inspect.getmembers(kind):
            mine = isinstance(found, property) or inspect.isfunction(found) or inspect.ismethod(found)
            if mine and not key.startswith("_") and getattr(_function(found), "__module__", "").startswith("kohort"):
                shown = key if isinstance(found, property) else f"{key}()"
                lines.append(f"- `{shown}`: {' '.join((inspect.getdoc(found) or '').split())}")
    return "\n".join([*lines, ""])


def schema_registry_page() -> str:
    """The text of docs/api/schema-registry.md: the serializers and deserializers, the client and its values."""
    parts = [
        "# kohort.schema_registry\n",
        "Made from the docstrings by `docs/generate.py`. [schema-registry.md](../schema-registry.md) shows how to"
        "\nuse it.\n",
    ]
    for name in schema_registry.__all__:
        kind = getattr(schema_registry, name)
        text = _value(name, kind)
        if "__init__" in vars(kind) and not issubclass(kind, Exception) and not is_dataclass(kind):
            heading, _, rest = text.partition("\n\n")
            described, _, methods = rest.partition("\n\n- ")
            types = _types(inspect.getattr_static(kind, "__init__"))
            text = f"{heading}\n\n{described.rstrip()}\n\nArguments:\n\n{types}"
            if methods:
                text += f"\nMethods:\n\n- {methods}"
        parts.append(text.replace("### ", "## "))
    return "\n".join(parts).rstrip() + "\n"


def _function(found: object) -> object:
    return found.fget if isinstance(found, property) else getattr(found, "__func__", found)


def _public(kind: type) -> dict[str, object]:
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and name not in NOT_FOR_APPLICATIONS
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


def _section(name: str, found: object) -> str:
    return f"### {_heading(name, found)}\n\n{_doc(found)}\n\n{_types(found)}"


def arguments(function: object) -> dict[str, str]:
    """The text of each argument: the last paragraph of the docstring is a list of them."""
    listed = (inspect.getdoc(function) or "").rpartition("\n\n")[2]
    items = re.split(r"^- (?=`\w+`: )", listed, flags=re.MULTILINE)[1:]
    pairs = (item.partition(": ") for item in items)
    return {name.strip("`"): " ".join(text.split()) for name, _, text in pairs}


def _types(found: object) -> str:
    """The types of a method's arguments and result, one line for each; empty if it has neither."""
    if isinstance(found, property):
        assert found.fget is not None
        return _type_line("value", inspect.signature(found.fget).return_annotation)
    function = found.__func__ if isinstance(found, classmethod) else found
    signature = inspect.signature(function)  # type: ignore[arg-type]
    texts = arguments(function)
    lines = [
        _type_line(f"`{parameter.name}`", parameter.annotation, texts.get(parameter.name, ""))
        for parameter in list(signature.parameters.values())[1:]
    ]
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        lines.append(_type_line("returns", signature.return_annotation))
    return "".join(lines)


def _type_line(what: str, annotation: object, description: str = "") -> str:
    if get_origin(annotation) is Unpack:
        (annotation,) = get_args(annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    without_modules = re.sub(r"\b[a-z_]\w*[.]", "", text)
    return f"- {what}: `{without_modules}`{'. ' if description else ''}{description}\n"


def _doc(found: object) -> str:
    text = inspect.getdoc(found.fget if isinstance(found, property) else found) or ""
    if not isinstance(found, property) and arguments(found):
        text = text.rpartition("\n\n")[0]
    return _with_code(text)


def _with_code(text: str) -> str:
    """Paragraphs that are code become blocks."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        is_code = re.match(r"(async with|with|import|from) ", paragraph)
        paragraphs.append(f"```python\n{paragraph}\n```" if is_code else paragraph)
    return "\n\n".join(paragraphs)


def _options(options: type[ClientOptions]) -> list[str]:
    described = describe_options(options)
    lines = ["| option | type | default | description |", "| --- | --- | --- | --- |"]
    of_security = {option.name for option in fields(SecurityOptions)}
    for option in sorted(fields(options), key=lambda option: option.name in of_security):
        kind, text = described[option.name]
        default = "required" if option.default is option.default_factory else f"`{option.default!r}`"
        lines.append(f"| `{option.name}` | {kind} | {default} | {text} |")
    return lines


def describe_options(options: type[ClientOptions]) -> dict[str, tuple[str, str]]:
    """By name, the type (with its unit, or the choices) and the description of each option, from the source."""
    found = {}
    pattern = re.compile(r'^    (\w+): (.*?)(?: = [^\n]*)?\n    """(.*?)"""', re.MULTILINE | re.DOTALL)
    for kind in reversed(options.__mro__[:-1]):
        for name, annotation, text in pattern.findall(inspect.getsource(kind)):
            choices = options.choices(name)
            shown = _UNITS.get(annotation, f"`{annotation}`".replace("|", "\\|"))
            if choices is not None:
                shown = " or ".join(f"`{choice}`" for choice in dict.fromkeys(map(str, choices)))
            found[name] = (shown, " ".join(text.split()))
    return found


CONFIGURATION = Path(__file__).parent / "configuration.md"

_INTRODUCTION = """# Configuration: settings of brokers, topics and groups

Made from the code by `docs/generate.py`. The options of Kohort's client are in
[docs/api](api/consumer.md).

- [How do I set them?](#how-to-set-them)
- [Broker settings](#broker-settings), by subject
- [Topic configs](#topic-configs)
- [Group configs](#group-configs)
- [Configs of client metrics subscriptions](#configs-of-client-metrics-subscriptions)
- [Accepted without effect](#accepted-without-effect)

Names and meanings are those of Apache Kafka 4.3.1. Defaults and bounds are, too, unless the last
column says otherwise; where Kafka has no bounds at all, Kohort has some. *Absent* in the last
column means that only Kohort has the setting.

## How to set them

```sh
kohort broker --set num.partitions=6
kohort broker --config server.properties
kohort topic config set orders retention.ms=3600000
kohort group config set billing consumer.heartbeat.interval.ms=7000
```

Java's `kafka-configs.sh` and the admin clients of Kafka work, too. An unknown name or a value out
of bounds is an error that names the nearest setting or the bounds.

*Dynamic* settings can be changed while the broker runs, for one broker or for all brokers
(cluster-wide), with `kafka-configs.sh --entity-type brokers` or an admin client. A change survives
restarts. The first of these that has a value applies: the topic or group, the change for one
broker, the change for all brokers, `--set`, `--config`, the default. A setting that is not dynamic
needs a restart.
"""


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    reference = setting_reference()
    parts = [_INTRODUCTION, "## Broker settings\n"]
    for title, settings in reference.broker.items():
        parts.append(f"### {title}\n")
        parts.append("| setting | type | default | values | dynamic | description | in Apache Kafka |")
        parts.append("| --- | --- | --- | --- | --- | --- | --- |")
        for name, setting in sorted(settings.items()):
            dynamic = "broker, cluster-wide" if setting.live else "no"
            parts.append(_row(f"`{name}`", *_facts(setting), dynamic, setting.doc, setting.kafka))
        parts.append("")
    parts += [
        "## Topic configs\n",
        "All are dynamic. The default of each is the broker setting beside it.\n",
        "| topic config | default | type | values | description | in Apache Kafka |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, broker_name, setting in reference.topic:
        kind, _, values = _facts(setting)
        # A default that differs is that of the broker setting.
        kafka = "" if setting.kafka.startswith("default") else setting.kafka
        parts.append(_row(f"`{name}`", f"`{broker_name}`", kind, values, setting.doc, kafka))
    parts += [
        "\n## Group configs\n",
        "For consumer groups (KIP-848). All are dynamic, and a group has them whether or not it exists. The"
        "\ndefault of each is the broker setting beside it; the broker's limits for it (`group.consumer.min.*`,"
        "\n`group.consumer.max.*`) apply to the group's value.\n",
        "| group config | default | type | values | description | in Apache Kafka |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, broker_name, setting in reference.group:
        kind, default, values = _facts(setting)
        shown = f"`{broker_name}`" if broker_name else default
        parts.append(_row(f"`{name}`", shown, kind, values, setting.doc, setting.kafka))
    parts += [
        "\n## Configs of client metrics subscriptions\n",
        "For metrics that clients push (KIP-714, [docs/watch.md](watch.md)). All are dynamic. A subscription exists"
        "\nas long as it has a config.\n",
        "| config | type | default | values | description | in Apache Kafka |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, setting in sorted(reference.client_metrics.items()):
        parts.append(_row(f"`{name}`", *_facts(setting), setting.doc, setting.kafka))
    parts += [
        "\n## Accepted without effect\n",
        "Kohort accepts and describes these settings, so that tools and programs that set them work. A broker"
        "\nlogs at its start which of them are set. All are dynamic.\n",
        "| broker setting | topic config | type | default | values | in Apache Kafka | no effect, because |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, broker_name, setting in reference.without_effect:
        broker_cell, topic_cell = (f"`{one}`" if one else "" for one in (broker_name, name))
        kafka = f"{setting.doc} Values: {setting.kafka}." if setting.kafka else setting.doc
        parts.append(_row(broker_cell, topic_cell, *_facts(setting), kafka, setting.no_effect))
    return "\n".join(parts) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _facts(setting: Setting) -> tuple[str, str, str]:
    """Type, default and allowed values of a setting."""
    text = setting.default_text
    return setting.kind, f"`{text}`" if text else "empty", _values(setting)


def _values(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in sorted(setting.choices))
    if setting.low is None:
        return ""
    return f"at least {setting.low}" if setting.high in _UNLIMITED else f"{setting.low} to {setting.high}"


def findings_page() -> str:
    """The text of findings.html, which the watcher's page serves: docs/watch-findings.md as HTML."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).render((DIRECTORY.parent / "watch-findings.md").read_text())
    body = re.sub(r"<h2>([a-z-]+)</h2>", r'<h2 id="\1">\1</h2>', body)
    # The other documents are not served.
    body = re.sub(r'<a href="[^":]*">(.*?)</a>', r"\1", body, flags=re.DOTALL)
    return _FINDINGS_HEAD + body + "</main>\n</body>\n</html>\n"


_FINDINGS_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Findings of kohort watch</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/style.css">
<script src="/static/theme.js"></script>
</head>
<body>
<!-- Made from docs/watch-findings.md by docs/generate.py. -->
<main class="document">
<p><a href="/">All groups</a></p>
"""
FINDINGS = Path(__file__).parents[1] / "src/kohort/watch/web/page/findings.html"


def main() -> None:
    FINDINGS.write_text(findings_page())
    CONFIGURATION.write_text(configuration_page())
    DIRECTORY.mkdir(exist_ok=True)
    for name in PAGES:
        (DIRECTORY / f"{name}.md").write_text(page(name))
    (DIRECTORY / "values.md").write_text(values_page())
    (DIRECTORY / "schema-registry.md").write_text(schema_registry_page())
    (DIRECTORY / "metrics.md").write_text(metrics_page())


if __name__ == "__main__":
    main()
