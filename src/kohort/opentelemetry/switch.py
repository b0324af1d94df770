"""Whether spans are made now."""

from dataclasses import dataclass

from kohort.opentelemetry.api import context

_SUPPRESSED = "suppress_instrumentation"
"""Key by which exporters keep their own requests out of the traces."""


@dataclass(slots=True)
class Switch:
    """Switch that the interceptors of one or more clients share."""

    enabled: bool = True

    @property
    def on(self) -> bool:
        """Whether spans are made in the current context."""
        return self.enabled and not context.get_value(_SUPPRESSED)
