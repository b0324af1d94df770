"""docs/fake.md: its table of options is that of the command, its paths are served, and its programs run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from kohort.cli.app import app
from kohort.testing.fake import ControlServer, FakeCluster, FakeOptions
from tests.interop.kafka import Unavailable, jars
from tests.interop.mixed.kinds import franz_go, kafkajs

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "fake.md").read_text()
JUNIT = "1.13.4"
PATIENCE_S = 300.0


def programs() -> dict[str, str]:
    """The files of the page, by the name in their first line."""
    blocks = re.findall(r"^```\w+\n// (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return dict(blocks)


def run(command: list[str], directory: Path, **environment: str) -> str:
    """Run a program that finds the command `kohort`; a failure fails the test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command, cwd=directory, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_the_options_are_those_of_the_command() -> None:
    command = get_command(app).commands["fake"]  # type: ignore[attr-defined]
    has = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    short = {"-c": "--broker-config", "-d": "--data-dir", "-l": "--log-level"}
    cells = re.findall(r"^\| (`-.*?) \|", PAGE, re.MULTILINE)
    named = {short.get(word, word) for cell in cells for word in re.findall(r"`(--?[a-z-]+)", cell)}
    assert named == has - {"--help"}


def test_the_paths_are_those_that_are_served() -> None:
    server = ControlServer(FakeCluster(FakeOptions(ports=[0])), "127.0.0.1", 0)
    try:
        served = {(route.method, route.path) for route in server.routes}
    finally:
        server.stop()
    documented = set(re.findall(r"`(GET|POST|DELETE) (/[^`]*)`", PAGE))
    assert documented == served


def test_the_extension_for_java_is_short() -> None:
    lines = programs()["KohortExtension.java"].partition("public class")[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


@pytest.mark.long("compiles Java and starts a JVM, 10 s on an idle machine")
@pytest.mark.timeout(PATIENCE_S)
def test_the_program_for_java_runs(tmp_path: Path) -> None:
    try:
        classes = [str(jar) for jar in jars().glob("*.jar")]
    except Unavailable as why:
        pytest.skip(str(why))
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK (no javac on the PATH)")
    repository = Path.home() / ".m2" / "repository" / "org" / "junit" / "platform" / "junit-platform-console-standalone"
    junit = repository / JUNIT / f"junit-platform-console-standalone-{JUNIT}.jar"
    if not junit.exists():
        pytest.skip(f"the local Maven repository has no junit-platform-console-standalone {JUNIT}")
    for name, text in programs().items():
        if name.endswith(".java"):
            (tmp_path / name).write_text(text)
    path = os.pathsep.join([str(junit), *classes, str(tmp_path)])
    run(["javac", "-cp", path, *(file.name for file in tmp_path.glob("*.java"))], tmp_path)
    arguments = ["execute", "--scan-classpath", str(tmp_path), "--disable-banner", "--fail-if-no-tests"]
    quick = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    main = "org.junit.platform.console.ConsoleLauncher"
    assert "1 tests successful" in run(["java", *quick, "-cp", path, main, *arguments], tmp_path)


@pytest.mark.long("compiles a Go program, 10 s on an idle machine")
@pytest.mark.timeout(PATIENCE_S)
def test_the_program_for_go_runs(tmp_path: Path) -> None:
    try:
        module = franz_go()
    except Unavailable as why:
        pytest.skip(str(why))
    (tmp_path / "kohort_test.go").write_text(programs()["kohort_test.go"])
    for name in ("go.mod", "go.sum"):
        shutil.copy(module / name, tmp_path)
    told = run(["go", "test", "-mod=mod", "-count=1", "-v", "./..."], tmp_path)
    assert "--- PASS: TestARecordIsReadAfterItsLeaderMoved" in told
    assert run(["gofmt", "-l", "."], tmp_path) == ""


@pytest.mark.timeout(PATIENCE_S)
def test_the_program_for_node_runs(tmp_path: Path) -> None:
    try:
        packages = kafkajs() / "node_modules"
    except Unavailable as why:
        pytest.skip(str(why))
    (tmp_path / "kohort.test.js").write_text(programs()["kohort.test.js"])
    (tmp_path / "node_modules").symlink_to(packages)
    told = run(["node", "--test", str(tmp_path)], tmp_path, KAFKAJS_NO_PARTITIONER_WARNING="1")
    assert "# pass 1" in told and "# fail 0" in told
