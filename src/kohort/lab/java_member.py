"""Member that uses the Java client, compiled once per source version and stored beside Kafka's jars in the cache."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from kohort.lab.apache_kafka import Unavailable, cache_directory, jars
from kohort.lab.class_archive import archive_classes

_SOURCE = Path(__file__).with_name("clients") / "java" / "LabMember.java"
# The jars that a consumer needs; it starts sooner with fewer of them.
_NEEDED = (
    "kafka-clients-",
    "slf4j-api-",
    "slf4j-simple-",
    "jackson-core-",
    "jackson-databind-",
    "jackson-annotations-",
)
_OPTIONS = (
    *("-Xmx64m", "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


@functools.cache
def java_command() -> tuple[str, ...]:
    """Return the command line without the parameters; compile the member on first use.

    Raises Unavailable without a JDK or the jars.
    """
    needed = [str(jar) for jar in sorted(jars().glob("*.jar")) if jar.name.startswith(_NEEDED)]
    content = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    done = cache_directory() / f"lab-member-{content}"
    archive = done / "classes.jsa"
    java = ("java", *_OPTIONS, "-cp", ":".join([str(done / "member.jar"), *needed]), "LabMember")
    with (cache_directory() / "lab-member.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_dir():
            _compile(needed, done)
            archive_classes(java, archive)
    return (java[0], f"-XX:SharedArchiveFile={archive}", *java[1:]) if archive.exists() else java


def _compile(needed: list[str], done: Path) -> None:
    if shutil.which("javac") is None or shutil.which("jar") is None:
        raise Unavailable("The Java client needs a JDK 17 (no javac on the PATH).")
    with tempfile.TemporaryDirectory(dir=done.parent) as work:
        classes, made = Path(work, "classes"), Path(work, "made")
        made.mkdir()
        _run("javac", "-cp", ":".join(needed), "-d", str(classes), str(_SOURCE))
        _run("jar", "--create", "--file", str(made / "member.jar"), "-C", str(classes), ".")
        # The rename makes the directory appear only when it is complete.
        made.rename(done)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}")
