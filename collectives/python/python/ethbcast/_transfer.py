"""A session in a thread of its own, whose progress is iterated."""

import asyncio
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ._ethbcast import Cancel, Report


class Transfer:
    """A running ``send`` or ``recv``, as an iterator of progress: ``(bytes, slowest)``, by ``for`` or ``async for``.

    It begins at once, and iteration ends with it: with its exception, if it fails. A ``with`` block that is left before
    ends it, and so does an exception that iteration meets, such as ``KeyboardInterrupt``.
    """

    def __init__(self, call: Callable[..., Report], *given: Any, cancel: Cancel | None = None, **named: Any) -> None:
        self._cancel = cancel or Cancel()
        self._moves: queue.SimpleQueue[tuple[int, str | None] | None] = queue.SimpleQueue()
        self._ended: list[Report | BaseException] = []

        def run() -> None:
            try:
                ended: Report | BaseException = call(
                    *given, cancel=self._cancel, progress=lambda *moved: self._moves.put(moved), **named
                )
            except BaseException as raised:
                ended = raised
            self._ended.append(ended)
            self._moves.put(None)

        self._thread = threading.Thread(target=run, name="ethbcast")
        self._thread.start()

    def cancel(self) -> None:
        """Ends the session, from any thread."""
        self._cancel.cancel()

    @property
    def report(self) -> Report:
        """The session's report: waits for its end, and raises what it has failed with."""
        self._thread.join()
        ended = self._ended[0]
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def _next(self) -> tuple[int, str | None] | None:
        moved = self._moves.get()
        if moved is None:
            self._moves.put(None)  # For whoever asks again.
        return moved

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, str | None]:
        try:
            moved = self._next()
        except BaseException:
            self.cancel()
            raise
        if moved is None:
            _ = self.report
            raise StopIteration
        return moved

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[int, str | None]:
        try:
            moved = await asyncio.to_thread(self._next)
        except BaseException:
            self.cancel()
            raise
        if moved is None:
            _ = self.report
            raise StopAsyncIteration
        return moved

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        self._thread.join()
