"""The current leader in Produce and Fetch responses with NOT_LEADER_OR_FOLLOWER (KIP-951).

With it, a client need not request metadata.
"""

from kohort.wire.codec import Int32, NullableString, String, Struct, struct


@struct
class LeaderIdAndEpoch(Struct):
    """Current leader of a partition (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class NodeEndpoint(Struct):
    """Address of a broker that is the leader of a partition in the response (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
