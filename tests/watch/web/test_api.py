from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest

from kohort.model import TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch import SourceKind
from kohort.watch.changes import GenerationWritten
from tests.watch.web.site import Site, generation, now, site


def worked(here: Site, group_id: str = "g") -> int:
    """A group whose second member came, and that is 3 records behind. Returns the time of the second generation."""
    at = now() - 10_000
    here.apply(generation(group_id, at - 60_000, 1, a=(0, 1)), generation(group_id, at, 2, a=(0,), b=(1,)))
    here.commit(group_id, 7)
    here.live.sampled({TopicPartition("orders", 0): 10}, now())
    return at


async def test_the_overview_has_the_cluster_the_sources_and_each_group() -> None:
    async with site() as here:
        at = worked(here)
        here.live.problem("Topic secrets cannot be read.", now())
        answer = await here.get("/api/groups")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        document = answer.value
        assert document["cluster"] == {"bootstrap": "kafka:9092", "name": "shop", "id": None}
        assert document["problems"] == ["Topic secrets cannot be read."]
        assert [(source["kind"], source["state"]) for source in document["sources"]] == [("log", "following")]
        [group] = document["groups"]
        assert (group["group"], group["type"], group["state"]) == ("g", "classic", "Stable")
        assert (group["members"], group["partitions"], group["lag"], group["rebalances_1h"]) == (2, 2, 3, 2)
        assert group["last_rebalance"] == {"generation": 2, "at": at, "cause": "member joined", "moved": 1}
        assert group["lag_series"][-1][1] >= 0


async def test_the_document_of_a_group_has_members_partitions_and_rebalances() -> None:
    async with site() as here:
        at = worked(here)
        group = (await here.get("/api/groups/g")).value
        assert [(each["member_id"], each["partitions"]) for each in group["member_list"]] == [
            ("a", ["orders-0"]),
            ("b", ["orders-1"]),
        ]
        assert [(each["partition"], each["owner"], each["lag"]) for each in group["partition_list"]] == [
            (0, "a", 3),
            (1, "b", None),
        ]
        first = here.live.groups["g"].rebalances[0].ended_at
        assert [each["since"] for each in group["member_list"]] == [first, at], "a joined first, and then b"
        newest, oldest = group["rebalances"]
        assert (newest["generation"], newest["ended_at"], newest["moved"], newest["members_after"]) == (2, at, 1, 2)
        assert (oldest["generation"], oldest["needless"], oldest["pending"]) == (1, 0, False)


async def test_a_group_counts_partitions_with_an_owner_and_those_with_an_offset_alone() -> None:
    async with site() as here:
        worked(here)
        here.commit("g", 4, partition=7)
        here.commit("offsets only", 4)
        groups = {each["group"]: each for each in (await here.get("/api/groups")).value["groups"]}
        assert {name: each["partitions"] for name, each in groups.items()} == {"g": 3, "offsets only": 1}
        assert groups["offsets only"]["type"] is None


async def test_a_dark_time_that_becomes_known_later_counts() -> None:
    async with site() as here:
        at = worked(here)
        group = here.live.groups["g"]
        assert (await here.get("/api/groups/g")).value["dark_seconds_1h"] == 0  # of the first members
        change = PartitionChange("orders", 1, "a", "b", at - 2_000, at, at + 1_000)
        record = RebalanceRecord("g", 2, at - 2_000, at, partitions=(change,))
        group.rebalances[-1] = record
        here.live.rebalanced([record], now())
        document = (await here.get("/api/groups/g")).value
        assert document["dark_seconds_1h"] == 3.0
        assert document["rebalances"][0]["dark_ms_total"] == document["rebalances"][0]["longest_dark_ms"] == 3_000


async def test_the_dark_time_of_the_last_hour_counts_partitions_that_are_dark_now() -> None:
    async with site() as here:
        worked(here)
        group = here.live.groups["g"]
        group.unowned |= {TopicPartition("orders", 8): now() - 90_000, TopicPartition("orders", 9): now() - 7_200_000}
        document = (await here.get("/api/groups/g")).value
        assert document["dark_now"] == 2
        assert document["dark_seconds_1h"] == pytest.approx(90 + 3_600, abs=1)


async def test_a_rebalance_of_more_than_an_hour_ago_is_the_last_one_and_not_one_of_the_hour() -> None:
    async with site() as here:
        at = now() - 3_700_000
        here.apply(generation("g", at, 1, a=(0, 1)))
        document = (await here.get("/api/groups/g")).value
        assert (document["rebalances_1h"], document["last_rebalance"]["at"]) == (0, at)


async def test_the_records_of_rebalances_newest_first_and_limited() -> None:
    async with site() as here:
        at = worked(here)
        records = (await here.get("/api/groups/g/rebalances")).value["rebalances"]
        assert [record["generation"] for record in records] == [2, 1]
        assert records[0]["partitions"][0]["previous_owner"] == "a"
        [record] = (await here.get(f"/api/groups/g/rebalances?since={at}")).value["rebalances"]
        assert (record["generation"], record["pending"]) == (2, True)  # b has not committed yet
        here.live.expire(now() + 3_600_000, now())
        [record] = (await here.get(f"/api/groups/g/rebalances?since={at}")).value["rebalances"]
        assert (record["generation"], record["pending"]) == (2, False)
        [record] = (await here.get("/api/groups/g/rebalances?limit=1")).value["rebalances"]
        assert record["generation"] == 2


async def test_a_member_that_comes_back_again_and_again_is_flapping() -> None:
    async with site() as here:
        start = now() - 600_000
        steps = [generation("g", start, 1, a=(0, 1))]
        for number in range(1, 5):
            steps.append(generation("g", start + number * 60_000, 2 * number, a=(0,), b=(1,)))
            steps.append(generation("g", start + number * 60_000 + 30_000, 2 * number + 1, a=(0, 1)))
        here.apply(*steps, generation("g", start + 400_000, 10, a=(0,), b=(1,)))
        told = {each["member_id"]: each for each in (await here.get("/api/groups/g")).value["member_list"]}
        assert (told["b"]["joins_1h"], told["b"]["flapping"]) == (5, True)
        assert told["a"]["flapping"] is False


def of_one_client(step: GenerationWritten) -> GenerationWritten:
    """Give all members one client ID and one host, and `b` another ID in each generation."""
    members = []
    for member in step.members:
        member_id = f"b{step.generation}" if member.facts.member_id == "b" else member.facts.member_id
        facts = replace(member.facts, member_id=member_id, client_id="app", client_host="/10.0.0.1")
        members.append(replace(member, facts=facts))
    return replace(step, members=tuple(members))


async def test_of_members_with_one_client_id_only_the_one_that_comes_back_is_flapping() -> None:
    async with site() as here:
        start = now() - 600_000
        steps = [generation("g", start, 1, a=(0, 1))]
        for number in range(1, 5):
            at = start + number * 60_000
            steps.append(generation("g", at, 2 * number, a=(0,), b=(1,)))
            steps.append(generation("g", at + 30_000, 2 * number + 1, a=(0, 1)))
        steps.append(generation("g", start + 300_000, 10, a=(0,), b=(1,)))
        here.apply(*map(of_one_client, steps))
        told = {each["member_id"]: each for each in (await here.get("/api/groups/g")).value["member_list"]}
        assert {name: (each["joins_1h"], each["flapping"]) for name, each in told.items()} == {
            "a": (1, False),
            "b10": (1, True),
        }


async def test_one_rebalance_has_its_waterfall() -> None:
    async with site() as here:
        worked(here)
        record = (await here.get("/api/groups/g/rebalances/2")).value
        assert {member["member_id"] for member in record["waterfall"]} >= {"b"}
        assert record["came"] == ["b"]


async def test_the_timeline_of_a_group() -> None:
    async with site() as here:
        at = worked(here)
        timeline = (await here.get(f"/api/groups/g/timeline?from={at - 1_000}")).value
        names = [member["member_id"] for member in timeline["members"]]
        spans = {each["partition"]: [tuple(span) for span in each["spans"]] for each in timeline["partitions"]}
        assert spans == {
            0: [(at - 1_000, None, names.index("a"))],
            1: [(at - 1_000, at, names.index("a")), (at, None, names.index("b"))],
        }
        assert [record["generation"] for record in timeline["rebalances"]] == [2]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/groups/none", 404),
        ("/api/groups/none/rebalances", 404),
        ("/api/groups/none/rebalances/1", 404),
        ("/api/groups/none/timeline", 404),
        ("/api/groups/g/rebalances/9", 404),
        ("/api/groups/g/rebalances/x", 400),
        ("/api/groups/g/rebalances/99999999999", 400),
        ("/api/groups/g/rebalances?since=-1", 400),
        ("/api/groups/g/rebalances?limit=%C2%B2", 400),
        ("/api/groups/g/timeline?from=2&to=1", 400),
        ("/api/groups/g/timeline?from=abc", 400),
        ("/api/groups/g/", 404),
        ("/api", 404),
        ("/metrics", 404),
    ],
)
async def test_what_is_not_there_or_cannot_be_read_is_refused_with_a_sentence(path: str, status: int) -> None:
    async with site() as here:
        worked(here)
        answer = await here.get(path)
        assert answer.status == status
        assert answer.error.endswith(".")


@pytest.mark.parametrize("group_id", ["a/b", "ünï", "a%2Fb", "<b>", "a b?c#d", "\u202eabc", "x" * 32_767, "\x00\n"])
async def test_every_group_has_an_address(group_id: str) -> None:
    async with site() as here:
        worked(here, group_id)
        path = f"/api/groups/{quote(group_id, safe='')}"
        assert (await here.get(path)).value["group"] == group_id
        assert (await here.get(f"{path}/timeline")).status == 200


async def test_the_health_is_that_of_the_sources() -> None:
    async with site() as here:
        assert (await here.get("/healthz")).value["status"] == "ok"
        here.live.source(SourceKind.LOG, "failed", now(), "kafka:9092 does not answer.")
        answer = await here.get("/healthz")
        assert (answer.status, answer.value["sources"]) == (503, [{"kind": "log", "state": "failed"}])
        assert b"kafka" not in answer.body  # whoever checks the health needs no token
        here.live.source(SourceKind.LOG, "loading", now())
        assert (await here.get("/healthz")).status == 200
        here.live.source(SourceKind.LOG, "failed", now())
        for kind in (SourceKind.JOURNAL, SourceKind.TELEMETRY):
            here.live.source(kind, "following", now())
        assert (await here.get("/healthz")).status == 503, "without the groups these show nothing"
        here.live.source(SourceKind.LOG, "forbidden", now())
        here.live.source(SourceKind.ADMIN, "following", now())
        assert (await here.get("/healthz")).status == 200


async def test_every_view_has_the_page() -> None:
    async with site() as here:
        pages = [await here.get(path) for path in ("/", "/?sort=lag", "/groups/a%2Fb", "/groups/g/rebalances/2")]
        assert {(page.status, page.headers["content-type"]) for page in pages} == {(200, "text/html; charset=utf-8")}
        assert len({page.body for page in pages}) == 1
