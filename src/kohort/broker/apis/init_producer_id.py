"""InitProducerId: assign an ID to an idempotent producer (KIP-98). Transactions are not supported yet."""

from typing import Protocol

from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    def fresh_id(self) -> UUID: ...


_ID_BITS = 62  # positive as a signed 64-bit number; these bits of a random UUID are all random


def handle(broker: Dependencies, call: Call, request: InitProducerIdRequest) -> None:
    """Assign a random ID: no ID is assigned twice, and there is no counter that a crash could set back.

    As in Kafka, a producer without transactional ID gets a new ID and epoch 0 with each request.
    """
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        call.reply(_refused(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is not None:
        call.reply(_refused(ErrorCode.UNSUPPORTED_VERSION))
    else:
        call.reply(InitProducerIdResponse(producer_id=broker.fresh_id().int & (1 << _ID_BITS) - 1, producer_epoch=0))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
