"""What a run asks of models: at once or as a stream, for threads and for tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Flow

if TYPE_CHECKING:
    from counterfoil.effects.retry import Retry
    from counterfoil.runtime.model import Model, Response, StreamingModel
    from counterfoil.runtime.streaming import AsyncStream, Stream

T = TypeVar("T")


class Asking:
    """The part of :class:`counterfoil.Run` that talks to models."""

    def ask(
        self,
        model: Model,
        messages: Sequence[Any] | str,
        *,
        name: str | None = None,
        tools: Sequence[Any] = (),
        purpose: str = "primary",
        retry: Retry | Sequence[Retry] | None = None,
        sent: bytes | None = None,
        **parameters: Any,
    ) -> Response:
        """Ask a model: the exact request is recorded before, the response after; a resumed run gets the recorded one.

        ``model`` is called with a :class:`counterfoil.Request` and returns a :class:`counterfoil.Response`, text or
        a dict, or an iterator of chunks, which is read to its end. ``parameters`` are part of the request; ``retry`` says
        which failures are tried again (:class:`counterfoil.effects.Retry`; by default the model's own ``retry``). ``sent`` is the request as a client of
        yours encodes it, where that is not the canonical JSON that is recorded otherwise. Raises
        ``ModelFailed`` when the model raises.
        """
        from counterfoil.runtime.ask import ask_flow
        from counterfoil.runtime.question import question

        asked = question(
            model,
            messages,
            name=name,
            tools=tools,
            purpose=purpose,
            parameters=parameters,
            retry=retry,
            sent=sent,
        )
        return self._drive(ask_flow(self._open_scope(), asked))

    async def aask(
        self,
        model: Model,
        messages: Sequence[Any] | str,
        *,
        name: str | None = None,
        tools: Sequence[Any] = (),
        purpose: str = "primary",
        retry: Retry | Sequence[Retry] | None = None,
        sent: bytes | None = None,
        **parameters: Any,
    ) -> Response:
        """As :meth:`ask`, for tasks; a sync model is called in a thread."""
        from counterfoil.runtime.ask import ask_flow
        from counterfoil.runtime.question import question

        asked = question(
            model,
            messages,
            name=name,
            tools=tools,
            purpose=purpose,
            parameters=parameters,
            retry=retry,
            sent=sent,
        )
        return await self._adrive(ask_flow(self._open_scope(), asked))

    def stream(
        self,
        model: StreamingModel,
        messages: Sequence[Any] | str,
        *,
        name: str | None = None,
        tools: Sequence[Any] = (),
        purpose: str = "primary",
        retry: Retry | Sequence[Retry] | None = None,
        sent: bytes | None = None,
        **parameters: Any,
    ) -> Stream:
        """As :meth:`ask` for a model that returns an iterator: each chunk is handed on as it comes.

        Chunks are text, or dicts with what is new; a Response at the end says the whole. The request is sent when the
        first chunk is asked for. A stream that fails, is closed or cancelled is recorded with what it delivered; a
        resumed run gets the recorded chunks. Leave the stream by ``with``, or read it to its end.
        """
        from counterfoil.runtime.question import question
        from counterfoil.runtime.streaming import Stream

        asked = question(
            model,
            messages,
            name=name,
            tools=tools,
            purpose=purpose,
            parameters=parameters,
            retry=retry,
            sent=sent,
        )
        return Stream(self._open_scope(), asked, self._drive)

    def astream(
        self,
        model: StreamingModel,
        messages: Sequence[Any] | str,
        *,
        name: str | None = None,
        tools: Sequence[Any] = (),
        purpose: str = "primary",
        retry: Retry | Sequence[Retry] | None = None,
        sent: bytes | None = None,
        **parameters: Any,
    ) -> AsyncStream:
        """As :meth:`stream`, for tasks: the model returns an async iterator, or a sync one, which is read in a thread."""
        from counterfoil.runtime.question import question
        from counterfoil.runtime.streaming import AsyncStream

        asked = question(
            model,
            messages,
            name=name,
            tools=tools,
            purpose=purpose,
            parameters=parameters,
            retry=retry,
            sent=sent,
        )
        return AsyncStream(self._open_scope(), asked, self._adrive)

    # ---- inside ----

    @abstractmethod
    def _open_scope(self) -> RunScope: ...

    @abstractmethod
    def _drive(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    async def _adrive(self, flow: Flow[T]) -> T: ...
