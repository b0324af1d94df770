from __future__ import annotations

from pathlib import Path

import pytest

from kohort.log import BadDataDirectory, FileStore, LogStore


def test_configs_of_a_resource_are_stored_as_a_whole_until_there_are_none(store: LogStore) -> None:
    assert store.configs("group") == {}
    store.keep_configs("group", "a", {"x": "1", "y": "2"})
    store.keep_configs("group", "b", {"x": "3"})
    store.keep_configs("broker", "a", {"z": "4"})
    store.keep_configs("group", "a", {"x": "5"})
    assert store.configs("group") == {"a": {"x": "5"}, "b": {"x": "3"}}
    store.keep_configs("group", "a", {})
    assert store.configs("group") == {"b": {"x": "3"}}
    assert store.configs("broker") == {"a": {"z": "4"}}


def test_configs_survive_a_restart_whatever_the_name(tmp_path: Path) -> None:
    names = ["", "a/b", "ü\n", "\udcff"]
    first = FileStore(tmp_path)
    for name in names:
        first.keep_configs("group", name, {"x": name})
    first.abandon()
    second = FileStore(tmp_path)
    assert second.configs("group") == {name: {"x": name} for name in names}
    second.close()


def test_configs_that_could_not_be_written_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    store = FileStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("kohort.log.directory.write_durably", full)
        with pytest.raises(OSError, match="no space"):
            store.keep_configs("group", "a", {"x": "1"})
    assert store.configs("group") == {}
    store.close()


@pytest.mark.parametrize("content", ["{", "[]", '{"group": 3}', '{"group": {"a": 3}}'])
def test_damaged_configs_are_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    FileStore(tmp_path).close()
    (tmp_path / "configs.json").write_text(content)
    with pytest.raises(BadDataDirectory, match=r"configs\.json is damaged"):
        FileStore(tmp_path)


def test_a_change_of_configs_keeps_the_others_of_the_resource(store: LogStore) -> None:
    store.keep_configs("group", "a", {"x": "1", "y": "2", "z": "3"})
    store.change_configs("group", "a", {"x": None, "y": "4", "new": "5", "unknown": None})
    assert store.configs("group") == {"a": {"y": "4", "z": "3", "new": "5"}}
    store.change_configs("group", "a", {"y": None, "z": None, "new": None})
    assert store.configs("group") == {}
    store.change_configs("group", "b", {"x": "1"})
    assert store.configs("group") == {"b": {"x": "1"}}
