"""Lines that a broker's process logs."""

from __future__ import annotations

import io
import logging

from kohort.broker.main import OneLine


def test_a_name_that_a_client_chose_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    log = logging.Logger("broker")
    log.addHandler(handler)
    log.warning("a member cannot join group=%s: client=%s", "grün\u2028", "x\nINFO authenticated\r\x1b[2J\x9b")
    try:
        raise ValueError
    except ValueError:
        log.exception("request failed")
    first, second, *traceback = stream.getvalue().splitlines()
    assert first == r"WARNING a member cannot join group=grün\u2028: client=x\nINFO authenticated\r\x1b[2J\x9b"
    assert second == "ERROR request failed"
    assert traceback[0].startswith("Traceback") and traceback[-1] == "ValueError"
