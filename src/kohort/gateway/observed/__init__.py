"""What happens in groups, as the requests of their members and the coordinator's answers show it. Pure.

A coordinator of Kohort reports the same events. Here they are inferred, because the coordinator is
upstream: the recorder makes the same journal of them.
"""

from kohort.gateway.observed.names import TopicNames
from kohort.gateway.observed.observer import GroupObserver

__all__ = ["GroupObserver", "TopicNames"]
