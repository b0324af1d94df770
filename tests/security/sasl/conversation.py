"""Both roles of a mechanism against each other, without a network between them."""

from __future__ import annotations

from kohort.security.sasl import ClientDone, ClientFailed, Done, Failed, SaslClient, SaslServer, Send


def converse(client: SaslClient, server: SaslServer) -> tuple[ClientDone | ClientFailed | None, Done | Failed]:
    """Run an authentication to its end and return both results. A client that the server rejects has none."""
    token = client.start()
    for _ in range(4):
        answer = server.receive(token)
        if isinstance(answer, Failed):
            return None, answer
        step = client.receive(answer.token)
        if isinstance(answer, Done):
            assert not isinstance(step, Send)
            return step, answer
        if not isinstance(step, Send):
            return step, Failed("the client gave up", "")
        token = step.token
    raise AssertionError("the conversation does not end")
