"""Types of the compiled module; ``ethbcast`` is its public name."""

import builtins
from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Self, TypedDict, final

from typing_extensions import Buffer, Unpack

__version__: str

Path = str | PathLike[str]
Progress = Callable[[int, str | None], object]
"""Called with the bytes present (at a sender: at the slowest receiver), and at a sender that receiver's name."""

class _Options(TypedDict, total=False):
    """Options of all calls; ``None`` is the library's default."""

    interface: str | None
    """The interface; without it, the only Ethernet interface that is up."""
    host: str | None
    """This host's name."""
    ether_type: int | str | None
    """The EtherType; all hosts must use the same."""
    topology: Path | None
    """A file of switches and hosts, or the name of a test bed."""
    calibration: Path | None
    """A file of measured network costs, as ``ethbcast probe --out`` writes it."""
    plan: Path | None
    """A plan that ``ethbcast plan --out`` saved."""
    via: str | None
    """The broadcast algorithm: auto, chain, cast, binary, kary=3 ..."""
    probe: bool | None
    """Whether to measure the network costs, for up to 50 ms."""

class _JoinOptions(_Options, total=False):
    join_within: float | None
    """Longest wait for all ranks, in seconds (default: 60)."""
    call_within: float | None
    """Longest time without progress of a collective, and longest time of a message, in seconds (default: 60)."""
    spin: float | None
    """Time that a waiting call polls for frames before it sleeps, in seconds."""
    casts: bool | None
    """Whether broadcast frames may be used."""

class _SessionOptions(_Options, total=False):
    max_wait: float | None
    """Longest wait for the others, in seconds (default: 60 at a sender, no limit at a receiver)."""
    time_limit: float | None
    """Time limit of the whole call, in seconds."""

class _SendOptions(_SessionOptions, total=False):
    receivers: int | None
    """Number of receivers at which the transfer starts at once."""
    min_receivers: int | None
    """Number of receivers with which it starts when ``max_wait`` is over."""
    hosts: str | Sequence[str] | None
    """The only receivers, by name: ``"n[1-3]"``, or ``"^FILE"``, a file of them."""
    source: str | None
    """A name of the bytes, shown to receivers."""

@final
class Cancel:
    """Ends calls from any thread, or ``after`` some seconds: pass it as ``cancel=``.

    The call raises an ``Error`` whose status is ``CANCELLED``, and notifies other hosts. A message is withdrawn, and
    the group goes on; a collective and all later ones fail on all ranks.
    """

    def __init__(self, *, after: float | None = None) -> None: ...
    def cancel(self) -> None:
        """Ends the calls that have this handle, now and later."""
    @property
    def is_cancelled(self) -> bool:
        """Whether calls with this handle end."""

@final
class Report:
    """The result of a session."""

    @property
    def bytes(self) -> int:
        """Number of bytes sent or received."""
    @property
    def seconds(self) -> float:
        """Seconds from the first byte to the last verdict."""
    @property
    def blake3(self) -> builtins.bytes | None:
        """BLAKE3 digest of the bytes."""
    @property
    def receivers(self) -> int:
        """At a sender: number of receivers that have verified the bytes."""
    @property
    def source(self) -> str:
        """At a receiver: the sender's name for the bytes."""
    @property
    def via(self) -> str | None:
        """The broadcast algorithm used, such as ``"cast"`` or ``"chain"``."""
    @property
    def path(self) -> "PathLike[str] | None":
        """At a receiver: the path of the bytes, if they were received to one."""
    @property
    def data(self) -> builtins.bytes | None:
        """At a receiver: the bytes, if they were received into neither a path nor a buffer."""

def send(
    content: Path | Buffer,
    group: str,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_SendOptions],
) -> Report:
    """Sends a file or directory, by its path, or the memory of an object to the receivers of ``group``.

    It returns when every receiver has verified the content; the ``Error`` names those that have not. Say for whom to
    wait: ``receivers``, ``min_receivers`` or ``hosts``.
    """

def recv(
    group: str,
    into: Path | Buffer | None = None,
    *,
    replace: bool = False,
    accept: str | None = None,
    most_bytes: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_SessionOptions],
) -> Report:
    """Receives what is sent to ``group``: to a path, into the memory of an object, or as ``Report.data``.

    A path appears whole or not at all; an existing one is kept unless ``replace``. ``accept`` lists the privileges that
    the sender may decide about, as ``ethbcast recv --accept`` does. Without ``into``, a sender that has
    more than ``most_bytes`` (a third of the memory that is available) is refused. Memory may be longer than the
    content. After an error it may hold a part of it.
    """

@final
class Communicator:
    """A group of ranks that call each other.

    All ranks call the collectives in the same order with the same root and length. Left as a context manager without
    an exception, it ends with a barrier.
    """

    @staticmethod
    def join(
        group: str, size: int, *, cancel: Cancel | None = None, **options: Unpack[_JoinOptions]
    ) -> Communicator:
        """Joins ``group`` and waits until all ``size`` ranks are there, in the natural order of the hosts' names."""
    @property
    def rank(self) -> int:
        """This process's rank."""
    @property
    def size(self) -> int:
        """Number of ranks."""
    @property
    def host(self) -> str:
        """The name of this rank's host."""
    @property
    def hosts(self) -> list[str]:
        """The names of all hosts, by rank."""
    def broadcast(self, buffer: Buffer, root: int = 0, *, cancel: Cancel | None = None) -> None:
        """Copies the bytes of the root's buffer into the buffers of all ranks, in place.

        At the root it returns when they have been handed over to be sent, elsewhere when they have arrived.
        """
    def barrier(self, *, cancel: Cancel | None = None) -> None:
        """Waits until every rank has called it."""
    def scatter(
        self, blocks: Buffer | None, own: Buffer, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Copies block r of the root's ``blocks`` into rank r's ``own``; elsewhere ``blocks`` is ``None``."""
    def gather(
        self, own: Buffer, blocks: Buffer | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Copies every rank's ``own`` into the root's ``blocks``, by rank; elsewhere ``blocks`` is ``None``."""
    def allgather(self, own: Buffer, blocks: Buffer, *, cancel: Cancel | None = None) -> None:
        """Copies every rank's ``own`` into every rank's ``blocks``, by rank."""
    def send(
        self, data: Buffer, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None:
        """Sends a message: a short one at once, a long one when the other rank receives it."""
    def recv(
        self, buffer: Buffer, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> int:
        """Receives the next message of ``tag`` into the beginning of a buffer; returns its length in bytes."""
    @staticmethod
    async def ajoin(
        group: str, size: int, *, cancel: Cancel | None = None, **options: Unpack[_JoinOptions]
    ) -> Communicator:
        """As ``join``; it and the calls below end when their task is cancelled."""
    async def abroadcast(self, buffer: Buffer, root: int = 0, *, cancel: Cancel | None = None) -> None: ...
    async def abarrier(self, *, cancel: Cancel | None = None) -> None: ...
    async def ascatter(
        self, blocks: Buffer | None, own: Buffer, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def agather(
        self, own: Buffer, blocks: Buffer | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def aallgather(self, own: Buffer, blocks: Buffer, *, cancel: Cancel | None = None) -> None: ...
    async def asend(
        self, data: Buffer, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None: ...
    async def arecv(
        self, buffer: Buffer, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> int: ...
    def close(self) -> None:
        """Leaves the group, after sending frames that others still need, for a second at most."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
