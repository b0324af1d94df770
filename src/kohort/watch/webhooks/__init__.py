"""Webhooks: events of groups as JSON to a URL, each with its begin and its end.

`events` and `alarms` decide what is reported, and `payload` how; they are pure. `Delivery` sends
documents from its own thread, and `sending` runs it all. docs/watch-webhooks.md is for users.
"""

from kohort.watch.webhooks.delivery import Delivery, Limits
from kohort.watch.webhooks.events import EVENTS, usual_events
from kohort.watch.webhooks.settings import WebhookSettings, webhook_settings
from kohort.watch.webhooks.watching import report_events, sending

__all__ = [
    "EVENTS",
    "Delivery",
    "Limits",
    "WebhookSettings",
    "report_events",
    "sending",
    "usual_events",
    "webhook_settings",
]
