"""An experiment is read from a file, changed from the command line, and printed with all its settings."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.lab.experiment import Experiment, built_in
from kohort.lab.experiment_file import dump_experiment, find_experiment, from_command_line, with_settings
from kohort.lab.goals import ROWS
from kohort.lab.scenarios import SCENARIOS
from kohort.lab.settings import name_of

DOCS = Path(__file__).parents[2] / "docs" / "lab.md"


@pytest.mark.parametrize("name", [*SCENARIOS, "table", "report", "bounce,crash"])
def test_a_printed_built_in_experiment_is_the_same_experiment(name: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(dump_experiment(find_experiment(name)))
    assert find_experiment(str(path)) == find_experiment(name)


def test_every_setting_survives_a_file(tmp_path: Path) -> None:
    changed = with_settings(
        find_experiment("scale-out"),
        {
            "clients": ["java", "kohort"], "state-keys": 5, "store": "rocksdb", "out-of-step": True, "settle-s": 3,
            "out": 'a "b"', "bootstrap": "host:1", "broker-settings": {"group.heartbeat.hold.ms": "0"},
        },
    )  # fmt: skip
    path = tmp_path / "experiment.toml"
    path.write_text(dump_experiment(changed))
    assert find_experiment(str(path)) == changed


def test_the_documentation_has_the_experiment_that_is_printed() -> None:
    text = DOCS.read_text(encoding="utf-8")
    (block,) = [part.partition("```")[0] for part in text.split("```toml\n")[1:] if part.startswith("# Scenarios")]
    assert block == dump_experiment(built_in(("bounce",)))


def test_settings_of_brokers_may_have_dots_or_quotes(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('[broker-settings]\ngroup.max.size = 3\n"log.preallocate" = true\n')
    assert find_experiment(str(path)).broker_settings == {"group.max.size": "3", "log.preallocate": "true"}
    assert from_command_line([("group.max.size", "3")]) == {"broker-settings": {"group.max.size": "3"}}


def test_the_command_line_has_the_types_of_the_file() -> None:
    pairs = [("warmup", "true"), ("settle-s", "2.5"), ("members", "3"), ("clients", "java, kohort"), ("out", "3")]
    experiment = with_settings(built_in(("crash",)), from_command_line(pairs))
    assert (experiment.warmup, experiment.settle_s, experiment.members) == (True, 2.5, 3)
    assert (experiment.clients, experiment.out, experiment.scenarios) == (("java", "kohort"), "3", ("crash",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("membrs = 3", "There is no setting `membrs`: did you mean `members`?"),
        ("tick_ms = 3", "There is no setting `tick_ms`: did you mean `tick-ms`?"),
        ("xyz = 3", "There is no setting `xyz`: `kohort lab bounce --print` lists all settings."),
        ('members = "3"', '`members` takes a whole number, not "3".'),
        ("members = true", "`members` takes a whole number, not true."),
        ("warmup = 1", "`warmup` takes true or false, not 1."),
        ("members = 0", "`members` is at least 1, not 0."),
        ('clients = ["jva"]', "`clients` cannot be 'jva': did you mean java?"),
        ('clients = "java"', '`clients` takes a list of strings, not "java".'),
        ("clients = []", "`clients` takes a list of strings, not []."),
        ("members =", "is not a TOML file: "),
    ],
)
def test_errors_in_a_file_are_reported_in_a_sentence(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        find_experiment(str(path))
    assert str(path) in str(raised.value) and problem in str(raised.value)


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("table,bounce", {}, "`table` and `report` run alone"),
        ("table", {"clients": ["java"]}, "`clients` has no effect on table: leave it out."),
        ("report", {"minutes": 3}, "`minutes` has no effect on report: leave it out."),
        ("bounce", {"rows": ["crash"]}, "`rows` has no effect on bounce: leave it out."),
        ("bounce", {"store": "rocksdb"}, "set `state-keys`, too"),
        ("bounce,scale-in", {"members": 1}, "`members` is at least 2 for scale-in"),
        ("crash", {"members": 1}, "`members` is at least 2 for crash"),
    ],
)
def test_settings_that_contradict_each_other_are_rejected(name: str, given: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        with_settings(find_experiment(name), given).check()


def test_the_table_runs_its_rows_on_the_brokers() -> None:
    experiment = with_settings(find_experiment("table"), {"rows": ["crash"], "repeat": 2}).check()
    (crash,) = [row for row in ROWS if row.name == "crash"]
    assert experiment.trials() == crash.trials(("kohort", "kafka"), 2)


def test_every_setting_has_a_name_of_its_own_and_a_text() -> None:
    names = [name_of(parameter) for parameter in fields(Experiment)]
    assert len(set(names)) == len(names)
    assert all(parameter.metadata["text"].endswith(".") for parameter in fields(Experiment))
    printed = tomllib.loads(dump_experiment(built_in(("bounce",)))) | tomllib.loads(
        dump_experiment(built_in(("table",)))
    )
    assert printed.keys() == set(names)
