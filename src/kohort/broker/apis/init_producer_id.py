"""InitProducerId: an id for an idempotent producer (KIP-98). Transactions are not offered yet."""

from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_ID_BITS = 62  # positive as a signed 64-bit number, and those of a random UUID that are all random


def handle(broker: "Broker", call: Call, request: InitProducerIdRequest) -> None:
    """Ids are drawn at random: never handed out twice, without a counter that a crash could set back.

    As in Kafka a producer without transactional id gets a new id each time it asks, epoch 0.
    """
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        call.reply(_refused(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is not None:
        call.reply(_refused(ErrorCode.UNSUPPORTED_VERSION))
    else:
        call.reply(InitProducerIdResponse(producer_id=broker.fresh_id().int & (1 << _ID_BITS) - 1, producer_epoch=0))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
