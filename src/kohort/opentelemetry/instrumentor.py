"""Instrumentor in the form that `opentelemetry-instrument` expects, without its base package."""

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from kohort.client import ConsumerInterceptor, ConsumerOptions, ProducerInterceptor, ProducerOptions
from kohort.new_clients import intercept_new_clients
from kohort.opentelemetry.api import TracerProvider
from kohort.opentelemetry.consuming import ConsumerTracing
from kohort.opentelemetry.conventions import tracer_of
from kohort.opentelemetry.producing import ProducerTracing
from kohort.opentelemetry.switch import Switch

_log = logging.getLogger(__name__)


class _Producer(Protocol):
    @property
    def interceptors(self) -> tuple[Any, ...]: ...

    def intercept(self, make: Callable[[ProducerOptions], Any]) -> None: ...


class _Consumer(Protocol):
    @property
    def interceptors(self) -> tuple[Any, ...]: ...

    def intercept(self, make: Callable[[ConsumerOptions], Any]) -> None: ...


P = TypeVar("P", bound=_Producer)
C = TypeVar("C", bound=_Consumer)


class KohortInstrumentor:
    """Makes spans for Kohort's clients. There is one object of this class.

    `instrument` concerns all clients that are created afterwards, those of `kohort.blocking` and
    `kohort.compat` included; `instrument_producer` and `instrument_consumer` concern one client.
    """

    _instance: "KohortInstrumentor | None" = None
    _switch: Switch | None = None
    _undo: tuple[Callable[[], None], ...] = ()

    def __new__(cls, *arguments: object, **options: object) -> "KohortInstrumentor":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether new clients make spans."""
        return self._switch is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the packages that this instruments: the one that it is a part of."""
        return ("kohort",)

    def instrument(self, *, tracer_provider: TracerProvider | None = None, **ignored: object) -> None:
        """Make spans for all clients that are created from now on."""
        if self._switch is not None:
            _log.warning("Kohort's clients are already instrumented; this call changes nothing")
            return
        switch, tracer = Switch(), tracer_of(tracer_provider)
        self._switch = switch
        self._undo = (
            intercept_new_clients(ProducerInterceptor, lambda options: ProducerTracing(tracer, options, switch)),
            intercept_new_clients(ConsumerInterceptor, lambda options: ConsumerTracing(tracer, options, switch)),
        )

    def uninstrument(self, **ignored: object) -> None:
        """Make no more spans, except for clients that were instrumented one by one."""
        if self._switch is None:
            _log.warning("Kohort's clients are not instrumented; this call changes nothing")
            return
        self._switch.enabled, self._switch = False, None
        for undo in self._undo:
            undo()

    def instrument_producer(self, producer: P, tracer_provider: TracerProvider | None = None) -> P:
        """Make spans for one producer, which is returned."""
        tracer = tracer_of(tracer_provider)
        if not _enable(producer.interceptors, enabled=True):
            producer.intercept(lambda options: ProducerTracing(tracer, options, Switch()))
        return producer

    def instrument_consumer(self, consumer: C, tracer_provider: TracerProvider | None = None) -> C:
        """Make spans for one consumer, which is returned."""
        tracer = tracer_of(tracer_provider)
        if not _enable(consumer.interceptors, enabled=True):
            consumer.intercept(lambda options: ConsumerTracing(tracer, options, Switch()))
        return consumer

    def uninstrument_producer(self, producer: P) -> P:
        """Make no more spans for one producer, which is returned."""
        _enable(producer.interceptors, enabled=False)
        return producer

    def uninstrument_consumer(self, consumer: C) -> C:
        """Make no more spans for one consumer, which is returned."""
        _enable(consumer.interceptors, enabled=False)
        return consumer


def _enable(interceptors: tuple[Any, ...], *, enabled: bool) -> bool:
    """Turn the interceptors of this package on or off. Return whether there are any."""
    ours = [each for each in interceptors if isinstance(each, ProducerTracing | ConsumerTracing)]
    for each in ours:
        each.switch = Switch(enabled)
    return bool(ours)
