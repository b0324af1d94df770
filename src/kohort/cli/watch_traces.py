"""Option of `kohort watch` for the receiver of traces."""

import os
from typing import Annotated

import typer

from kohort.errors import ConfigError

OtlpEndpoint = Annotated[
    str | None,
    typer.Option(
        "--otlp-endpoint",
        metavar="URL",
        help="Export each rebalance as a trace to this receiver of OTLP over HTTP, such as http://127.0.0.1:4318."
        " Default: that of OTEL_EXPORTER_OTLP_ENDPOINT, if it is set. Needs: pip install 'kohort[opentelemetry]'",
        show_default=False,
    ),
]


def traces_option(endpoint: str | None) -> str | None:
    """Return the URL for traces; None if nobody asked for them. Raises ConfigError."""
    from kohort.watch import traces_endpoint

    url = traces_endpoint(endpoint, os.environ)
    if url is not None:
        try:
            import kohort.watch.otlp  # noqa: F401
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] not in ("opentelemetry", "requests"):
                raise
            raise ConfigError("Traces need OpenTelemetry's exporter: pip install 'kohort[opentelemetry]'.") from None
    return url
