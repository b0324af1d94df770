"""Documents that a webhook receives. Pure.

The form is that of Alertmanager's webhooks (version 4), which receivers of alerts understand, with
the begin and the end of each. The field `text` makes Slack, Mattermost and Rocket.Chat show it.
"""

import hmac
import json
from base64 import b64decode, b64encode
from binascii import Error
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from kohort.model import Millis
from kohort.security import Secret
from kohort.watch.findings import duration, shown
from kohort.watch.webhooks.alarms import Notice

_NEVER = "0001-01-01T00:00:00Z"
"""End of an alert that has none, as Alertmanager writes it."""
_LATEST: Millis = 253_402_300_799_000
"""Last time that has a form: the end of the year 9999. A stranger's record may claim any."""
_LONGEST_TEXT = 3_000
"""Maximum number of characters; Slack cuts texts at 40,000 and shows 3,000 in one block."""


def document(notice: Notice, cluster: str, page: str = "") -> dict[str, Any]:
    """Return the document for `json.dumps`. `page` is the URL of the watcher's page, if it serves one."""
    condition = notice.condition
    labels = {
        "alertname": condition.event,
        "severity": condition.severity.label,
        "cluster": cluster,
        **({} if condition.group_id is None else {"group": condition.group_id}),
    }
    annotations = {"summary": condition.title, "description": condition.text}
    if condition.advice:
        annotations["advice"] = condition.advice
    status = "firing" if notice.ended_at is None else "resolved"
    identity = json.dumps([cluster, *condition.key])
    return {
        "version": "4",
        "groupKey": identity,
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "kohort",
        "groupLabels": {name: labels[name] for name in ("alertname", "group") if name in labels},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": page,
        "alerts": [
            {
                "status": status,
                "labels": labels,
                "annotations": annotations,
                "startsAt": _time(notice.began_at),
                "endsAt": _NEVER if notice.ended_at is None else _time(notice.ended_at),
                "generatorURL": page,
                "fingerprint": sha256(identity.encode()).hexdigest()[:16],
            }
        ],
        "text": _text(notice, cluster),
    }


def _text(notice: Notice, cluster: str) -> str:
    condition = notice.condition
    where = cluster if condition.group_id is None else f"group {condition.group_id} on {cluster}"
    if notice.ended_at is not None:
        lasted = duration((notice.ended_at - notice.began_at) / 1000)
        return _plain(f"Over after {lasted}: {condition.title} ({shown(where, 300)})")
    advice = f" {condition.advice}" if condition.advice else ""
    return _plain(
        f"{condition.severity.label.upper()}: {condition.title} ({shown(where, 300)}). {condition.text}{advice}"
    )


def _plain(text: str) -> str:
    """Return a text in which no name mentions people or makes a link: chats give <, > and & a meaning."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")[:_LONGEST_TEXT]


def _time(at: Millis) -> str:
    return (
        datetime.fromtimestamp(min(max(at, 0), _LATEST) / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def signed(body: bytes, message_id: str, at_s: int, secret: Secret | None) -> dict[str, str]:
    """Return the headers that identify and sign a request, by the specification Standard Webhooks.

    A secret with the prefix `whsec_` is base64, as in that specification; any other counts as it is.
    """
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at_s)}
    if secret is not None:
        made = hmac.new(_key(secret), b".".join((message_id.encode(), str(at_s).encode(), body)), sha256).digest()
        headers["webhook-signature"] = f"v1,{b64encode(made).decode()}"
    return headers


def _key(secret: Secret) -> bytes:
    text = secret.reveal_bytes()
    if not text.startswith(b"whsec_"):
        return text
    try:
        return b64decode(text.removeprefix(b"whsec_"), validate=True)
    except Error:
        return text
