"""Steps of the demo, in order; each prints what it did and checks the results."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kohort import interruption
from kohort.client import Admin, NewTopic, OffsetSpec, Producer
from kohort.demo.access import ADMIN, MEMBER, PRODUCER, SPARK, WATCHER, Access, acls, rights, secured_access
from kohort.demo.compare import results_table, total
from kohort.demo.flights import Flight, Tally, data_directory, flights, rows, tally
from kohort.demo.journal import read_journal
from kohort.demo.member import unpack
from kohort.demo.processes import Child, start_broker
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord
from kohort.recorder.views import draw, rebalances_table, summary

TOPIC, PARTITIONS = "flights", 12
GROUP, SPARK_GROUP = "delays", "delays-spark"
RATE = 12_000
"""Flights per second and member, slow enough to see members join and leave."""
HELD_BACK = 28_000
"""Number of flights that are produced after the broker's crash."""

_JOIN_AT, _RESTART_AT = 0.75, 0.5
"""Fractions of the flights left to read when the fourth member joins and when a member is restarted."""


@dataclass(slots=True)
class Demo:
    """State shared by the steps."""

    directory: Path
    """Directory of the processes' files."""
    out: Path
    """Directory of the results."""
    console: Console
    secured: bool = False
    """Whether clients connect over TLS, authenticate, and may do only what they need."""
    access: Access = field(default_factory=Access)
    began: float = field(default_factory=time.monotonic)
    address: str = ""
    broker: Child | None = None
    members: dict[str, Child] = field(default_factory=dict)
    ended: list[Child] = field(default_factory=list)
    spark: Child | None = None
    flights: Sequence[Flight] = ()
    wrong: list[str] = field(default_factory=list)

    async def start_broker(self, port: int = 0) -> Child:
        """Start the broker on its directory, and return it."""
        data, logs, access = self.directory / "data", self.directory, self.access
        self.broker, self.address = await start_broker(
            data, logs, port, protocol=access.protocol, arguments=access.of_broker
        )
        return self.broker

    def admin(self, user: str = WATCHER) -> Admin:
        """Return an admin client of this user."""
        return Admin(bootstrap_servers=self.address, **self.access.of_client(user))

    async def journal(self) -> list[RebalanceRecord]:
        """Return the journal of the group."""
        return await read_journal(self.address, GROUP, **self.access.of_client(WATCHER))

    def heading(self, number: int, text: str) -> None:
        """Print the step's number, title and start time."""
        self.console.print(f"\n[bold]{number}. {text}[/bold] [dim]{time.monotonic() - self.began:.0f} s[/dim]")

    def check(self, holds: bool, otherwise: str) -> None:
        """Record and print what was wrong; the demo continues."""
        if not holds:
            self.wrong.append(otherwise)
            self.console.print(f"[red]wrong:[/red] {escape(otherwise)}")


def run_demo(keep: bool, out: Path = Path("demo-out"), *, secured: bool = False) -> int:
    """Run the whole demo; return 0 if every check passed, else 1. The last line reports the result.

    The table and the picture are written to `out`; with `keep` also the logs, the Parquet files and
    the broker's data.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    directory = out.absolute() if keep else Path(tempfile.mkdtemp(prefix="kohort-demo-"))
    demo = Demo(directory, out.absolute(), _console(), secured)
    try:
        interruption.run(_run(demo, keep))
    except KohortError as error:
        demo.wrong.append(str(error))
    if keep:
        demo.console.print(f"Logs, Parquet and the broker's data are kept in {directory}.")
    took = time.monotonic() - demo.began
    demo.console.print(f"\n[dim]{took:.0f} s[/dim]\ndemo: {escape('; '.join(demo.wrong)) or 'ok'}", soft_wrap=True)
    return 1 if demo.wrong else 0


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=120)


async def _run(demo: Demo, keep: bool) -> None:
    try:
        await _start(demo)
        await _produce(demo, demo.flights[:-HELD_BACK])
        await _consume(demo)
        await _spark(demo, len(demo.flights) - HELD_BACK)
        await _crash(demo)
        await _compare(demo)
    finally:
        children = [
            *demo.members.values(),
            *([demo.spark] if demo.spark else []),
            *([demo.broker] if demo.broker else []),
        ]
        for child in children:
            if interruption.begun():
                child.kill()
            await child.stop()
        if not keep:
            shutil.rmtree(demo.directory, ignore_errors=True)


async def _start(demo: Demo) -> None:
    demo.heading(1, "A broker with its log on disk")
    if demo.secured:
        demo.access = await asyncio.to_thread(secured_access, demo.directory / "logins", demo.directory / "data")
    broker = await demo.start_broker()
    async with demo.admin(ADMIN) as admin:
        cluster = await admin.describe_cluster()
        # The records have the times of their departures in 2013: with the default retention they would be expired.
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"})])
        if demo.secured:
            await _allow(demo, admin)
    demo.console.print(
        f"Process {broker.process.pid} answers on {demo.address}: cluster {cluster.cluster_id}, "
        f"log in {demo.directory / 'data'}, topic {TOPIC} with {PARTITIONS} partitions."
    )
    if shutil.which("java") is None:
        demo.console.print("Java was not found, so step 4 (Spark) is skipped: install Java 17 to see it.")
    else:
        demo.spark = await _start_spark(demo)
    with demo.console.status("reading the flights"):
        demo.flights = await asyncio.to_thread(flights)


async def _allow(demo: Demo, admin: Admin) -> None:
    """Allow to each user what it needs."""
    needed = rights(TOPIC, GROUP, SPARK_GROUP, JOURNAL_TOPIC)
    await admin.create_acls(acls(needed))
    demo.console.print("Clients connect over TLS with a password, and ACLs allow to each user what it needs:")
    for user, some in needed.items():
        shown = ", ".join(f"{operation.name.lower()} {kind.name.lower()} {name}" for operation, kind, name in some)
        demo.console.print(f"  {user}: {shown}")


async def _start_spark(demo: Demo) -> Child:
    """Start Spark early, because the JVM starts slowly."""
    command = ["-m", "kohort.demo.spark_job", "--bootstrap", demo.address, "--group", SPARK_GROUP, "--topic", TOPIC]
    command += ["--airlines", str(data_directory() / "airlines.csv"), "--directory", str(demo.directory / "lake")]
    command += demo.access.of_child(SPARK)
    child = await Child.start("spark", command, demo.directory, SPARK_LOCAL_IP="127.0.0.1")
    child.start_reading()
    return child


async def _produce(demo: Demo, some: Sequence[Flight]) -> None:
    demo.heading(2, f"{len(some):,} flights into the topic")
    began = time.monotonic()
    options = demo.access.of_client(PRODUCER)
    async with Producer(bootstrap_servers=demo.address, linger_ms=20, batch_size=65_536, **options) as producer:
        with _progress(demo) as progress:
            bar = progress.add_task("producing", total=len(some))
            for number, flight in enumerate(some, 1):
                await producer.send(TOPIC, flight.value, key=flight.tail_number, timestamp=flight.departed_at)
                if number % 5_000 == 0:
                    progress.update(bar, completed=number)
            await producer.flush()
            progress.update(bar, completed=len(some))
    took = time.monotonic() - began
    size = sum(len(flight.value) for flight in some) / 1e6
    demo.console.print(f"{len(some) / took:,.0f} flights/s, {size / took:.0f} MB/s, every one acknowledged from disk.")


def _progress(demo: Demo) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=demo.console, transient=True)


async def _consume(demo: Demo) -> None:
    demo.heading(3, f"Three members of the group {GROUP} count them; a fourth joins, one is restarted")
    for number in (1, 2, 3):
        await _start_member(demo, f"member-{number}")
    end = len(demo.flights) - HELD_BACK
    with _progress(demo) as progress:
        bar = progress.add_task("counting", total=end)
        await _until_lag(demo, int(end * _JOIN_AT), progress, bar, end)
        await _start_member(demo, "member-4")
        await _until_lag(demo, int(end * _RESTART_AT), progress, bar, end)
        await _end_member(demo, "member-2")
        await _start_member(demo, "member-2")
        await _until_lag(demo, 0, progress, bar, end)
    await _print_rebalances(demo)


async def _start_member(demo: Demo, name: str) -> None:
    command = ["-m", "kohort.demo.member", "--bootstrap", demo.address, "--group", GROUP]
    command += ["--client-id", name, "--topic", TOPIC, "--rate", str(RATE)]
    command += demo.access.of_child(MEMBER)
    child = await Child.start(name, command, demo.directory)
    child.start_reading()
    demo.members[name] = child


async def _end_member(demo: Demo, name: str) -> None:
    child = demo.members.pop(name)
    code = await child.stop()
    demo.ended.append(child)
    demo.check(code == 0, f"{name} ended with exit code {code}: {child.log_end()[-300:]}")


async def _until_lag(demo: Demo, most: int, progress: Progress, bar: TaskID, end: int) -> None:
    """Wait until at most `most` flights are left for the group."""
    async with demo.admin() as admin, asyncio.timeout(60):
        while (left := await _lag(admin, GROUP)) > most:
            progress.update(bar, completed=max(0, end - left))
            await asyncio.sleep(0.2)


async def _lag(admin: Admin, group: str) -> int:
    """Return the number of records that the group has not committed, over all partitions of the topic."""
    offsets = {offset.partition: offset for offset in await admin.group_lag(group)}
    ends = await _ends(admin)
    return sum(end - ((offsets[tp].committed or 0) if tp in offsets else 0) for tp, end in ends.items())


async def _ends(admin: Admin) -> dict[TopicPartition, int]:
    found = await admin.list_offsets({TopicPartition(TOPIC, n): OffsetSpec.LATEST for n in range(PARTITIONS)})
    return {tp: end.offset for tp, end in found.items() if end is not None}


async def _print_rebalances(demo: Demo) -> list[RebalanceRecord]:
    records = await demo.journal()
    demo.console.print(rebalances_table(records))
    demo.console.print(summary(records), markup=False)
    return records


async def _spark(demo: Demo, expected: int) -> None:
    demo.heading(4, f"Spark reads the same topic as a member of {SPARK_GROUP}")
    if demo.spark is None:
        demo.console.print("Skipped: no Java.")
        return
    told = await _ask_spark(demo)
    if told is None:
        return
    landed = total(told)
    demo.console.print(f"{landed.flights:,} flights joined with their airlines and landed as Parquet.")
    demo.check(landed.flights == expected, f"Spark landed {landed.flights:,} flights instead of {expected:,}")
    await _describe(demo, SPARK_GROUP)


async def _ask_spark(demo: Demo) -> dict[str, Tally] | None:
    """Run the query once; return its totals by carrier, or None if it failed."""
    assert demo.spark is not None
    demo.spark.send_line("go")
    with demo.console.status("Spark is running"):
        told = await demo.spark.next_report()
    if told is None:
        demo.check(False, f"Spark failed; its last output: {demo.spark.log_end()[-600:]}")
        demo.spark = None
        return None
    return {carrier: Tally(*line) for carrier, line in told["carriers"].items()}


async def _describe(demo: Demo, group: str) -> None:
    """Run and print the command that a user would type, and check the group's lag."""
    command = [sys.executable, "-m", "kohort", "group", "describe", group, "--bootstrap", demo.address]
    command += demo.access.of_child(WATCHER)
    demo.console.print(f"[dim]$ kohort group describe {group}[/dim]")
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=False)
    demo.console.print((done.stdout or done.stderr).rstrip(), markup=False)
    async with demo.admin() as admin:
        lag = await _lag(admin, group)
    demo.check(lag == 0, f"the group {group} has a lag of {lag}")


async def _crash(demo: Demo) -> None:
    demo.heading(5, "The broker is killed and started again on the same directory")
    assert demo.broker is not None
    before = await _standing(demo)
    port = int(demo.address.rpartition(":")[2])
    killed_at = time.monotonic()
    await demo.broker.stop(signal.SIGKILL)
    await demo.start_broker(port)
    after = await _standing(demo)
    demo.console.print(
        f"Answering again after {time.monotonic() - killed_at:.1f} s; "
        f"{sum(end for end, *_ in after.values()):,} records and the offsets of both groups are there."
    )
    demo.check(after == before, f"the broker came back with other offsets: {before} became {after}")
    rebalances = len(await demo.journal())
    await _produce_rest(demo)
    demo.check(len(await demo.journal()) == rebalances, "the broker's crash made the group rebalance")
    if demo.spark is not None:
        await _ask_spark(demo)
        await _describe(demo, SPARK_GROUP)


async def _standing(demo: Demo) -> Mapping[int, tuple[int, int | None, int | None]]:
    """Return the end offset and both groups' committed offsets, by partition."""
    async with demo.admin() as admin:
        ends = await _ends(admin)
        committed = [
            {offset.partition: offset.committed for offset in await admin.group_lag(group)}
            for group in (GROUP, SPARK_GROUP)
        ]
    return {tp.partition: (end, committed[0].get(tp), committed[1].get(tp)) for tp, end in ends.items()}


async def _produce_rest(demo: Demo) -> None:
    rest = demo.flights[-HELD_BACK:]
    options = demo.access.of_client(PRODUCER)
    async with Producer(bootstrap_servers=demo.address, linger_ms=20, **options) as producer:
        for flight in rest:
            await producer.send(TOPIC, flight.value, key=flight.tail_number, timestamp=flight.departed_at)
    with _progress(demo) as progress:
        bar = progress.add_task("counting the rest", total=len(rest))
        await _until_lag(demo, 0, progress, bar, len(rest))
    demo.console.print(f"The members went on with the last {len(rest):,} flights.")


async def _compare(demo: Demo) -> None:
    demo.heading(6, "The results against the CSV")
    picture = demo.out / "rebalances.png"
    draw(await demo.journal(), picture)
    for name in list(demo.members):
        await _end_member(demo, name)
    read = sum(report["read"] for child in demo.ended for report in child.reports)
    expected = tally(rows())
    group = await _group_result(demo)
    spark = None if demo.spark is None else {c: Tally(*line) for c, line in demo.spark.reports[-1]["carriers"].items()}
    table = results_table(expected, group, spark)
    demo.console.print(table)
    with (demo.out / "results.txt").open("w") as file:
        Console(file=file, width=120).print(table)
    demo.console.print(f"The members read {read:,} records for {total(expected).flights:,} flights.")
    demo.check(group == expected, f"the group {GROUP} has counts that differ from the CSV")
    demo.check(spark in (None, expected), "Spark has counts that differ from the CSV")
    demo.check(read == total(expected).flights, f"the members read {read:,} records, not each flight once")
    demo.console.print(f"Owners of the partitions over time: {picture}")


async def _group_result(demo: Demo) -> dict[str, Tally]:
    """Return the counts in the commits' metadata, summed over the partitions."""
    result: dict[str, Tally] = {}
    async with demo.admin() as admin:
        for offset in await admin.group_lag(GROUP):
            for carrier, line in unpack(offset.metadata).items():
                result.setdefault(carrier, Tally()).add(line)
    return result
