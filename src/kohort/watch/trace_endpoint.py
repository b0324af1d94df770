"""The receiver of traces, as the user's options and OpenTelemetry's environment variables name it. Pure."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from kohort.errors import ConfigError

_PATH = "/v1/traces"


def traces_endpoint(option: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the URL to which traces are sent; None if nobody asked for it.

    `option` is a base URL, as OTEL_EXPORTER_OTLP_ENDPOINT is. Without it, the environment decides.
    Raises ConfigError.
    """

    def given(name: str) -> str:
        return environment.get(name, "").strip()

    protocol = given("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or given("OTEL_EXPORTER_OTLP_PROTOCOL")
    off = given("OTEL_SDK_DISABLED").lower() == "true" or given("OTEL_TRACES_EXPORTER") == "none"
    if option is not None:
        url = _with_path(option)
    elif off:
        return None
    elif exact := given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        url = exact
    elif base := given("OTEL_EXPORTER_OTLP_ENDPOINT"):
        url = _with_path(base)
    else:
        return None
    if option is None and protocol not in ("", "http/protobuf"):
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}, but rebalances are exported by http/protobuf only:"
            " set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or"
            " OTEL_TRACES_EXPORTER=none."
        )
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ConfigError("The OTLP endpoint must be a URL such as http://127.0.0.1:4318.")
    return url


def _with_path(base: str) -> str:
    base = base.rstrip("/")
    return base if base.endswith(_PATH) else base + _PATH
