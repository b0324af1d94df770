"""The page of `kohort watch`, `kohort broker --web` and `kohort cluster --web`: its options, and how it is served."""

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kohort import interruption
from kohort.cli.client_options import client_options
from kohort.cli.running import check_reachable, of_command
from kohort.cli.watch_webhook import WEBHOOK_VARIABLE, webhook_options
from kohort.errors import ConfigError
from kohort.model import Millis

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from kohort import gateway
    from kohort.broker import Beside, OwnMetrics
    from kohort.broker.config import WatchLogin
    from kohort.watch.metrics import MetricsOptions
    from kohort.watch.web import ServingOptions, WebOptions
    from kohort.watch.webhooks import WebhookSettings

DEFAULT_PAGE = "127.0.0.1:9464"
TOKEN_VARIABLE = "KOHORT_WATCH_TOKEN"
_HISTORY_MS: Millis = 3_600_000
_MOST_TOKEN_BYTES = 4_096

TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"File with the token that requests for the page need. Default: the variable {TOKEN_VARIABLE}.",
        show_default=False,
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="Certificate chain of the page, for https.", show_default=False),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="Private key of the page. Default: in --tls-cert.", show_default=False),
]


MetricsNames = Annotated[
    str,
    typer.Option(
        metavar="EXPORTER",
        help="Exporter whose names /metrics gives to lags and offsets: kafka-lag-exporter, kafka-exporter or kminion.",
    ),
]
MetricsInclude = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Groups in /metrics, by their whole ID. Default: all.", show_default=False),
]
MetricsExclude = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Groups to leave out of /metrics, by their whole ID.", show_default=False),
]
MetricsPartitions = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Number of partitions of all groups together above which /metrics has no series of single partitions.",
    ),
]


def metrics_options(
    cluster: str, names: str, include: str | None, exclude: str | None, most_partitions: int
) -> "MetricsOptions":
    """Return what /metrics shows. Raises ConfigError."""
    from kohort.watch.metrics import MetricNames, MetricsOptions

    try:
        found = MetricNames(names)
    except ValueError:
        known = ", ".join(each.value for each in MetricNames)
        raise ConfigError(f"--metrics-names takes one of {known}, not {names!r}.") from None
    return MetricsOptions(
        cluster,
        found,
        _pattern("--metrics-include", include),
        _pattern("--metrics-exclude", exclude),
        most_partitions,
    )


def _pattern(option: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as problem:
        raise ConfigError(f"{option} takes a regular expression, not {text!r}: {problem}.") from None


def page_options(
    listen: str,
    *,
    option: str = "--listen",
    token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> "WebOptions":
    """Return where and how the page is served. Raises ConfigError."""
    try:
        from kohort.watch.web import WebOptions
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("starlette", "uvicorn", "h11", "anyio"):
            raise
        raise ConfigError("The page needs starlette and uvicorn: pip install 'kohort[web]'.") from None
    from kohort.broker.config import split_address

    found = split_address(listen.strip())
    if found is None:
        raise ConfigError(f"{option} takes HOST:PORT, such as {DEFAULT_PAGE} or [::1]:9464, not {listen!r}.")
    host, port = found
    options = WebOptions(host=host, port=int(port), token=read_token(token_file), certificate=tls_cert, key=tls_key)
    options.check()
    return options


def read_token(path: Path | None) -> str | None:
    """Return the token of the file, else of the variable. Raises ConfigError."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with path.open("rb") as file:
            token = file.read(_MOST_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not ASCII"
        raise ConfigError(f"--token-file {path} cannot be read: {why}.") from None
    if not token or len(token) > _MOST_TOKEN_BYTES:
        raise ConfigError(f"--token-file {path} must contain one token, in one line.")
    return token


def serve_cluster(
    servers: str,
    web: "WebOptions",
    metrics: "MetricsOptions",
    *,
    history_ms: Millis,
    cluster_name: str | None,
    webhook: "WebhookSettings | None" = None,
    traces: str | None = None,
) -> int:
    """Serve the page of a cluster until SIGTERM or SIGINT; return the exit code."""
    import uvloop

    from kohort.broker import log_to_stderr
    from kohort.client import AdminOptions, ConsumerOptions
    from kohort.watch.web import ClusterName, ServingOptions

    given = client_options(AdminOptions) | client_options(ConsumerOptions)
    check_reachable(servers)
    log_to_stderr()
    client = of_command(servers) | {"client_id": "kohort-watch"} | given
    name = ClusterName(servers, cluster_name)
    options = ServingOptions(web, client, name, history_ms, metrics, webhook=webhook, traces=traces)
    return uvloop.run(_serve(options))


async def _serve(options: "ServingOptions") -> int:
    import asyncio

    from kohort.broker import announce_ready, stop_on_signals
    from kohort.watch.web import serve_until, serving

    stop = asyncio.Event()
    stop_on_signals(stop)
    async with serving(options) as server:
        announce_ready(server.url)
        await serve_until(stop, server)
        end_soon()
    return 0


def end_soon() -> None:
    """End the process a second after a signal at the latest, also if a broker or a browser does not answer."""
    limit = threading.Timer(interruption.ORDERLY_S, os._exit, (0,))
    limit.daemon = True
    limit.start()


PageAddress = Annotated[
    str | None,
    typer.Option(
        "--web",
        metavar="HOST:PORT",
        help="Serve the page of kohort watch from inside, at this address. An address that other machines can"
        f" reach needs a token in the variable {TOKEN_VARIABLE}. Port 0 takes a free one. For TLS, a longer history"
        " or other names of metrics, run kohort watch instead.",
        show_default=False,
    ),
]


def new_login() -> "WatchLogin":
    """Return a login that lives as long as this process."""
    import secrets

    from kohort.broker.config import WatchLogin
    from kohort.security import Secret

    return WatchLogin(f"kohort-watch-{secrets.token_hex(16)}", Secret(secrets.token_hex(32)))


def page_inside(address: str | None, webhook: str | None, events: str | None) -> "Inside | None":
    """Return the page of `--web`, with the webhook that it feeds; None without `--web`. Raises ConfigError."""
    if address is None:
        _check_no_webhook(webhook, events)
        return None
    hook = webhook_options(webhook, events)
    login = new_login()
    return Inside(login, page_beside(page_options(address, option="--web"), login, hook))


def _check_no_webhook(webhook: str | None, events: str | None) -> None:
    for option, given in (("--webhook", webhook), ("--webhook-on", events)):
        # The variable may be meant for a `kohort watch` of the same environment.
        if given is not None and given != os.environ.get(WEBHOOK_VARIABLE):
            raise ConfigError(f"{option} needs the watcher: add --web, such as --web {DEFAULT_PAGE}.")


def page_in_gateway(
    address: str | None, upstream: str, webhook: str | None, events: str | None
) -> "gateway.Beside | None":
    """Return the page of `kohort gateway --web`; None without `--web`. Raises ConfigError.

    Its client connects to the cluster with the options of the command, as the gateway itself does.
    """
    if address is None:
        _check_no_webhook(webhook, events)
        return None
    hook = webhook_options(webhook, events)
    web = page_options(address, option="--web")  # reports missing packages; the imports below need them

    from kohort.client import AdminOptions, ConsumerOptions
    from kohort.watch.metrics import MetricsOptions
    from kohort.watch.web import ClusterName, ServingOptions, page_thread

    given = client_options(AdminOptions) | client_options(ConsumerOptions)
    client = {"bootstrap_servers": upstream, "client_id": "kohort-watch"} | given

    def beside(own: "OwnMetrics") -> "AbstractAsyncContextManager[None]":
        options = ServingOptions(web, client, ClusterName(upstream), _HISTORY_MS, MetricsOptions(upstream), own, hook)
        return page_thread(options, _announce)

    return beside


class Inside(NamedTuple):
    """A page inside a broker or a cluster."""

    login: "WatchLogin"
    beside: "Beside"


def page_beside(web: "WebOptions", login: "WatchLogin", webhook: "WebhookSettings | None" = None) -> "Beside":
    """Return what serves the page beside a broker or a cluster."""
    from kohort.watch.metrics import MetricsOptions
    from kohort.watch.web import ClusterName, ServingOptions, page_thread

    def beside(bootstrap: str, private: str, own: "OwnMetrics") -> "AbstractAsyncContextManager[None]":
        client = {"bootstrap_servers": private, "client_id": "kohort-watch"} | login.client_options
        metrics = MetricsOptions(bootstrap)
        options = ServingOptions(web, client, ClusterName(bootstrap), _HISTORY_MS, metrics, own, webhook)
        return page_thread(options, _announce)

    return beside


def _announce(url: str) -> None:
    from kohort.broker import announce_ready

    announce_ready(url)
