"""What strangers may send, and what they may not learn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme

from kohort.errors import ConfigError
from kohort.model import TopicPartition
from kohort.watch.web import WebOptions, feed, server
from kohort.watch.web.documents import as_json
from tests.watch.web.site import TOKEN, WITHIN_S, Site, generation, now, read_answer, site

COOKIE = "kohort_watch_"
SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src"
    " 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "\x00\x1b[31m\r\nevent: problem\r\ndata: {}\r\n\r\n",
    "../../etc/passwd",
    "%2F%2e%2e%00",
    "\ud800",
    "x" * 65_536,
]


# -- what a cluster contains


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_names_of_strangers_are_only_data(text: str) -> None:
    async with site() as here, here.events() as events:
        await events.next("hello")
        here.apply(generation(text, now(), 1, topic=text, **{text: (0,)}))
        answer = await here.get("/api/groups")
        assert answer.headers["content-type"] == "application/json"
        assert answer.body.isascii()
        assert [group["group"] for group in answer.value["groups"]] == [text]
        assert (await events.next("rebalance"))[1]["group"] == text
        assert [group["group"] for group in (await events.next("groups"))[1]["changed"]] == [text]


async def test_names_do_not_reach_the_page() -> None:
    async with site() as here:
        here.apply(generation("<b>", now(), 1, a=(0,)))
        plain = await here.get("/")
        assert (await here.get("/groups/%3Cb%3E")).body == plain.body
        assert (await here.get("/groups/%3Cscript%3E?x=%3Cscript%3E")).body == plain.body
        answer = await here.get("/api/groups/%3Cscript%3E")
        assert b"script" not in answer.body


# -- paths, methods and sizes


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2Fserver.py",
        "/static/%2e%2e/server.py",
        "/static/..%5cserver.py",
        "/static/%2Fetc%2Fpasswd",
        "/static//etc/passwd",
        "/static/server.py",
        "/static/",
        "/static",
        "/static/index.html%00.js",
        "/static/" + "a/" * 1_000,
    ],
)
async def test_only_the_files_of_the_page_can_be_read(path: str) -> None:
    async with site() as here:
        answer = await here.get(path)
        assert answer.status == 404
        assert answer.error.endswith(".")


async def test_a_file_of_the_page_has_its_type() -> None:
    async with site() as here:
        answer = await here.get("/static/app.js")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


@pytest.mark.parametrize("path", ["/", "/api/groups", "/api/none", "/static/none", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
async def test_every_answer_is_safe_to_show(path: str, method: str) -> None:
    async with site() as here:
        answer = await here.get(path, method, Origin="https://other.example.com")
        assert {name: answer.headers[name] for name in SAFE} == SAFE
        assert not [name for name in answer.headers if name.startswith("access-control-") or name == "server"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"])
async def test_nothing_can_be_changed(method: str) -> None:
    async with site() as here:
        answer = await here.get("/api/groups", method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert answer.error


async def test_a_head_and_an_options_request_have_no_body() -> None:
    async with site() as here:
        for path in ("/", "/api/groups", "/events"):
            head = await here.get(path, "HEAD")
            assert (head.status, head.body) == (200, b"")
        options = await here.get("/", "OPTIONS")
        assert (options.status, options.headers["allow"]) == (204, "GET, HEAD")


@pytest.mark.parametrize("header", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_request_with_a_body_is_refused(header: str) -> None:
    async with site() as here:
        answer = await here.raw(f"GET / HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with site() as here:
        answer = await here.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * server._MOST_HEADER_BYTES)
        assert answer.status == 400


async def test_bytes_that_are_no_request_end_the_connection_only() -> None:
    async with site() as here:
        assert (await here.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n")).status == 400
        assert (await here.get("/healthz")).status == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nGET ",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n\r\n",
    ],
    ids=range(7),
)
async def test_no_request_hides_in_the_body_of_another(request_: bytes) -> None:
    # A proxy that understands a request otherwise would take the answer to the second for its own client's.
    async with site() as here:
        reader, writer = await here.connect()
        writer.write(request_ + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(WITHIN_S):
            answers = await reader.read()
        writer.close()
        assert answers.split()[1] in (b"400", b"413", b"501")
        assert answers.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("&".join(f"a{number}=1" for number in range(20_000)), 400),
        ("group=" + "x" * 100_000, 200),
        ("group=%ff%fe&group=b", 200),
        ("%00=%00&&&===", 200),
    ],
    ids=range(4),
)
async def test_queries_of_any_size_are_read_or_refused(query: str, status: int) -> None:
    async with site() as here:
        assert (await here.get(f"/events?{query}", "HEAD")).status == status
        assert (await here.get("/healthz")).status == 200


@pytest.mark.parametrize("number", ["NaN", "-1", "1e9", "9" * 17, "0x1", "\u0661", "Infinity", "--1", "1_000"])
async def test_a_number_that_is_none_is_refused(number: str) -> None:
    async with site() as here:
        here.apply(generation("g", now(), 1, a=(0,)))
        answer = await here.get(f"/api/groups/g/timeline?from={quote(number)}")
        assert (answer.status, answer.error) == (400, "from must be a number that is not negative.")
        assert (await here.get(f"/api/groups/g/rebalances/{quote(number, safe='')}")).status in (400, 404)


def test_numbers_that_json_does_not_have_are_unknown() -> None:
    # Browsers refuse a document with NaN as a whole, so one client could hide all groups.
    value = {"a": [float("nan"), 1.5, {"b": float("-inf")}], "c": (float("inf"), "NaN")}
    assert json.loads(as_json(value)) == {"a": [None, 1.5, {"b": None}], "c": [None, "NaN"]}


# -- hosts and sites


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:9464", "[::1]:80", "LocalHost", "127.9.9.9"])
async def test_this_machine_is_served(host: str) -> None:
    async with site() as here:
        assert (await here.raw(f"GET /api/groups HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "localhost@example.com",
        "",
        "[::1",
        "a:b:c",
    ],
)
async def test_a_name_that_strangers_made_resolve_here_is_refused(host: str) -> None:
    # DNS rebinding: a page of evil.example.com would be of the same origin, and could read everything.
    async with site() as here:
        for path in ("/", "/api/groups", "/events", "/static/app.js"):
            answer = await here.raw(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert answer.status == 400


async def test_a_page_of_another_site_can_start_no_request() -> None:
    async with site() as here:
        for relation in ("cross-site", "same-site"):
            answer = await here.get("/events", Sec_Fetch_Site=relation, Sec_Fetch_Mode="cors")
            assert answer.status == 403
        assert (await here.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")).status == 200
        assert (await here.get("/api/groups", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.com"])
def test_without_a_token_no_other_machine_is_served(host: str) -> None:
    with pytest.raises(ConfigError, match="set a token"):
        WebOptions(host=host).check()
    WebOptions(host=host, token=TOKEN).check()


# -- the token


@pytest.mark.parametrize("path", ["/api/groups", "/api/groups/g", "/events", "/metrics"])
async def test_data_needs_the_token(path: str) -> None:
    async with site(TOKEN) as here:
        here.apply(generation("g", now(), 1, a=(0,)))
        wrong = {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer"}, {"Authorization": f"Basic {TOKEN}"}
        for headers in ({}, *wrong, {"Cookie": f"{COOKIE}{here.port}={TOKEN}"}, {"Cookie": f"{COOKIE}{here.port}="}):
            answer = await here.get(path, **headers)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in answer.error
        answer = await here.get(f"{path}?token={quote(TOKEN)}x")
        assert answer.status == 401


@pytest.mark.parametrize(
    "target",
    [
        "/%61pi/groups", "//api/groups", "/./api/groups", "/static/../api/groups", "/API/groups", "/api//groups",
        "http://localhost/api/groups", "/x/../events", "/metrics/", "/;/metrics", "/api%2fgroups", "/\\api/groups",
    ],
)  # fmt: skip
async def test_no_other_spelling_of_a_path_does_without_the_token(target: str) -> None:
    async with site(TOKEN) as here:
        here.apply(generation("secret-group", now(), 1, a=(0,)))
        answer = await here.get(target)
        assert answer.status in (400, 401, 404)
        assert b"secret-group" not in answer.body


async def test_the_bearer_of_the_token_is_served_under_any_name() -> None:
    async with site(TOKEN) as here:
        request = f"GET /api/groups HTTP/1.1\r\nHost: watch.example.com\r\nAuthorization: bearer {TOKEN}\r\n\r\n"
        assert (await here.raw(request.encode())).status == 200


async def test_a_token_in_the_address_becomes_a_cookie() -> None:
    async with site(TOKEN) as here:
        answer = await here.get(f"/groups/a%2Fb?sort=lag&token={quote(TOKEN)}&from=1")
        assert (answer.status, answer.headers["location"]) == (303, "/groups/a%2Fb?sort=lag&from=1")
        name_and_value, *attributes = answer.headers["set-cookie"].split("; ")
        assert TOKEN not in answer.headers["set-cookie"]
        assert {each.lower() for each in attributes} == {"httponly", "path=/", "samesite=strict"}
        assert (await here.get("/api/groups", Cookie=f"other=1; {name_and_value}")).status == 200
        assert (await here.get("/api/groups", Cookie=name_and_value[:-1])).status == 401


@pytest.mark.parametrize("path", ["//evil.example.com/", "/\\evil.example.com", "///evil.example.com/%2F.."])
async def test_the_redirect_never_leads_to_another_host(path: str) -> None:
    async with site(TOKEN) as here:
        location = (await here.get(f"{path}?token={quote(TOKEN)}")).headers["location"]
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


async def test_the_page_and_the_health_need_no_token_and_tell_nothing() -> None:
    async with site(TOKEN) as here:
        here.apply(generation("secret-group", now(), 1, a=(0,)))
        for path in ("/", "/groups/secret-group", "/static/app.js", "/healthz"):
            answer = await here.get(path)
            assert answer.status == 200
            assert b"secret-group" not in answer.body


async def test_no_log_has_a_token(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    async with site(TOKEN) as here:
        await here.get(f"/?token={quote(TOKEN)}")
        await here.get(f"/api/groups?token={quote(TOKEN)}x")
        await here.get("/api/groups", Authorization=f"Bearer {TOKEN}")
        await here.raw(f"GET /?token={quote(TOKEN)} NONSENSE\r\n\r\n".encode())
    written = caplog.text + "".join(capfd.readouterr())
    assert TOKEN not in written
    assert quote(TOKEN) not in written
    assert TOKEN not in repr(WebOptions(token=TOKEN))


@pytest.mark.parametrize("token", ["short", "a" * 15, "ü" * 16])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="at least 16 characters") as refused:
        WebOptions(token=token).check()
    assert token not in str(refused.value)


async def test_with_a_certificate_the_page_is_encrypted_and_so_is_its_cookie(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with site(TOKEN, certificate=tmp_path / "both.pem") as here:
        assert here.server.url.startswith("https://127.0.0.1:")
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port, ssl=context)
        writer.write(f"GET /?token={quote(TOKEN)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(WITHIN_S):
            answer = await read_answer(reader)
        writer.close()
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "Secure" in answer.headers["set-cookie"]


# -- clients that are slow, silent or many


async def test_a_page_that_does_not_read_is_closed_with_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING_BYTES", 100_000)
    async with site() as here:
        here.apply(generation("g", now(), 1, a=tuple(range(2_000))))
        reader, writer = await here.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /events?group=g HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(WITHIN_S):
            while "does not read" not in caplog.text:
                for number in range(20):
                    here.live.problem(f"Problem {len(here.live.problems)} {number}: " + "x" * 50_000, now())
                await here.get("/healthz")
            # The connection itself is gone, with all that waited in it.
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            with contextlib.suppress(ConnectionError):
                await reader.read()
        writer.close()
        await _no_pages(here)
        assert (await here.get("/healthz")).status == 200


async def test_the_number_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_PAGES", 2)
    async with site() as here:
        async with here.events(), here.events():
            answer = await here.get("/events")
            assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            assert "Too many pages" in answer.error
        await _no_pages(here)
        async with here.events() as events:
            await events.next("hello")


async def test_a_page_that_leaves_is_forgotten() -> None:
    async with site() as here:
        async with here.events() as events:
            await events.next("hello")
            assert len(here.server._feed.pages) == 1
        await _no_pages(here)


async def test_the_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 4)
    async with site() as here:
        silent = [await here.connect() for _ in range(6)]
        assert (await here.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")).status == 503
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
async def test_a_client_that_sends_no_whole_request_is_disconnected(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_REQUEST_WITHIN_S", 0.1)
    async with site() as here:
        reader, writer = await here.connect()
        writer.write(sent)
        async with asyncio.timeout(WITHIN_S):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_a_client_that_does_not_read_an_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_READ_WITHIN_S", 0.1)
    async with site() as here:
        for number in range(200):
            here.apply(generation(f"{number}-" + "x" * 30_000, now(), 1, a=(0,)))
        _, writer = await here.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /api/groups HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        connections: set[Any] = here.server._server.server_state.connections  # type: ignore[union-attr]
        port = writer.get_extra_info("sockname")[1]
        async with asyncio.timeout(WITHIN_S):
            while port in {each.client[1] for each in connections}:
                await here.get("/healthz")
        writer.close()


async def test_the_server_ends_although_pages_are_open() -> None:
    async with asyncio.timeout(WITHIN_S):
        async with site() as here:
            reader, writer = await here.connect()
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"hello")
        assert b"0\r\n\r\n" in await reader.read()  # the stream ended in order
        writer.close()


async def _no_pages(here: Site) -> None:
    async with asyncio.timeout(WITHIN_S):
        while here.server._feed.pages:
            await here.get("/healthz")


async def test_the_ends_of_partitions_of_strangers_do_not_break_a_summary() -> None:
    async with site() as here:
        here.commit("g", 2**63 - 1)
        here.live.sampled({TopicPartition("orders", 0): -1}, now())
        assert (await here.get("/api/groups")).value["groups"][0]["lag"] == 0
