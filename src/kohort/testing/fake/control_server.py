"""The paths of the endpoint, and the forms of their requests.

    GET     /methods              what can be called
    POST    /call/{method}        {"args": [...]}
    POST    /faults               {"rules": [...]}
    GET     /faults
    DELETE  /faults
    DELETE  /faults/{id}
    POST    /faults/{id}/wait     {"hits": 1, "timeout": "30s"}
    POST    /groups/wait          {"group": ..., "members": 1, "state": "Stable", "assigned": 2, "timeout": "30s"}

These are those of `kcl fake --control`, with the same answers and messages. Those under /kohort/ are in `own_paths`.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from kohort.testing.fake.calls import Calls, group_json
from kohort.testing.fake.cluster import FakeCluster
from kohort.testing.fake.fault_sets import RULE, FaultSets
from kohort.testing.fake.go_values import (
    INT,
    STRING,
    GoError,
    ListOf,
    Pointer,
    Struct,
    anonymous,
    parse_duration,
    parse_json,
    print_duration,
    quote,
)
from kohort.testing.fake.http import HttpServer, Problem, Request, Route, usage
from kohort.testing.fake.own_paths import OwnPaths
from kohort.testing.group_view import GroupView

_CALL = anonymous(Args=("args", ListOf(STRING)))
_FAULTS = anonymous(Rules=("rules", ListOf(RULE)))
_FAULT_WAIT = anonymous({"hits": 1, "timeout": "30s"}, Hits=("hits", INT), Timeout=("timeout", STRING))
_GROUP_WAIT = Struct(
    "fake.groupWait",
    {"group": STRING, "members": Pointer(INT), "state": STRING, "assigned": Pointer(INT), "timeout": STRING},
    {"timeout": "30s"},
)


def _read(form: Struct, request: Request) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = form.read(parse_json(request.body))
    except GoError as error:
        raise usage(str(error)) from None
    return found


def _timeout(text: str) -> int:
    try:
        return parse_duration(text)
    except GoError as error:
        raise usage(f"timeout {quote(text)}: {error}") from None


class ControlServer:
    """The endpoint of one cluster. It is served from `start` to `stop`."""

    def __init__(self, cluster: FakeCluster, host: str, port: int) -> None:
        """Listen. Port 0 takes a free one. Raises KohortError if the address cannot be used."""
        self._calls = Calls(cluster)
        self._faults = FaultSets(cluster.add_faults)
        faults = self._faults
        self.routes = (
            Route("GET", "/methods", lambda request: {"methods": self._calls.listed()}),
            Route("POST", "/call/{method}", self._call),
            Route("POST", "/faults", lambda request: faults.add(_read(_FAULTS, request)["rules"])),
            Route("GET", "/faults", lambda request: faults.listed()),
            Route("DELETE", "/faults", lambda request: faults.remove_all()),
            Route("DELETE", "/faults/{id}", lambda request: faults.remove(request.values[0])),
            Route("POST", "/faults/{id}/wait", self._wait_for_hits),
            Route("POST", "/groups/wait", self._wait_for_group),
            *OwnPaths(cluster, faults).routes,
        )
        """All that the endpoint serves."""
        self._http = HttpServer(host, port, self.routes)

    @property
    def address(self) -> str:
        """The address, as HOST:PORT."""
        return self._http.address

    def start(self) -> None:
        """Begin to serve."""
        self._http.start()

    def stop(self) -> None:
        """End all requests, also those that wait."""
        self._http.stop()

    def _call(self, request: Request) -> Any:
        name = request.values[0]
        self._calls.find(name)  # before the body, as in kcl
        return {"result": self._calls.call(name, _read(_CALL, request)["args"], request)}

    def _wait_for_hits(self, request: Request) -> Any:
        rules = self._faults.find(request.values[0])
        wanted = _read(_FAULT_WAIT, request)
        return self._faults.wait(rules, wanted["hits"], _timeout(wanted["timeout"]), request)

    def _wait_for_group(self, request: Request) -> Any:
        wanted = _read(_GROUP_WAIT, request)
        group_id = wanted["group"]
        if not group_id:
            raise usage("no group given")
        if wanted["members"] is None and not wanted["state"] and wanted["assigned"] is None:
            raise usage("give at least one of members, state, assigned")
        timeout = _timeout(wanted["timeout"])

        def look() -> GroupView | None:
            view = self._calls.group(group_id)
            return view if view is not None and _matches(view, wanted) else None

        view = request.wait(look, timeout / 1e9)
        if view is None:
            shape = _shape(self._calls.group(group_id))
            waited = f"timed out after {print_duration(timeout)} waiting for group {group_id}: {shape}"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, waited)
        return {"group": group_json(view)}


def _matches(view: GroupView, wanted: Mapping[str, Any]) -> bool:
    return (
        wanted["members"] in (None, len(view.members))
        and wanted["state"].lower() in ("", view.state.lower())
        and wanted["assigned"] in (None, view.assigned)
    )


def _shape(view: GroupView | None) -> str:
    if view is None:
        return "no such group"
    return f"{view.state}, {len(view.members)} member(s), {view.assigned} assigned"
