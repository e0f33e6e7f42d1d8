"""Reading a model's answer as it comes: each chunk is handed on at once, and the record keeps all that was (DESIGN 6).

Opening and ending are flows like any other. Between them the chunks are pulled by whoever reads, in the reader's own
thread or task: a provider's stream may hold locks and cancel scopes that belong to it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from counterfoil.errors import InputError, ModelFailed
from counterfoil.flow.calls import awaitable, start_in_thread, to_the_end
from counterfoil.flow.context import RunScope, inside_step
from counterfoil.flow.requests import Call, CallResult, Flow, Raised, Returned
from counterfoil.runtime.answer import Again, Sent, answered, failed, is_no_answer, recorded, recorded_failure
from counterfoil.runtime.ask import another, begun, identified, request_of, sent_request
from counterfoil.runtime.chunks import Chunks, recorded_chunks
from counterfoil.runtime.model import Response, response_of
from counterfoil.runtime.open_streams import Streams
from counterfoil.runtime.question import Question
from counterfoil.runtime.resume import Identity, Record
from counterfoil.runtime.step import Attempt, inside, without_result

CLOSING_S: Final = 5.0
"""How long a provider's stream may take to close once nobody reads it any more."""

_END: Final = object()


class StreamClosed(Exception):
    """The reader closed a stream before its end, or went away."""


class Live:
    """One stream that is under way; the run ends those that nobody has ended (:class:`Streams`)."""

    def __init__(self, scope: RunScope, asked: Question, identity: Identity, attempt: Attempt) -> None:
        self.scope: RunScope = scope
        self.identity: Identity = identity
        self.attempt: Attempt = attempt
        self.source: Any = None
        self.abandoned: bool = False
        self.ended: bool = False
        self._asked = asked
        self._sent: Sent | None = None

    @property
    def order(self) -> str:
        """Its step, whose id begins with the time."""
        return self.attempt.step_id

    @property
    def chunks(self) -> Chunks:
        """What has come so far."""
        return self._request.chunks

    @property
    def _request(self) -> Sent:
        assert self._sent is not None, "a stream is read after its request was sent"
        return self._sent

    def opened(self) -> Flow[Response | None]:
        """Send the request, and again while a policy says so; None once there is a stream, else the whole response."""
        while True:
            with self.scope.in_flight(self.attempt.step_id):
                done = yield from self._opened_once()
            if not isinstance(done, Again):
                return done
            yield from another(self.scope, self.attempt, done)

    def again(self, due: Again) -> Flow[Response | None]:
        """As :meth:`opened`, after a pause: the stream broke off before anybody had seen a chunk of it."""
        yield from another(self.scope, self.attempt, due)
        return (yield from self.opened())

    def _opened_once(self) -> Flow[Response | Again | None]:
        self._sent = sent = yield from sent_request(self.scope, self._asked, self.attempt, Chunks())
        model = inside(self.identity, self._asked.model)
        answer: CallResult = yield Call(self._asked.name, model, (request_of(self.scope, sent),))
        if isinstance(answer, Raised):
            return (yield from self.failed(answer.error))
        assert isinstance(answer, Returned), "a model call has no deadline of its own"
        try:
            if hasattr(answer.value, "__next__") or hasattr(answer.value, "__aiter__"):
                self.source = _source(answer.value, asynchronous=self.scope.asynchronous)
                sent.chunks.open = True
                return None
            response = response_of(answer.value)
        except Exception as refused:  # noqa: BLE001 - an answer that cannot be used is a failed call
            return (yield from self.failed(refused, unusable=True, answer=answer.value))
        return (yield from self._answered(response))

    def finished(self) -> Flow[Response | Again]:
        """The stream came to its end: record the whole response."""
        try:
            response = self.chunks.response()
        except Exception as refused:  # noqa: BLE001 - chunks that make no response are a failed call
            return (yield from self.failed(refused, unusable=True))
        return (yield from self._answered(response))

    def _answered(self, response: Response) -> Flow[Response | Again]:
        try:
            done = yield from answered(self.scope, self._request, response)
        except ModelFailed:
            self.end()
            raise
        self.end()
        return done

    def failed(self, error: BaseException, *, unusable: bool = False, answer: Any = None) -> Flow[Again]:
        """The call raised, or its stream did. What a reader has seen of it is not tried again."""
        seen = self.chunks.count > 0
        try:
            return (
                yield from failed(
                    self.scope, self._request, error, unusable=unusable, answer=answer, seen=seen
                )
            )
        except BaseException as raised:
            # What could not be recorded stays open, and is recorded when the run is left.
            if isinstance(raised, ModelFailed) or (raised is error and is_no_answer(error)):
                self.end()
            raise

    def closed(self, *, asked_again: bool) -> Flow[None]:
        """Nobody reads on: record what was delivered. Nothing happens to a stream that has ended.

        ``asked_again``: it was not the reader who stopped, so the call has no result.
        """
        if self.ended or self._sent is None:
            return
        error = StreamClosed("the stream was not read to its end")
        with suppress(ModelFailed, StreamClosed):
            yield from failed(self.scope, self._sent, error, seen=True, stopped=asked_again)
        self.end()
        _let_go(self.source)

    def end(self) -> None:
        """Nothing more will be recorded of it."""
        self.ended = True
        self.scope.part(Streams).open.discard(self)
        without_result(self.scope, self.attempt)


def open_stream(scope: RunScope, asked: Question) -> Flow[Live | Iterator[Any] | Response]:
    """Begin: a live stream; the recorded chunks of a call that has its answer; or the response of a model at once."""
    identity = identified(scope, asked)
    book = scope.part(Record)
    if (found := book.take(identity)) is not None:
        return _replayed(book, found)
    attempt = yield from begun(scope, identity)
    live = Live(scope, asked, identity, attempt)
    scope.part(Streams).open.add(live)
    try:
        response = yield from live.opened()
    except BaseException:
        live.end()
        raise
    return live if response is None else response


def _replayed(book: Record, found: Any) -> Generator[Any, None, Response]:
    """Recorded chunks, then what ended the stream: its response, as the generator's value, or its failure."""
    event = book.answer(found.header.step_id)
    content: Any = {} if event is None else event.content
    if found.data["outcome"] == "error":
        partial = content.get("partial") or {}
        yield from recorded_chunks(str(partial.get("text", "")), partial.get("chunks"))
        raise recorded_failure(found)
    response = recorded(book, found)
    yield from recorded_chunks(response.text, content.get("chunks"))
    return response


def _source(answer: Any, *, asynchronous: bool) -> Any:
    if hasattr(answer, "__aiter__"):
        if not asynchronous:
            raise InputError(
                "the model streams for an event loop and was asked in a sync run",
                hint="use `async with ledger.run(…)` and `run.astream(…)`",
            )
        return answer.__aiter__()
    return answer


class _Reading:
    """What both kinds of streams have in common: where the chunks come from, and what became of them."""

    def __init__(self, scope: RunScope, asked: Question) -> None:
        self._scope = scope
        self._asked = asked
        self._live: Live | None = None
        self._record: Iterator[Any] | None = None
        self._response: Response | None = None
        self._over = False

    @property
    def response(self) -> Response:
        """The whole response, once the stream has been read to its end. Raises InputError before."""
        if self._response is None:
            raise InputError("the stream has no response yet", hint="read it to its end first")
        return self._response

    def _begin(self, opened: Live | Iterator[Any] | Response) -> None:
        if isinstance(opened, Live):
            self._live = opened
        elif isinstance(opened, Response):
            self._record = _whole(opened)
        else:
            self._record = opened

    def _recorded(self, stop: type[Exception]) -> Any:
        """The next chunk of the record. Raises ``stop`` at its end, and the recorded failure where it ended so."""
        assert self._record is not None
        try:
            return next(self._record)
        except StopIteration as end:
            self._ended(end.value)
        except BaseException:
            self._over = True
            raise
        raise stop

    def _ended(self, response: Response) -> None:
        self._response, self._over = response, True

    def _went_on(self, response: Response | None) -> None:
        """Another attempt: another stream, or a model that answered at once."""
        if response is not None:
            self._live, self._record = None, _whole(response)

    def __del__(self) -> None:
        # Nothing is written here: whoever lets go of an object may hold any lock. The run's next call records it.
        live = getattr(self, "_live", None)
        if live is not None:
            live.abandoned = True


def _whole(response: Response) -> Generator[Any, None, Response]:
    if response.text:
        yield response.text
    return response


class Stream(_Reading):
    """A model's answer as it comes, from ``run.stream(…)``: an iterator of chunks, and ``response`` at its end.

    Used as a ``with`` block it is closed when the block is left; then the record keeps what was delivered.
    """

    def __init__(self, scope: RunScope, asked: Question, drive: Callable[[Flow[Any]], Any]) -> None:
        super().__init__(scope, asked)
        self._drive = drive

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if self._live is None and self._record is None:
            self._begin(self._drive(open_stream(self._scope, self._asked)))
        while (live := self._live) is not None:
            with live.scope.in_flight(live.attempt.step_id):
                chunk, error = _pulled(live)
            if error is None and chunk is not _END:
                return chunk
            self._turn(live, error)
            if self._over:
                raise StopIteration
        return self._recorded(StopIteration)

    def _turn(self, live: Live, error: BaseException | None) -> None:
        """The source has ended: record how, or go on with another attempt."""
        try:
            done = self._drive(live.finished() if error is None else live.failed(error))
            _let_go(live.source)
            self._went_on(self._drive(live.again(done))) if isinstance(done, Again) else self._ended(done)
        except BaseException:
            self._over = True
            _let_go(live.source)
            raise

    def close(self) -> None:
        """Read no further: what was delivered is recorded, and the provider's stream is closed. Idempotent."""
        self._over = True
        if self._live is not None and not self._live.ended:
            self._drive(self._live.closed(asked_again=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not _from_outside(error):
            self.close()


class AsyncStream(_Reading):
    """As :class:`Stream`, for tasks: from ``run.astream(…)``, read with ``async for``, closed by ``async with``.

    A second cancellation while the first one is recorded does not cut the record short; it is raised afterwards.
    """

    def __init__(
        self, scope: RunScope, asked: Question, drive: Callable[[Flow[Any]], Coroutine[Any, Any, Any]]
    ) -> None:
        super().__init__(scope, asked)
        self._drive = drive

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._over:
            raise StopAsyncIteration
        if self._live is None and self._record is None:
            self._begin(await self._drive(open_stream(self._scope, self._asked)))
        while (live := self._live) is not None:
            with live.scope.in_flight(live.attempt.step_id):
                chunk, error = await _apulled(live)
            if error is None and chunk is not _END:
                return chunk
            await self._turn(live, error)
            if self._over:
                raise StopAsyncIteration
        return self._recorded(StopAsyncIteration)

    async def _turn(self, live: Live, error: BaseException | None) -> None:
        try:
            done = await to_the_end(self._drive(live.finished() if error is None else live.failed(error)))
            await _alet_go(live.source)
            if isinstance(done, Again):
                self._went_on(await self._drive(live.again(done)))
            else:
                self._ended(done)
        except BaseException:
            self._over = True
            await _alet_go(live.source)
            raise

    async def aclose(self) -> None:
        """Read no further: what was delivered is recorded, and the provider's stream is closed. Idempotent."""
        self._over = True
        if self._live is not None and not self._live.ended:
            await to_the_end(self._drive(self._live.closed(asked_again=False)))
            await _alet_go(self._live.source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not _from_outside(error):
            await self.aclose()


# ---- pulling ---------------------------------------------------------------------------------------------------------


def _pulled(live: Live) -> tuple[Any, BaseException | None]:
    """The next chunk that is to be handed on, or the end, or what the source raised."""
    try:
        with inside_step(live.identity.label):
            while (chunk := next(live.source, _END)) is not _END and not live.chunks.take(chunk):
                pass
    except BaseException as error:  # noqa: BLE001 - it is recorded, and raised again
        return None, error
    return chunk, None


async def _apulled(live: Live) -> tuple[Any, BaseException | None]:
    """As :func:`_pulled`; a source without an event loop's methods is read in a thread."""
    source = live.source
    try:
        with inside_step(live.identity.label):
            while True:
                if hasattr(source, "__anext__"):
                    chunk = await anext(source, _END)
                else:
                    chunk = await awaitable(start_in_thread(next, (source, _END), {}))
                if chunk is _END or live.chunks.take(chunk):
                    return chunk, None
    except BaseException as error:  # noqa: BLE001 - it is recorded, and raised again
        return None, error


def _from_outside(error: BaseException | None) -> bool:
    """Whether a block is left because its surroundings end: the run records the stream then, and asks again."""
    return error is not None and not isinstance(error, Exception)


def _let_go(source: Any) -> None:
    close = getattr(source, "close", None)
    if callable(close):
        with suppress(Exception):
            close()


async def _alet_go(source: Any) -> None:
    """Close a provider's stream in the task that read it; one that takes its time is left to itself."""
    import asyncio

    close = getattr(source, "aclose", None)
    if close is None:
        await awaitable(start_in_thread(_let_go, (source,), {}))
        return
    with suppress(Exception):
        async with asyncio.timeout(CLOSING_S):
            await close()
