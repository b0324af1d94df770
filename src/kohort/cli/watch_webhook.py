"""Options of `kohort watch` for its webhook."""

from typing import TYPE_CHECKING, Annotated

import typer

from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.watch.webhooks import WebhookSettings

WEBHOOK_VARIABLE = "KOHORT_WEBHOOK"

Webhook = Annotated[
    str | None,
    typer.Option(
        "--webhook",
        metavar="URL|@FILE",
        envvar=WEBHOOK_VARIABLE,
        help="Send events as JSON to this URL, such as a channel's of Slack. @FILE names a JSON file with url,"
        " headers and secret, which keeps them out of the list of processes.",
        show_default=False,
        show_envvar=True,
    ),
]
WebhookOn = Annotated[
    str | None,
    typer.Option(
        "--webhook-on",
        metavar="EVENT[=S],...",
        help="Events to send, with their seconds, such as thrashing,dark-partition=30,lag=300."
        " Default: all but lag; docs/watch-webhooks.md lists them.",
        show_default=False,
    ),
]


def webhook_options(webhook: str | None, events: str | None) -> "WebhookSettings | None":
    """Return the settings; None without a webhook. Raises ConfigError."""
    if webhook is None:
        if events is not None:
            raise ConfigError("--webhook-on chooses what a webhook receives: name one by --webhook.")
        return None
    from kohort.watch.webhooks import webhook_settings

    return webhook_settings(webhook, events)
