"""Member programs of the experiments: one process program per client library, with one shared application.

The rest of the laboratory starts them as processes, and only asks which there are.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.lab.clients.member import CLIENT_MODULES
else:
    __getattr__ = on_demand(
        __name__,
        {
            "member": ("CLIENT_MODULES",),
        },
    )

__all__ = ["CLIENT_MODULES"]
