"""Request handlers: one small module per API or group of related APIs.

`Dispatch` decodes each frame and passes it to the handler of its API. `SERVED` lists the APIs and their versions.
"""

from kohort.broker.apis.dispatch import Dispatch
from kohort.broker.apis.routes import SERVED, TELEMETRY, Routes

__all__ = ["SERVED", "TELEMETRY", "Dispatch", "Routes"]
