"""Protobuf classes as protoc makes them: a file that imports another one and one of Google's."""

from __future__ import annotations

from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

STRING, INT64, MESSAGE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_MESSAGE,
)


def _field(name: str, number: int, kind: Any, type_name: str | None = None) -> FieldDescriptorProto:
    field = FieldDescriptorProto(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if type_name is not None:
        field.type_name = type_name
    return field


_money = FileDescriptorProto(
    name="acme/money.proto",
    package="acme",
    syntax="proto3",
    message_type=[DescriptorProto(name="Money", field=[_field("cents", 1, INT64)])],
)
_orders = FileDescriptorProto(
    name="acme/orders.proto",
    package="acme",
    syntax="proto3",
    dependency=["acme/money.proto", "google/protobuf/timestamp.proto"],
    message_type=[
        DescriptorProto(name="Customer", field=[_field("name", 1, STRING)]),
        DescriptorProto(
            name="Order",
            field=[
                _field("id", 1, STRING),
                _field("price", 2, MESSAGE, ".acme.Money"),
                _field("at", 3, MESSAGE, ".google.protobuf.Timestamp"),
            ],
            nested_type=[
                DescriptorProto(name="Note", field=[_field("text", 1, STRING)]),
                DescriptorProto(name="Line", field=[_field("article", 1, STRING)]),
            ],
        ),
    ],
)
POOL = DescriptorPool()
_timestamp = FileDescriptorProto()
timestamp_pb2.DESCRIPTOR.CopyToProto(_timestamp)
for _file in (_timestamp, _money, _orders):
    POOL.Add(_file)

Customer = GetMessageClass(POOL.FindMessageTypeByName("acme.Customer"))
Order = GetMessageClass(POOL.FindMessageTypeByName("acme.Order"))
Line = GetMessageClass(POOL.FindMessageTypeByName("acme.Order.Line"))
Money = GetMessageClass(POOL.FindMessageTypeByName("acme.Money"))
