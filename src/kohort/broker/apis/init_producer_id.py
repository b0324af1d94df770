"""InitProducerId: an ID and epoch for an idempotent or transactional producer (KIP-98, KIP-360)."""

from typing import Protocol

from kohort.broker.net import Call
from kohort.broker.transactions import TransactionCoordinator, refusal
from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    transactions: TransactionCoordinator

    def fresh_producer_id(self) -> int: ...


def handle(broker: Dependencies, call: Call, request: InitProducerIdRequest) -> None:
    """Give a transactional producer its next epoch. One without transactional ID gets a new ID and epoch 0, always."""
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        call.reply(refusal(request, call.version, ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is None:
        call.reply(InitProducerIdResponse(producer_id=broker.fresh_producer_id(), producer_epoch=0))
    else:
        shard = broker.transactions.shard(request.transactional_id)
        if shard is None:
            call.reply(refusal(request, call.version, ErrorCode.NOT_COORDINATOR))
        else:
            shard.handle(request, call, RequestContext(call, call.version))
