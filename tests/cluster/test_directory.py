"""The directory that brokers share: who may enter it, who lives, and one change at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kohort.log import BadDataDirectory, ClusterStore, DataDirectoryInUse, FileStore, Topic, TopicExists
from kohort.log.cluster import ClusterDirectory, ClusterImage, Node, Placement, TooFewBrokers
from kohort.log.cluster.locks import Busy, FileLock, locked
from tests.log.logs import open_below


def test_two_brokers_with_one_node_id_are_one_too_many(tmp_path: Path) -> None:
    first = ClusterDirectory(tmp_path, 1)
    with pytest.raises(DataDirectoryInUse, match=r"already has a broker with node id 1; .*--node-id"):
        ClusterDirectory(tmp_path, 1)
    ClusterDirectory(tmp_path, 2).close()
    first.close()
    ClusterDirectory(tmp_path, 1).close()


def test_a_broker_alone_and_a_cluster_keep_each_other_out(tmp_path: Path) -> None:
    alone = FileStore(tmp_path)
    with pytest.raises(DataDirectoryInUse, match="in use by a broker alone"):
        ClusterDirectory(tmp_path, 1)
    alone.close()
    shared = ClusterDirectory(tmp_path, 1)
    with pytest.raises(DataDirectoryInUse):
        FileStore(tmp_path)
    shared.close()
    with pytest.raises(BadDataDirectory, match="is a cluster's; start it with kohort cluster"):
        FileStore(tmp_path)


def test_a_cluster_continues_with_the_data_of_a_single_broker(tmp_path: Path) -> None:
    alone = FileStore(tmp_path)
    topic = Topic(uuid4(), "t", 2, {"retention.ms": "1000"})
    alone.create_topic(topic)
    alone.keep_configs("group", "g", {"consumer.session.timeout.ms": "50000"})
    cluster_id, epoch = alone.cluster_id, alone.partition(topic.topic_id, 0).leader_epoch
    alone.close()
    store = ClusterStore(tmp_path, 1)
    assert store.cluster_id == cluster_id
    assert store.topics() == {"t": topic}
    assert store.configs("group") == {"g": {"consumer.session.timeout.ms": "50000"}}
    store.follow(store.directory.change(lambda image: image.joined(Node(1, "h", 1))))
    assert store.partition(topic.topic_id, 0).leader_epoch > epoch
    store.close()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"format": 4, "cluster_id": "x"},
            "has format 4, this version of kohort reads 3; use the version that made it",
        ),
        ({"format": 3, "cluster_id": 5}, "is damaged"),
        ({"format": 2, "cluster_id": 5}, "is damaged"),
    ],
)
def test_a_directory_of_another_make_is_refused_untouched(
    tmp_path: Path, content: dict[str, object], sentence: str
) -> None:
    (tmp_path / "kohort.json").write_text(json.dumps(content))
    with pytest.raises(BadDataDirectory, match=sentence):
        ClusterDirectory(tmp_path, 1)
    assert json.loads((tmp_path / "kohort.json").read_text()) == content
    assert not (tmp_path / "cluster.json").exists()


def make_older(path: Path) -> bytes:
    """Make the directory as version 0.1 leaves it, with one topic; return its image."""
    store = ClusterStore(path, 1)
    store.create_topic(Topic(uuid4(), "t", 2))
    store.close()
    meta = json.loads((path / "kohort.json").read_text())
    (path / "kohort.json").write_text(json.dumps({**meta, "format": 2}))
    image = json.loads((path / "cluster.json").read_text())["image"]
    del image["targets"]
    older = json.dumps(image).encode()
    (path / "cluster.json").write_bytes(older)
    return older


def test_a_directory_of_version_0_1_is_made_one_that_its_brokers_refuse(tmp_path: Path) -> None:
    make_older(tmp_path)
    with pytest.raises(BadDataDirectory, match="is a cluster's; start it with kohort cluster"):
        FileStore(tmp_path)
    store = ClusterStore(tmp_path, 1)
    assert store.topics()["t"].partitions == 2
    store.close()
    # Version 0.1 reads format 2 alone, and an image whose outermost object has the topics.
    assert json.loads((tmp_path / "kohort.json").read_text())["format"] == 3
    assert "topics" not in json.loads((tmp_path / "cluster.json").read_text())


def test_a_directory_where_a_broker_of_version_0_1_works_is_refused_untouched(tmp_path: Path) -> None:
    older = make_older(tmp_path)
    life = FileLock(tmp_path / "brokers" / "7.lock")
    with pytest.raises(DataDirectoryInUse, match=r"by brokers of an older version of kohort \(7\); stop all of them"):
        ClusterDirectory(tmp_path, 1)
    assert json.loads((tmp_path / "kohort.json").read_text())["format"] == 2
    assert (tmp_path / "cluster.json").read_bytes() == older
    life.close()
    ClusterDirectory(tmp_path, 1).close()


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    ClusterDirectory(tmp_path, 1, "A" * 22).close()
    with pytest.raises(BadDataDirectory, match=f"belongs to cluster {'A' * 22}, not {'B' * 22}"):
        ClusterDirectory(tmp_path, 1, "B" * 22)


def test_a_directory_with_somebodys_files_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadDataDirectory, match=r"holds 'thesis\.tex'"):
        ClusterDirectory(tmp_path, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_image_is_reported(tmp_path: Path) -> None:
    ClusterDirectory(tmp_path, 1).close()
    (tmp_path / "cluster.json").write_text('{"version": 1}')
    with pytest.raises(BadDataDirectory, match=r"cluster\.json is damaged"):
        ClusterStore(tmp_path, 1)


def test_a_dead_process_is_not_alive(tmp_path: Path) -> None:
    here = ClusterDirectory(tmp_path, 1)
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom kohort.log.cluster import ClusterDirectory\n"
        "held = ClusterDirectory(Path(sys.argv[1]), 2)\nprint('in', flush=True)\nsys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "in\n"
    assert here.is_alive(2)
    heartbeat = here.last_heartbeat(2)
    assert (
        heartbeat is not None
        and heartbeat.process.process_id == other.pid
        and 0 <= here.now_ms() - heartbeat.at_ms < 60_000
    )
    other.kill()
    other.communicate()
    assert not here.is_alive(2)
    here.close()


def test_changes_of_several_brokers_are_made_one_after_the_other(tmp_path: Path) -> None:
    brokers = [ClusterDirectory(tmp_path, number) for number in range(4)]

    def create(number: int) -> None:
        while True:
            try:
                brokers[number % 4].change(lambda image: image.created(Topic(UUID(int=number), f"t{number}", 1)))
                return
            except Busy:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(20)))
    image = brokers[0].read()
    assert {topic.name for topic in image.topics.values()} == {f"t{number}" for number in range(20)}
    assert image.version == 20
    for broker in brokers:
        broker.close()


def test_a_change_is_noticed_by_the_others_and_a_refused_one_leaves_no_trace(tmp_path: Path) -> None:
    one, other = ClusterDirectory(tmp_path, 1), ClusterDirectory(tmp_path, 2)
    other.read()
    assert not other.changed()

    def refuse(image: ClusterImage) -> ClusterImage:
        raise KeyError

    with pytest.raises(KeyError):
        one.change(refuse)
    assert not other.changed()
    one.change(lambda image: image.joined(Node(1, "h", 1)))
    assert not one.changed()
    assert other.changed()
    assert other.change(lambda image: image).nodes.keys() == {1}
    assert not other.changed()
    one.close()
    other.close()


def test_a_refused_change_hides_no_change_of_another_broker(tmp_path: Path) -> None:
    one, other = ClusterStore(tmp_path, 1), ClusterStore(tmp_path, 2)
    one.create_topic(Topic(uuid4(), "t", 1))
    with pytest.raises(TooFewBrokers):
        other.create_topic(Topic(uuid4(), "u", 1), Placement(3))
    assert "t" not in other.topics()
    assert other.directory.changed()
    one.close()
    other.close()


def test_a_change_of_another_broker_while_the_image_is_read_is_noticed(tmp_path: Path) -> None:
    other = ClusterDirectory(tmp_path, 2)

    class Reader(ClusterDirectory):
        def _open_image(self) -> BufferedReader:
            other.change(lambda image: replace(image, first_epoch=image.first_epoch + 1))
            opened = super()._open_image()
            other.change(lambda image: replace(image, first_epoch=image.first_epoch + 1))
            return opened

    reader = Reader(tmp_path, 1)
    assert reader.read().version == 1
    assert reader.changed()
    reader.close()
    other.close()


def test_a_change_is_noticed_even_if_its_file_has_number_and_time_of_an_earlier_one(tmp_path: Path) -> None:
    """A file system gives the number of a deleted file to a new one, and its clock ticks every few milliseconds."""
    one, other = ClusterDirectory(tmp_path, 1), ClusterDirectory(tmp_path, 2)
    for number in range(40):
        os.utime(tmp_path / "cluster.json", ns=(0, 0))
        other.read()
        for _ in range(2):
            one.change(lambda image: replace(image, first_epoch=image.first_epoch + 1))
            os.utime(tmp_path / "cluster.json", ns=(0, 0))
        assert other.changed(), number
    one.close()
    assert other.changed()
    other.close()


def test_a_broker_whose_lock_was_deleted_by_hand_is_found_when_it_is_back(tmp_path: Path) -> None:
    here, other = ClusterDirectory(tmp_path, 1), ClusterDirectory(tmp_path, 2)
    assert here.is_alive(2)
    (tmp_path / "brokers" / "2.lock").unlink()
    assert here.is_alive(2)
    other.close()
    assert not here.is_alive(2)
    again = ClusterDirectory(tmp_path, 2)
    assert here.is_alive(2)
    again.close()
    here.close()
    assert open_below(tmp_path) == 0, "nor is the deleted file open"


def test_looking_at_others_keeps_one_file_of_each_open(tmp_path: Path) -> None:
    here, other = ClusterDirectory(tmp_path, 1), ClusterDirectory(tmp_path, 2)
    for _ in range(5):
        assert here.is_alive(2)
        assert here.last_heartbeat(2) is not None
        assert here.last_heartbeat(3) is None
        other.change(lambda image: replace(image, first_epoch=image.first_epoch + 1))
        here.read()
    other.close()
    assert open_below(tmp_path) == len(["the directory's lock", "its own", "that of 2", "that of 3", "the image"])
    here.close()
    assert open_below(tmp_path) == 0


def test_a_broker_that_locks_the_image_too_long_does_not_stop_the_others(tmp_path: Path) -> None:
    here = ClusterDirectory(tmp_path, 1)
    with locked(tmp_path / "cluster.lock", 0), pytest.raises(Busy):
        here.change(lambda image: image.joined(Node(1, "h", 1)))
    here.close()


def test_configs_that_two_brokers_change_at_once_are_both_kept(tmp_path: Path) -> None:
    one, other = ClusterStore(tmp_path, 1), ClusterStore(tmp_path, 2)
    one.change_configs("acls", "topic", {"denied": "", "old": ""})
    other.change_configs("acls", "topic", {"allowed": ""})  # it has not read what the first has changed
    one.change_configs("acls", "topic", {"old": None})
    assert one.configs("acls") == {"topic": {"denied": "", "allowed": ""}}
    one.close()
    other.close()


def test_two_brokers_that_make_a_topic_at_once_make_one(tmp_path: Path) -> None:
    one, other = ClusterStore(tmp_path, 1), ClusterStore(tmp_path, 2)
    one.create_topic(Topic(uuid4(), "t", 1))
    with pytest.raises(TopicExists):
        other.create_topic(Topic(uuid4(), "t", 1))
    one.close()
    other.close()
