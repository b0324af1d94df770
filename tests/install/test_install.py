"""Kohort as users install it: with pip, from sdist and wheel, in a new environment of each Python of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.process import ServerProcess

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def test_the_project_names_only_pythons_that_it_is_tried_with() -> None:
    names = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert names and set(names) <= set(PYTHONS)
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def find_python(version: str) -> Path | None:
    """Return an interpreter of this version that can make virtual environments: of the PATH, or of pyenv."""
    name = f"python{version}"
    of_path = [Path(folder, name) for folder in os.get_exec_path()]
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in [*of_path, *sorted(of_pyenv.glob(f"{version}.*/bin/{name}"))]:
        # A shim of pyenv is on the PATH for versions that are not chosen, too, and fails.
        if (
            path.exists()
            and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0
        ):
            return path
    return None


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a directory that has nothing else."""

    home: Path

    @classmethod
    def create(cls, python: Path | str, home: Path) -> Environment:
        created = cls(home)
        created.run(str(python), "-m", "venv", "venv")
        return created

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command of the environment; return its standard output. A failure fails the test."""
        path = self.program(command[0])
        ran = subprocess.run(
            [path, *command[1:]], input=stdin, capture_output=True, text=True, cwd=self.home, timeout=120
        )
        assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def program(self, name: str) -> str:
        own = self.home / "venv" / "bin" / name
        return str(own) if own.exists() else name

    def install(self, *what: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), *what)


@pytest.fixture(scope="module", autouse=True)
def bare() -> Iterator[None]:
    """Hide what tells this process where the checkout is, and which broker to use."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("PYTHON", "KOHORT_", "VIRTUAL_ENV")):
                patch.delenv(name)
        yield


BUILD = """
import importlib, sys

backend = importlib.import_module(sys.argv[1])
for build in (backend.build_sdist, backend.build_wheel):
    print(build(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def distributions(bare: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Sdist and wheel, made by the backend of pyproject.toml as every front end calls it (PEP 517)."""
    environment = Environment.create(sys.executable, tmp_path_factory.mktemp("build"))
    environment.install(*PROJECT["build-system"]["requires"])
    out = environment.home / "dist"
    command = [environment.program("python"), "-c", BUILD, PROJECT["build-system"]["build-backend"], str(out)]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert built.returncode == 0, built.stderr
    sdist, wheel = built.stdout.split()
    return {"sdist": out / sdist, "wheel": out / wheel}


CLIENT = """
import asyncio, sys
import kohort

async def main():
    assert kohort.__file__.startswith(sys.prefix), kohort.__file__
    async with kohort.Consumer(
        "orders", bootstrap_servers=sys.argv[1], group_id="invoices", auto_offset_reset="earliest"
    ) as consumer:
        values = []
        while len(values) < 3:
            values += [record.value.decode() for record in await consumer.poll()]
        print(*values)

asyncio.run(main())
"""


@pytest.mark.long("makes an environment for each Python and installs into it, 10 s each")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
@pytest.mark.parametrize("version", PYTHONS)
def test_an_installation_runs_the_first_session(
    version: str, kind: str, distributions: dict[str, Path], tmp_path: Path
) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} with venv")
    environment = Environment.create(python, tmp_path)
    environment.install(str(distributions[kind]))
    environment.run("python", "-m", "pip", "check")
    assert environment.run("python", "--version").startswith(f"Python {version}.")
    assert environment.run("kohort", "--version") == f"kohort {VERSION}\n"
    assert "consume" in environment.run("kohort", "--help")

    quick = ("--set", "group.initial.rebalance.delay.ms=0")
    broker = ServerProcess(
        [environment.program("kohort"), "broker", "--memory", "--listen", "127.0.0.1:0", *quick], cwd=tmp_path
    )
    try:
        address = broker.wait_for(r"^ready (\S+)$", 30.0)[1]
        at = ("--bootstrap", address)
        environment.run("kohort", "topic", "create", "orders", "--partitions", "1", *at)
        environment.run("kohort", "produce", "orders", *at, stdin="1\n2\n3\n")
        consume = ("consume", "orders", "--group", "billing", "--from-beginning", "--max", "3")
        assert environment.run("kohort", *consume, *at) == "1\n2\n3\n"
        assert "lag 0" in environment.run("kohort", "group", "describe", "billing", *at)
        assert environment.run("python", "-c", CLIENT, address) == "1 2 3\n"
        assert broker.stop() == 0, broker.output()
    finally:
        broker.kill()
    run_fake([environment.program("kohort")], tmp_path)


def run_fake(command: list[str], directory: Path, **environment: str) -> None:
    """Run `kohort fake` by this command until its parent closes the pipe."""
    options = ["fake", "--ports", "0", "--control=127.0.0.1:0", "--ends-with-parent"]
    with subprocess.Popen(
        [*command, *options], cwd=directory, env=os.environ | environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as fake:  # fmt: skip
        assert fake.stdin is not None and fake.stdout is not None and fake.stderr is not None
        first, last = fake.stdout.readline(), fake.stdout.readline()
        fake.stdin.close()
        complaint = fake.stderr.read()
        assert first.startswith("127.0.0.1:"), complaint
        assert last.startswith("control http://127.0.0.1:"), complaint
        assert fake.wait(60.0) == 0


@pytest.mark.long("installs Kohort once more for each tool, 10 s each")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("line", ["uvx --from", "pipx run --spec"])
def test_a_wheel_runs_the_cluster_for_tests_without_an_installation(
    line: str, distributions: dict[str, Path], tmp_path: Path
) -> None:
    tool, *options = line.split()
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    env = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    env |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run_fake([tool, *options, str(distributions["wheel"]), "kohort"], tmp_path, **env)


@pytest.mark.long("installs Kohort once more for each line, 10 s each")
@pytest.mark.parametrize("line", ["uv pip install .", "uv tool install .", "pipx install ."])
def test_a_line_of_the_readme_installs_the_command(line: str, tmp_path: Path) -> None:
    assert re.search(rf"^{re.escape(line)}  ", (ROOT / "README.md").read_text(), re.MULTILINE)
    tool = line.partition(" ")[0]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    Environment.create(sys.executable, tmp_path)
    env = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin"}
    env |= {"VIRTUAL_ENV": "venv", "PIPX_MAN_DIR": "man", "PIPX_COMPLETION_DIR": "completions"}
    env = {name: str(tmp_path / folder) for name, folder in env.items()}
    ran = subprocess.run(line.split(), capture_output=True, text=True, cwd=ROOT, env=os.environ | env, timeout=100)
    assert ran.returncode == 0, ran.stderr
    command = tmp_path / ("venv/bin" if line == "uv pip install ." else "bin") / "kohort"
    assert subprocess.run([command, "--version"], capture_output=True, text=True).stdout == f"kohort {VERSION}\n"
