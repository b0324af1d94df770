"""Topics by pattern, as the broker finds them (KIP-848)."""

from dataclasses import dataclass

from kohort.client.options import GroupOptions
from kohort.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """Subscribe to all topics whose whole names match an expression of RE2's syntax, also those to come.

    The group's coordinator resolves it, so the client needs to know of no other topics; group_protocol consumer only.
    """

    expression: str

    def checked(self, options: GroupOptions) -> str:
        """The expression, for a client with these options. Raises ConfigError."""
        if options.group_protocol != "consumer":
            raise ConfigError(
                "a SubscriptionPattern needs group_protocol consumer; with classic give a compiled re.Pattern."
            )
        if not self.expression:
            raise ConfigError("a SubscriptionPattern needs an expression.")
        return self.expression
