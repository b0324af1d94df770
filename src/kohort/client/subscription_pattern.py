"""Topic patterns that the broker evaluates (KIP-848)."""

from dataclasses import dataclass

from kohort.client.options import GroupOptions
from kohort.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """Subscription to all topics whose whole names match an RE2 expression, including topics created later.

    The group's coordinator evaluates it, so the client needs no metadata of other topics. Requires
    group_protocol consumer.
    """

    expression: str

    def checked(self, options: GroupOptions) -> str:
        """Return the expression if a client with these options can use it. Raises ConfigError."""
        if options.group_protocol != "consumer":
            raise ConfigError(
                "a SubscriptionPattern needs group_protocol consumer; with classic give a compiled re.Pattern."
            )
        if not self.expression:
            raise ConfigError("a SubscriptionPattern needs an expression.")
        return self.expression
