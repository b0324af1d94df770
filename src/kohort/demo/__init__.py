"""Demonstration on real flights: broker, producer, a rebalancing group, Spark, a crash, and verified results.

`run_demo` runs it. The package also has the programs of its processes, which load on their own.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.demo.run import run_demo
else:
    __getattr__ = on_demand(
        __name__,
        {
            "run": ("run_demo",),
        },
    )

__all__ = ["run_demo"]
