"""Delivery to a real HTTP server: order, attempts, bounds, signatures, and no secret in any message."""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.security import Secret
from kohort.watch.webhooks import Delivery, Limits, WebhookSettings
from tests.broker.security.certificates import new_certificates
from tests.watch.webhooks.receiver import PATIENCE_S, Receiver, receiving

SOON = Limits(wait_s=0.01, per_minute=60_000, timeout_s=PATIENCE_S)
PATH = "/services/T0SECRET?token=s3cret"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def to(receiver: Receiver, **changes: object) -> WebhookSettings:
    return replace(WebhookSettings(Secret(receiver.url(PATH))), **changes)  # type: ignore[arg-type]


def numbered(number: int) -> dict[str, object]:
    return {"text": f"event {number}", "number": number}


def idle(delivery: Delivery, done: int) -> None:
    """Wait until this many documents were sent or dropped."""
    deadline = time.monotonic() + PATIENCE_S
    while delivery.sent + delivery.dropped < done:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_documents_arrive_in_order(receiver: Receiver) -> None:
    with Delivery(to(receiver, headers={"Authorization": Secret("Bearer abc")}), SOON) as delivery:
        for number in range(20):
            delivery.send(numbered(number))
        got = receiver.wait(20)
    assert [each.document for each in got] == [numbered(number) for number in range(20)]
    assert {each.path for each in got} == {PATH}
    assert {(each.headers["Content-Type"], each.headers["Authorization"]) for each in got} == {
        ("application/json", "Bearer abc")
    }
    assert len({each.headers["Webhook-Id"] for each in got}) == 20


@pytest.mark.parametrize("code", [500, 503, 408, 425, 429])
def test_an_event_that_fails_is_sent_again_before_the_next(receiver: Receiver, code: int) -> None:
    receiver.answers = [(code, {}), (code, {})]
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send(numbered(1))
        delivery.send(numbered(2))
        got = receiver.wait(4)
    assert [each.document["number"] for each in got] == [1, 1, 1, 2]
    assert len({each.headers["Webhook-Id"] for each in got[:3]}) == 1  # a receiver can tell that it has it


def test_the_first_failure_and_the_first_success_after_it_are_logged(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    # All attempts of one event take minutes: without a line, nobody would know that events wait.
    receiver.answers = [(500, {}), (503, {}), (200, {}), (200, {}), (429, {})]
    with Delivery(to(receiver), SOON) as delivery:
        for number in (1, 2, 3):
            delivery.send(numbered(number))
        idle(delivery, 3)
    again = "The webhook at 127.0.0.1 takes events again."
    assert caplog.messages == [
        "The webhook at 127.0.0.1 fails, and events wait for it: it answers 500.",
        again,
        "The webhook at 127.0.0.1 fails, and events wait for it: it answers 429.",
        again,
    ]


@pytest.mark.parametrize("code", [400, 401, 404, 302])
def test_an_event_that_is_refused_is_dropped_with_a_line(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    receiver.answers = [(code, {"Location": receiver.url("/elsewhere")})]
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send(numbered(1))
        delivery.send(numbered(2))
        idle(delivery, 2)
    assert [each.document["number"] for each in receiver.got] == [1, 2]
    [line] = caplog.messages
    assert line == (
        f"The webhook at 127.0.0.1 did not take an event, which is dropped: it answers {code}. The event: event 1"
    )


def test_attempts_are_bounded(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [(500, {})] * 3
    with Delivery(to(receiver), replace(SOON, attempts=3)) as delivery:
        delivery.send(numbered(1))
        delivery.send(numbered(2))
        got = receiver.wait(4)
    assert [each.document["number"] for each in got] == [1, 1, 1, 2]
    assert delivery.dropped == 1
    assert "did not take an event" in caplog.text


def test_retry_after_is_obeyed_within_bounds(receiver: Receiver) -> None:
    receiver.answers = [(429, {"Retry-After": "86400"})]
    began = time.monotonic()
    with Delivery(to(receiver), replace(SOON, most_wait_s=0.5)) as delivery:
        delivery.send(numbered(1))
        receiver.wait(2)
    assert time.monotonic() - began >= 0.5


def test_a_strange_time_to_wait_does_not_end_the_delivery(receiver: Receiver) -> None:
    receiver.answers = [(429, {"Retry-After": "\u00b2"})]
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send(numbered(1))
        idle(delivery, 1)
    assert (delivery.sent, delivery.dropped) == (1, 0)


def test_a_host_name_that_is_impossible_does_not_end_the_delivery(caplog: pytest.LogCaptureFixture) -> None:
    with Delivery(WebhookSettings(Secret(f"http://{'a' * 64}.example/")), SOON) as delivery:
        delivery.send(numbered(1))
        delivery.send(numbered(2))
        idle(delivery, 2)
    assert delivery.dropped == 2
    assert "its URL has no possible host name." in caplog.text


def test_the_queue_is_bounded_and_says_so_once(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.silent.set()
    with Delivery(to(receiver), replace(SOON, queue=3)) as delivery:
        delivery.send(numbered(0))
        receiver.wait(1)
        for number in range(1, 9):
            delivery.send(numbered(number))
        assert delivery.dropped == 6
        assert [line for line in caplog.messages if "further ones are dropped" in line] == [
            "3 events wait for the webhook at 127.0.0.1; further ones are dropped."
        ]
    assert "3 events for the webhook at 127.0.0.1 were not sent." in caplog.messages


def test_each_time_that_events_are_dropped_is_logged(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with Delivery(to(receiver), replace(SOON, queue=1)) as delivery:
        for turn in (1, 2):
            receiver.answering.clear()
            delivery.send(numbered(0))
            receiver.wait(turn)
            delivery.send(numbered(1))
            receiver.answering.set()
            deadline = time.monotonic() + PATIENCE_S
            while len(caplog.messages) < 2 * turn:
                assert time.monotonic() < deadline
                time.sleep(0.005)
    begins = "1 events wait for the webhook at 127.0.0.1; further ones are dropped."
    ends = "{} events for the webhook at 127.0.0.1 were dropped so far."
    assert caplog.messages == [begins, ends.format(1), begins, ends.format(2)]


def test_an_answer_that_is_not_http_does_not_end_the_delivery(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [(1000, {})]
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send(numbered(1))
        idle(delivery, 1)
    assert (delivery.sent, delivery.dropped) == (1, 0)
    assert "the connection failed (BadStatusLine)." in caplog.text


def test_the_line_about_an_event_is_bounded(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [(404, {})]
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send({"text": "x" * 3_000})
        idle(delivery, 1)
    [line] = caplog.messages
    assert len(line) < 500


def test_the_rate_is_bounded(receiver: Receiver) -> None:
    # Two at once, then one in half a second.
    began = time.monotonic()
    with Delivery(to(receiver), replace(SOON, per_minute=120)) as delivery:
        for number in range(121):
            delivery.send(numbered(number))
        receiver.wait(121)
    assert time.monotonic() - began >= 0.4


def test_sending_does_not_wait_for_a_silent_receiver(caplog: pytest.LogCaptureFixture) -> None:
    with receiving() as receiver:
        receiver.silent.set()
        delivery = sends_in_silence(receiver)
    # The receiver ends, and with it the request under way. Nothing is said of an event beside the line at closing.
    delivery._thread.join(PATIENCE_S)
    assert not delivery._thread.is_alive()
    assert caplog.messages == ["101 events for the webhook at 127.0.0.1 were not sent."]


def sends_in_silence(receiver: Receiver) -> Delivery:
    with Delivery(to(receiver), SOON) as delivery:
        delivery.send(numbered(0))
        receiver.wait(1)
        began = time.monotonic()
        for number in range(100):
            delivery.send(numbered(number))
        assert time.monotonic() - began < 1.0
        began = time.monotonic()
    assert time.monotonic() - began < 2.0  # nor does closing
    return delivery


def test_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))  # so that no other program takes the port
        settings = WebhookSettings(Secret(f"http://127.0.0.1:{mute.getsockname()[1]}{PATH}"))
        with Delivery(settings, replace(SOON, attempts=2)) as delivery:
            delivery.send(numbered(1))
            idle(delivery, 1)
    assert caplog.messages == [
        "The webhook at 127.0.0.1 fails, and events wait for it: Connection refused.",
        "The webhook at 127.0.0.1 did not take an event, which is dropped: Connection refused. The event: event 1",
    ]


@pytest.mark.parametrize("secret", ["plain text", "whsec_" + b64encode(b"0123456789abcdef").decode(), "whsec_plain!"])
def test_a_request_is_signed_as_standard_webhooks_says(receiver: Receiver, secret: str) -> None:
    with Delivery(to(receiver, secret=Secret(secret)), SOON) as delivery:
        delivery.send(numbered(1))
        [got] = receiver.wait(1)
    key = secret.encode() if "plain" in secret else b64decode(secret.removeprefix("whsec_"))
    stamp, message_id = got.headers["Webhook-Timestamp"], got.headers["Webhook-Id"]
    signed = f"{message_id}.{stamp}.".encode() + got.body
    expected = b64encode(hmac.new(key, signed, sha256).digest()).decode()
    assert got.headers["Webhook-Signature"] == f"v1,{expected}"
    assert abs(int(stamp) - time.time()) < 600


def test_only_the_text_for_chats_that_refuse_other_fields(receiver: Receiver) -> None:
    with Delivery(to(receiver, text_only=True), SOON) as delivery:
        delivery.send(numbered(1))
        [got] = receiver.wait(1)
    assert got.document == {"text": "event 1"}


def test_certificates_are_verified(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = new_certificates(tmp_path)
    context.load_cert_chain(certificates.key_store())
    with receiving(context) as receiver:
        url = Secret(receiver.url(PATH, "https"))
        # A certificate does not become good by waiting.
        with Delivery(WebhookSettings(url), Limits(wait_s=600.0, most_wait_s=600.0)) as delivery:
            delivery.send(numbered(1))
            idle(delivery, 1)
        assert receiver.got == []
        assert "its certificate is not accepted" in caplog.text
        with Delivery(WebhookSettings(url, ca=str(certificates.ca_file)), SOON) as delivery:
            delivery.send(numbered(2))
            [got] = receiver.wait(1)
        assert got.document == numbered(2)


def test_a_file_of_certificates_that_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"The file /nowhere\.pem of the webhook's `ca` cannot be read"):
        Delivery(WebhookSettings(Secret("https://127.0.0.1/"), ca="/nowhere.pem"))


def test_no_message_has_a_secret(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.answers = [(500, {}), (404, {})]
    settings = to(receiver, secret=Secret("s3cret"), headers={"X-Token": Secret("s3cret")})
    with Delivery(settings, replace(SOON, queue=1)) as delivery:
        for number in range(5):
            delivery.send(numbered(number))
        idle(delivery, 5)
    assert caplog.messages
    assert "s3cret" not in caplog.text + repr(settings)
    assert "T0SECRET" not in caplog.text + repr(settings)
