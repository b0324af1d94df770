"""A Python worker of Spark, which lives from task to task."""

import gc

from pyspark import TaskContext

_settled = False


def settle() -> None:
    """Take what the worker has imported out of the garbage collector's sight, once; all imports come before it.

    Spark collects garbage after each task, which looks at every object there is: with numba and Arrow 50 ms of CPU.
    Outside of a task nothing happens: what a user's own process holds is not ours to freeze.
    """
    global _settled
    if not _settled and TaskContext.get() is not None:
        gc.freeze()
        _settled = True
