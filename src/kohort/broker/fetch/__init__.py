"""The broker's side of Fetch: sessions, requests that wait for records, new partitions, reads from followers.

The handler in `kohort.broker.apis` reads the records. This room remembers what lasts longer than one request.
"""

from kohort.broker.fetch.followers import LEADER, FollowerReads
from kohort.broker.fetch.new_partitions import NewPartitions
from kohort.broker.fetch.sessions import TOPIC_IDS_FROM, FetchedPartition, FetchSession, FetchSessions, places_of
from kohort.broker.fetch.waiting import LogWatch, ReadLog, WaitingFetch, WaitingFetches

__all__ = [
    "LEADER",
    "TOPIC_IDS_FROM",
    "FetchSession",
    "FetchSessions",
    "FetchedPartition",
    "FollowerReads",
    "LogWatch",
    "NewPartitions",
    "ReadLog",
    "WaitingFetch",
    "WaitingFetches",
    "places_of",
]
