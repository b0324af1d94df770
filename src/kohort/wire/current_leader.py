"""What Produce and Fetch answer beside NOT_LEADER_OR_FOLLOWER, so that a client need not ask for metadata (KIP-951)."""

from kohort.wire.codec import Int32, NullableString, String, Struct, struct


@struct
class LeaderIdAndEpoch(Struct):
    """Who leads a partition now (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class NodeEndpoint(Struct):
    """Where a broker named above listens (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
