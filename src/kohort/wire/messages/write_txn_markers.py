"""WriteTxnMarkers: write the end of transactions to partitions (KIP-98). Coordinators and operators send it."""

from kohort.wire.codec import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@struct
class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = array()


@struct
class WritableTxnMarker(Struct):
    """End of one producer's transaction: commit if `transaction_result` is set, else abort."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = array()
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = since(2, ignorable=True)  # KIP-1228


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest(Message):
    """Write a marker to each of the partitions."""

    markers: list[WritableTxnMarker] = array()


@struct
class WritableTxnMarkerPartitionResult(Struct):
    """Result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult(Struct):
    """Results for one topic's partitions."""

    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = array()


@struct
class WritableTxnMarkerResult(Struct):
    """Results for one producer."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = array()


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersResponse(Message):
    """Result for each marker and partition."""

    markers: list[WritableTxnMarkerResult] = array()
