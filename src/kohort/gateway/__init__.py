"""A gateway in front of a Kafka cluster: clients connect to it, and it passes their requests on.

It names its own addresses in place of the brokers' and leaves everything else as it is. Frames pass
as bytes; only those that name addresses are read.
"""

from kohort.gateway.addresses import Address
from kohort.gateway.link import Link
from kohort.gateway.main import Beside, run
from kohort.gateway.options import GatewayOptions
from kohort.gateway.server import Gateway

__all__ = ["Address", "Beside", "Gateway", "GatewayOptions", "Link", "run"]
