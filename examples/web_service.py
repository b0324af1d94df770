"""A web service (FastAPI) that writes orders to a topic and ships them as a member of a group.

    BOOTSTRAP=127.0.0.1:9092 TOPIC=orders GROUP=shipping uvicorn --app-dir examples web_service:app

POST /orders answers when the broker has stored the order. GET /health answers with the partitions of this instance,
or with 503 if shipping has failed. Several instances share the partitions. The service needs fastapi and uvicorn.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from kohort import Consumer, Producer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
TOPIC = os.environ.get("TOPIC", "orders")
GROUP = os.environ.get("GROUP", "shipping")

log = logging.getLogger("uvicorn.error")


class Order(BaseModel):
    customer: str
    item: str


async def ship(consumer: Consumer) -> None:
    """Ship orders, and commit each one, until the task is cancelled."""
    async for record in consumer:
        order = Order.model_validate_json(record.value or b"")
        log.info("shipping %s to %s", order.item, order.customer)
        await consumer.commit()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the clients in the service's event loop, and leave the group when the service ends."""
    async with (
        Producer(bootstrap_servers=BOOTSTRAP) as producer,
        Consumer(
            TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
    ):
        shipping = asyncio.create_task(ship(consumer))
        app.state.producer, app.state.consumer, app.state.shipping = producer, consumer, shipping
        yield
        shipping.cancel()
        with suppress(asyncio.CancelledError):
            await shipping  # raises the error that ended it earlier


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, int]:
    # Orders with the same key stay in sequence.
    delivery = await app.state.producer.send(TOPIC, order.model_dump_json().encode(), key=order.customer.encode())
    stored = await delivery
    return {"partition": stored.partition, "offset": stored.offset}


@app.get("/health")
async def health() -> dict[str, list[int]]:
    shipping: asyncio.Task[None] = app.state.shipping
    if shipping.done():
        raise HTTPException(503, f"Shipping has ended: {shipping.exception()!r}")
    return {"partitions": sorted(each.partition for each in app.state.consumer.assignment)}
