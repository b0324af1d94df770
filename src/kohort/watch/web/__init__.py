"""The page of `kohort watch`, its JSON API, its events, and the metrics: one web server that only reads.

`WebServer` serves a `Live`, and `serving` a cluster. They need the extra `web`; nothing else of
`kohort.watch` does.
"""

from kohort.watch.web.documents import ClusterName
from kohort.watch.web.serve import ServingOptions, serve_until, serving
from kohort.watch.web.server import WebOptions, WebServer
from kohort.watch.web.thread import page_thread

__all__ = ["ClusterName", "ServingOptions", "WebOptions", "WebServer", "page_thread", "serve_until", "serving"]
