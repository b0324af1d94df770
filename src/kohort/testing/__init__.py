"""The test kit: a broker for tests, with faults, control of time, and checks of what must always hold."""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.testing.broker import Broker, Cluster
    from kohort.testing.clock import ControlledClock, MemberKey, change_rate, skip_time
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
    from kohort.testing.taps import TappedBroker
else:
    __getattr__ = on_demand(
        __name__,
        {
            "broker": ("Broker", "Cluster"),
            "clock": ("ControlledClock", "MemberKey", "change_rate", "skip_time"),
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
            ),
            "taps": ("TappedBroker",),
        },
    )

__all__ = [
    "AnswerLost",
    "AnswerSent",
    "Broker",
    "Cluster",
    "ConnectionClosed",
    "ConnectionOpened",
    "ControlledClock",
    "Event",
    "GroupChanged",
    "KitActed",
    "MemberKey",
    "Observer",
    "RecordsAppended",
    "RequestReceived",
    "TappedBroker",
    "change_rate",
    "skip_time",
]
