"""How members connect to a secured broker: one value, and the options of each library that it stands for."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import Any

OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a secured broker. Without a mechanism, a certificate authenticates it, or nothing does."""

    bootstrap: str
    """The listener, which has TLS in any case."""
    cafile: str
    user: str
    mechanism: str = ""
    password: str = ""
    """For OAUTHBEARER, a token."""
    certfile: str = ""
    keyfile: str = ""

    @property
    def protocol(self) -> str:
        """The security protocol."""
        return "SASL_SSL" if self.mechanism else "SSL"

    def java(self) -> dict[str, str]:
        """Return the options of Apache Kafka's clients and tools, for a user with a password or without a name."""
        assert self.mechanism != OAUTHBEARER
        assert not self.certfile
        tls = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.cafile,
        }
        if not self.mechanism:
            return tls
        module = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        return tls | {
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule required"
            f' username="{self.user}" password="{self.password}";',
        }

    def librdkafka(self) -> dict[str, Any]:
        """Return the options of confluent-kafka."""
        token = {"oauth_cb": lambda _: (self.password, time.time() + 3600)} if self.mechanism == OAUTHBEARER else {}
        password = "" if token else self.password
        names = {
            "ssl.ca.location": self.cafile,
            "ssl.certificate.location": self.certfile,
            "ssl.key.location": self.keyfile,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user if password else "",
            "sasl.password": password,
        }
        return {"security.protocol": self.protocol, **{name: value for name, value in names.items() if value}, **token}

    def python(self) -> dict[str, Any]:
        """Return the options of kafka-python and of our client. The former takes no token as text."""
        token = self.mechanism == OAUTHBEARER
        names = {
            "ssl_cafile": self.cafile,
            "ssl_certfile": self.certfile,
            "ssl_keyfile": self.keyfile,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user if self.mechanism and not token else "",
            "sasl_plain_password": "" if token else self.password,
            "sasl_oauth_token": self.password if token else "",
        }
        return {"security_protocol": self.protocol, **{name: value for name, value in names.items() if value}}

    def aiokafka(self) -> dict[str, Any]:
        """Return the options of aiokafka, which takes TLS as a context."""
        context = ssl.create_default_context(cafile=self.cafile)
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile)
        sasl = {name: value for name, value in self.python().items() if name.startswith("sasl_")}
        return {"security_protocol": self.protocol, "ssl_context": context, **sasl}
