"""Experiments as TOML files, and settings of an experiment from the command line."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kohort.errors import ConfigError
from kohort.lab.experiment import Experiment, built_in
from kohort.lab.settings import name_of

_SETTINGS: dict[str, Field[Any]] = {name_of(setting): setting for setting in fields(Experiment)}
_BROKER = "broker-settings"
_WIDTH = 100


def find_experiment(name: str) -> Experiment:
    """Return the experiment of a built-in scenario, of several (`bounce,crash`), or of a file.

    Raises ConfigError for an unknown scenario, or a file that is not an experiment.
    """
    if name.endswith(".toml") or "/" in name:
        return _read(Path(name))
    scenarios = _checked("scenarios", tuple(scenario.strip() for scenario in name.split(",")))
    return built_in(scenarios)


def with_settings(experiment: Experiment, given: Mapping[str, object]) -> Experiment:
    """Return the experiment with values from a file or the command line. Raises ConfigError for one that is wrong."""
    checked = {_known(name).name: _checked(name, value) for name, value in given.items()}
    return replace(experiment, **checked)


def from_command_line(pairs: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Parse NAME=VALUE pairs of `--set`. A name with a dot is a setting of the brokers. Raises ConfigError."""
    found: dict[str, object] = {}
    of_brokers: dict[str, str] = {}
    for name, text in pairs:
        if "." in name:
            of_brokers[name] = text
        else:
            found[name] = _parsed(name, text)
    return found | ({_BROKER: of_brokers} if of_brokers else {})


def dump_experiment(experiment: Experiment) -> str:
    """Return the experiment as a TOML file with a comment for each setting that has an effect."""
    lines: list[str] = []
    for setting in experiment.used:
        value = getattr(experiment, setting.name)
        choices = f" Choices: {', '.join(setting.metadata['choices'])}." if setting.metadata["choices"] else ""
        comment = textwrap.wrap(f"{setting.metadata['text']}{choices}", _WIDTH - 2, break_on_hyphens=False)
        lines += ["", *(f"# {line}" for line in comment)] if lines else [f"# {line}" for line in comment]
        if isinstance(value, Mapping):
            lines.append(f"[{_BROKER}]")
            lines += [f"{json.dumps(name)} = {json.dumps(chosen)}" for name, chosen in sorted(value.items())]
        else:
            lines.append(f"{name_of(setting)} = {_as_toml(value)}")
    return "\n".join(lines) + "\n"


def _read(path: Path) -> Experiment:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:  # also for text that is not UTF-8
        raise ConfigError(f"{path} is not a TOML file: {problem}.") from problem
    try:
        scenarios = _checked("scenarios", given.get("scenarios", ["bounce"]))
        return with_settings(built_in(scenarios), given)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None


def _known(name: str) -> Field[Any]:
    if name not in _SETTINGS:
        near = get_close_matches(name.replace("_", "-"), _SETTINGS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "`kohort lab bounce --print` lists all settings."
        raise ConfigError(f"There is no setting `{name}`: {hint}")
    return _SETTINGS[name]


def _checked(name: str, value: object) -> Any:
    """Return the value in the type of that setting. Raises ConfigError for a value that it cannot have."""
    setting = _known(name)
    default = getattr(built_in(("bounce",)), setting.name)
    typed = _typed(name, default, value)
    least, choices = setting.metadata["least"], setting.metadata["choices"]
    if least is not None and typed < least:
        raise ConfigError(f"`{name}` is at least {least}, not {typed}.")
    for element in typed if isinstance(typed, tuple) else (typed,):
        if choices and element not in choices:
            near = get_close_matches(str(element), choices, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(choices)}."
            raise ConfigError(f"`{name}` cannot be {element!r}: {hint}")
    return typed


def _typed(name: str, default: object, value: object) -> Any:
    match default, value:
        case bool(), bool():
            return value
        case int(), int() if not isinstance(value, bool) and not isinstance(default, bool):
            return value
        case float(), int() | float() if not isinstance(value, bool):
            return float(value)
        case str(), str():
            return value
        case tuple(), list() | tuple() if value and all(isinstance(word, str) for word in value):
            return tuple(value)
        case Mapping(), Mapping():
            return _broker_settings(value)
    raise ConfigError(f"`{name}` takes {_kind(default)}, not {_as_toml(value)}.")


def _broker_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Return settings by their names; TOML reads a name with dots as a table in a table."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{rest}": setting for rest, setting in _broker_settings(value).items()}
        else:
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _kind(default: object) -> str:
    match default:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "a string"
        case tuple():
            return "a list of strings"
    return "a table"


def _parsed(name: str, text: str) -> object:
    """Return a value of the command line, which has no quotes and no brackets, as TOML has it."""
    default = getattr(built_in(("bounce",)), _known(name).name)
    if isinstance(default, str):
        return text
    if isinstance(default, tuple):
        return [word.strip() for word in text.split(",")]
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value


def _as_toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, default=str)
