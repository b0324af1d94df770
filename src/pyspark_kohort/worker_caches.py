"""Memory management of Spark's Python workers, which are reused for many tasks."""

import gc

from pyspark import TaskContext

_settled = False


def settle() -> None:
    """Exclude what the worker has imported from garbage collection, once. Call this after all imports.

    Spark collects garbage after each task, which visits every object: with numba and Arrow, that
    takes 50 ms of CPU. Outside of a task this does nothing, because objects of the user's own
    process must not be frozen.
    """
    global _settled
    if not _settled and TaskContext.get() is not None:
        gc.freeze()
        _settled = True
