"""Spark home directory in which the Python processes of Spark find PySpark compiled.

Spark puts `python/lib/pyspark.zip` of its home first on the path of each process. That file has no
bytecode, so each process compiles PySpark before it does anything else, which takes a second of CPU.
Spark aborts a query if its process does not call back within 10 s. This directory has links to
everything in Spark's own home. In place of the file it has a folder with links to the packages as
pip installed and compiled them.
"""

import hashlib
import importlib.util
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path


def environment_directory() -> Path | None:
    """Return the directory, which is created in the user's cache at its first use.

    Returns None if Spark was not installed by pip, or if the cache cannot be written.
    """
    spark, gateway = _folder("pyspark"), _folder("py4j")
    if os.name != "posix" or not (spark / "python/lib/pyspark.zip").is_file():
        return None
    key = hashlib.sha256(f"{spark} {gateway}".encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort"
    home = cache / f"spark-{version('pyspark')}-{key}"
    try:
        if not home.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            _make(home, spark, gateway)
    except OSError:
        return None
    return home


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _make(home: Path, spark: Path, gateway: Path) -> None:
    """Create the directory atomically: several programs may create it at the same time."""
    draft = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        _link_all(spark, draft, but="python")
        if not (spark / "conf").exists():
            (draft / "conf").symlink_to(spark / "conf")  # the user may create it later
        (draft / "python/lib").mkdir(parents=True)
        _link_all(spark / "python", draft / "python", but="lib")
        _link_all(spark / "python/lib", draft / "python/lib", but="pyspark.zip")
        packages = draft / "python/lib/pyspark.zip"
        packages.mkdir()
        (packages / "pyspark").symlink_to(spark)
        (packages / "py4j").symlink_to(gateway)
        draft.rename(home)
    except OSError:
        shutil.rmtree(draft)
        if not home.is_dir():
            raise


def _link_all(source: Path, target: Path, *, but: str) -> None:
    for entry in source.iterdir():
        if entry.name != but:
            (target / entry.name).symlink_to(entry)
