"""Interceptors that each new client of the process gets, for tools such as tracing."""

from collections.abc import Callable
from typing import Any

_makers: list[tuple[type, Callable[[Any], object]]] = []
"""Functions that make an interceptor for each new client, with the kind of the interceptor."""


def intercept_new_clients(kind: type, make: Callable[[Any], object]) -> Callable[[], None]:
    """Give every client that is created from now on a further interceptor, after its own.

    Returns the function that ends this; existing clients keep their interceptors. `kind` is
    ConsumerInterceptor or ProducerInterceptor, and `make` returns the interceptor for the options of
    a client.
    """
    entry = kind, make
    _makers.append(entry)
    return lambda: _makers.remove(entry)


def interceptors_of_all(kind: type, options: object) -> list[object]:
    """Return the interceptors for a new client with these options."""
    return [make(options) for each, make in _makers if each is kind]
