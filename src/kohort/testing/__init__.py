"""The test kit: a broker for tests, with faults, control of time, and checks of what must always hold."""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.testing.events import (
        AnswerLost,
        AnswerSent,
        ConnectionClosed,
        ConnectionOpened,
        Event,
        GroupChanged,
        KitActed,
        Observer,
        RecordsAppended,
        RequestReceived,
    )
else:
    __getattr__ = on_demand(
        __name__,
        {
            "events": (
                "AnswerLost",
                "AnswerSent",
                "ConnectionClosed",
                "ConnectionOpened",
                "Event",
                "GroupChanged",
                "KitActed",
                "Observer",
                "RecordsAppended",
                "RequestReceived",
            )
        },
    )

__all__ = [
    "AnswerLost",
    "AnswerSent",
    "ConnectionClosed",
    "ConnectionOpened",
    "Event",
    "GroupChanged",
    "KitActed",
    "Observer",
    "RecordsAppended",
    "RequestReceived",
]
