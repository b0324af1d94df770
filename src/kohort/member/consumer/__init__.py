"""The member of a consumer group (KIP-848).

The coordinator sends the target assignment, and the member reaches it step by step. Both use a single
request, ConsumerGroupHeartbeat.
"""

from kohort.member.consumer.member import ConsumerMember
from kohort.member.consumer.state import ConsumerState

__all__ = ["ConsumerMember", "ConsumerState"]
