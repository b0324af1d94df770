"""Client connections: frames are read and passed to request handlers, and the answers are written in order.

`Sockets` listens. Each request on a `ClientConnection` is a `Call`, which its handler answers once. A `Route` says how
one version of a request is decoded, handled and answered.
"""

from kohort.broker.net.call import Call, answer_head
from kohort.broker.net.connection import BadFrame, ClientConnection, PendingAnswer
from kohort.broker.net.newcomers import Newcomers
from kohort.broker.net.repeated_commits import RepeatedCommits
from kohort.broker.net.repeated_heartbeats import RepeatedHeartbeat
from kohort.broker.net.route import Handler, Route, Served
from kohort.broker.net.sockets import Secured, Sockets
from kohort.broker.net.tls import ListenerTls, asked_name
from kohort.broker.net.tls_server import TlsServer

__all__ = [
    "BadFrame",
    "Call",
    "ClientConnection",
    "Handler",
    "ListenerTls",
    "Newcomers",
    "PendingAnswer",
    "RepeatedCommits",
    "RepeatedHeartbeat",
    "Route",
    "Secured",
    "Served",
    "Sockets",
    "TlsServer",
    "answer_head",
    "asked_name",
]
