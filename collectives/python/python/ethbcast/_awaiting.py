"""Awaitable forms of the calls that wait: each runs in a thread of its own, and ends when its task is cancelled."""

import asyncio
import functools
import threading

from ._ethbcast import Cancel

CALLS = ["broadcast", "barrier", "scatter", "gather", "allgather", "reduce", "allreduce", "send", "recv", "shrink"]


def awaitable(blocking):
    """Returns the awaitable form of a call that takes ``cancel``.

    When its task is cancelled, it waits until the call has ended: until then the call uses the caller's memory.
    """

    @functools.wraps(blocking)
    async def call(*given, cancel=None, progress=None, **named):
        loop = asyncio.get_running_loop()
        cancel, ended = cancel or Cancel(), loop.create_future()
        if progress is not None:
            named["progress"] = lambda *moved: loop.call_soon_threadsafe(progress, *moved)

        def tell(settle, value):
            if not ended.done():
                settle(value)

        def run():
            try:
                result = ended.set_result, blocking(*given, cancel=cancel, **named)
            except BaseException as raised:
                result = ended.set_exception, raised
            loop.call_soon_threadsafe(tell, *result)

        threading.Thread(target=run, name="ethbcast").start()
        cancelled = None
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as told:
                cancelled = told
                cancel.cancel()
        if cancelled is None:
            return ended.result()
        # A group that was joined in the same moment belongs to nobody.
        if ended.exception() is None and hasattr(ended.result(), "close"):
            ended.result().close()
        raise cancelled

    call.__name__ = call.__qualname__ = f"a{blocking.__name__}"
    return call


def equip(communicator):
    """Gives the class the awaitable forms of its calls."""
    for name in CALLS:
        setattr(communicator, f"a{name}", awaitable(getattr(communicator, name)))
    communicator.ajoin = staticmethod(awaitable(communicator.join))
