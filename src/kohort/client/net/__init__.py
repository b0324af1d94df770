"""Connections to a cluster, and its metadata as the client knows it."""

from kohort.client.net.authentication import Authentication
from kohort.client.net.backoff import back_off
from kohort.client.net.closing import run_to_end
from kohort.client.net.cluster import Cluster
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.earliest_timer import EarliestTimer
from kohort.client.net.failure_log import FailureLog, joined_names
from kohort.client.net.leaders import ask_leaders, leader_epoch
from kohort.client.net.not_kafka import NotKafkaError, copied_error
from kohort.client.net.offsets import ask_offsets, list_offsets
from kohort.client.net.statistics import broker_statistics
from kohort.client.net.versions import TOPIC_IDS_FROM, api_versions_request

__all__ = [
    "TOPIC_IDS_FROM",
    "Authentication",
    "BrokerConnection",
    "Cluster",
    "EarliestTimer",
    "FailureLog",
    "NotKafkaError",
    "api_versions_request",
    "ask_leaders",
    "ask_offsets",
    "back_off",
    "broker_statistics",
    "copied_error",
    "joined_names",
    "leader_epoch",
    "list_offsets",
    "run_to_end",
]
