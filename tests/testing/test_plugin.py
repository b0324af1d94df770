"""The pytest plugin as its users have it: test files of their own, run by pytest."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

CONSUME = """
    from kohort import blocking

    def consume(kafka, topic, group, count):
        with blocking.Consumer(
            topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            found = []
            while len(found) < count:
                found += [record.value for record in consumer.poll()]
            return found
"""


def run(pytester: pytest.Pytester, text: str, *arguments: str, ini: str = "") -> pytest.RunResult:
    pytester.makeini(f"[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n{ini}")
    pytester.makepyfile(consume=CONSUME)
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", *arguments)


def test_a_first_test_needs_only_the_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from consume import consume

        def test_orders_are_read(kohort):
            orders = kohort.topic("orders", partitions=3)
            orders.produce("a", "b", "c")
            assert sorted(consume(kohort, orders, kohort.group(), 3)) == [b"a", b"b", b"c"]
        """,
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kohort: 2 rebalances in 1 tests"])


def test_tests_share_a_broker_and_nothing_else(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from kohort.blocking import Admin

        seen = []

        @pytest.mark.parametrize("number", range(3))
        def test_a_topic_of_ones_own(kohort, kohort_broker, number):
            orders = kohort.topic("orders")
            assert orders.records() == [] and kohort.broker is kohort_broker
            orders.produce("a")
            seen.append((orders, kohort.bootstrap_servers))
            with Admin(bootstrap_servers=kohort.bootstrap_servers) as admin:
                assert [name for name in admin.list_topics() if "orders" in name] == [orders]

        def test_all_used_one_broker():
            assert len({topic for topic, _ in seen}) == 3 and len({address for _, address in seen}) == 1
        """,
    )
    result.assert_outcomes(passed=4)


def test_asyncio_tests_use_the_same_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import kohort as library

        async def test_a_group_settles(kohort):
            orders, group = kohort.topic(), kohort.group()
            async with library.Consumer(orders, bootstrap_servers=kohort.bootstrap_servers, group_id=group):
                await group.wait_async(state="Stable", members=1)
        """,
    )
    result.assert_outcomes(passed=1)


def test_the_marker_gives_a_test_brokers_of_its_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from kohort.blocking import Admin

        @pytest.mark.kohort(partitions=4, protocol="classic", config={"group.max.size": 1})
        def test_settings(kohort, kohort_broker):
            assert kohort.topic().partitions == 4
            assert kohort.broker is not kohort_broker
            config = kohort.broker._run(lambda: kohort.broker.node.config)
            assert config.number("group.max.size") == 1
            assert config.names("group.coordinator.rebalance.protocols") == ["classic"]

        @pytest.mark.kohort(brokers=2)
        def test_brokers(kohort_cluster):
            assert kohort_cluster.bootstrap_servers.count(",") == 1

        def test_three_brokers(kohort_cluster):
            assert kohort_cluster.bootstrap_servers.count(",") == 2
            kohort_cluster.topic("orders", 3, replicas=3).produce("a", "b", "c")

        def test_a_factory(kohort_factory):
            with Admin(bootstrap_servers=kohort_factory(topics={"t": 1}).bootstrap_servers) as admin:
                assert "t" in admin.list_topics()

        def test_ini(kohort):
            assert kohort.topic().partitions == 2
            config = kohort.broker._run(lambda: kohort.broker.node.config)
            assert config.number("group.max.size") == 7
        """,
        ini="kohort_partitions = 2\nkohort_config = group.max.size=7",
    )
    result.assert_outcomes(passed=5)


def test_a_failing_test_shows_rebalances_requests_and_a_picture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from consume import consume

        def test_it_fails(kohort):
            orders = kohort.topic("orders")
            orders.produce("a")
            consume(kohort, orders, kohort.group("g"), 1)
            assert False, "on purpose"
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*kohort: rebalances*",
            "*first member*",
            "*kohort: last requests*",
            "*client *",
            "*LeaveGroup*: ok*",
            "*kohort: partitions over time*",
            "*-g.png",
        ],
        consecutive=False,
    )


BREAK = """
    import pytest
    from kohort import TopicPartition, blocking

    def commit_what_is_not_there(kafka, topic, group):
        with blocking.Consumer(
            topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False
        ) as consumer:
            consumer.poll()
            consumer.commit({TopicPartition(topic, 0): 9})
"""


def test_the_test_whose_client_breaks_an_invariant_fails(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        BREAK
        + """
    def test_that_commits_too_much(kohort):
        orders = kohort.topic("orders")
        orders.produce("a", "b", "c", "d")
        commit_what_is_not_there(kohort, orders, kohort.group())

    def test_that_does_it_on_a_broker_of_its_own(kohort_factory):
        kohort_factory().stop()
        broker = kohort_factory(topics={"orders": 1})
        commit_what_is_not_there(broker, "orders", "g")

    def test_that_is_honest(kohort):
        kohort.topic("orders").produce("a")
    """,
    )
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E *VerdictError: The verdict of the test kit is one violation.",
            "*S11 (fetched commits), fault of the client: *",
            "*request * of *: OffsetCommit v*",
        ]
    )


def test_a_test_that_breaks_an_invariant_on_purpose_says_so(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        BREAK
        + """
    from kohort.testing import Invariant, VerdictError

    def test_it_allows_it(kohort):
        orders = kohort.topic("orders")
        orders.produce("a", "b", "c", "d")
        kohort.broker.allow(Invariant.FETCHED_COMMITS, kohort.group())
        commit_what_is_not_there(kohort, orders, kohort.group())

    def test_it_expects_it(kohort_factory):
        broker = kohort_factory(topics={"orders": 1})
        broker.topic("orders").produce("a", "b", "c", "d")
        commit_what_is_not_there(broker, "orders", "g")
        (violation,) = broker.violations
        assert violation.group == "g"
        with pytest.raises(VerdictError):
            broker.check()
        broker.check()
    """,
    )
    result.assert_outcomes(passed=2)


def test_a_test_that_uses_only_the_shared_broker_is_blamed_itself(pytester: pytest.Pytester) -> None:
    # Otherwise the next test that uses `kohort` would fail for it.
    result = run(
        pytester,
        BREAK
        + """
    def test_that_commits_too_much(kohort_broker):
        kohort_broker.create_topic("orders")
        commit_what_is_not_there(kohort_broker, "orders", "g")

    @pytest.fixture
    def late(kohort_broker):
        kohort_broker.create_topic("late")
        yield
        commit_what_is_not_there(kohort_broker, "late", "late")

    def test_whose_fixture_commits_too_much(late):
        pass

    def test_that_is_honest(kohort):
        kohort.topic("orders").produce("a")
    """,
    )
    result.assert_outcomes(failed=1, passed=2, errors=1)


def test_a_test_leaves_nothing_behind_on_the_shared_broker(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        BREAK
        + """
    from kohort.testing import Invariant

    def test_that_leaves_much_behind(kohort, kohort_broker):
        kohort_broker.create_topic("shared")
        kohort.broker.allow(Invariant.FETCHED_COMMITS)
        kohort.broker.lose_leader("shared", 0)
        kohort.broker.load_coordinator("g")
        kohort.broker.slow_disk(sync_ms=60_000)
        kohort.broker.fill_disk()

    def test_that_finds_all_in_order(kohort, kohort_broker):
        kohort_broker.topic("shared").produce("a")
        kohort_broker.move_coordinator("g")

    def test_that_is_accused(kohort):
        orders = kohort.topic("orders")
        commit_what_is_not_there(kohort, orders, kohort.group())
    """,
    )
    result.assert_outcomes(failed=1, passed=2)


def test_no_name_of_a_test_begins_as_those_of_another_one(pytester: pytest.Pytester) -> None:
    # The client of the second test would count as one that the first test did not close.
    result = run(
        pytester,
        BREAK
        + """
    class TestOne:
        def test_it(self, kohort):
            assert "1" in kohort.prefix.split("-")

    @pytest.mark.parametrize("number", [1])
    def test_it(kohort, number):
        orders = kohort.topic("orders")
        commit_what_is_not_there(kohort, orders, kohort.group())
    """,
    )
    result.assert_outcomes(failed=1, passed=1)


def test_a_topic_can_be_asked_for_in_several_threads_at_once(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from concurrent.futures import ThreadPoolExecutor

        def test_one_topic(kohort):
            with ThreadPoolExecutor(8) as threads:
                topics = list(threads.map(lambda _: kohort.topic("orders", 2), range(16)))
            assert len(set(topics)) == 1 and topics[0].partitions == 2
        """,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("ini", "text", "expected"),
    [
        ("kohort_config = group.max.size", "", "kohort_config has the line 'group.max.size', which is not NAME=VALUE."),
        ("kohort_partitions = none", "", "kohort_partitions is 'none', but must be a number from 1 on."),
        ("kohort_config = group.max.sise=7", "", "*group.max.sise*group.max.size*"),
        ("", "@pytest.mark.kohort(partition=2)", "*takes only the keywords brokers, config, partitions, protocol."),
    ],
)
def test_wrong_options_are_a_sentence(pytester: pytest.Pytester, ini: str, text: str, expected: str) -> None:
    result = run(pytester, f"import pytest\n\n{text}\ndef test_it(kohort):\n    kohort.topic()\n", ini=ini)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{expected}*"])


def test_the_plugin_loads_nothing_for_tests_that_do_not_use_it(pytester: pytest.Pytester) -> None:
    program = "import sys, kohort.testing.plugin; print(sorted(m for m in sys.modules if m.startswith('kohort.')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == "['kohort.on_demand', 'kohort.testing', 'kohort.testing.plugin']"


def test_pytest_imports_the_library_as_any_other_program_does(pytester: pytest.Pytester) -> None:
    # For an installed distribution with a plugin, pytest marks all of its packages like this module does.
    pytester.makepyfile(marks="import pytest\n\npytest.register_assert_rewrite('kohort')\n")
    result = run(
        pytester,
        """
        import sys

        def test_it(kohort):
            loader = type(sys.modules["kohort.testing.broker"].__loader__)
            assert loader.__name__ == "SourceFileLoader"
        """,
        "-p",
        "marks",
    )
    result.assert_outcomes(passed=1)
