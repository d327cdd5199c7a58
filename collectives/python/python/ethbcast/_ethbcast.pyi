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
"""Told how many bytes are there (at a sender: at the slowest receiver), and at a sender that receiver's name."""

class _Options(TypedDict, total=False):
    """For all calls; ``None`` stands for the library's own choice."""

    interface: str | None
    """The interface; without it, the only Ethernet interface that is up."""
    host: str | None
    """This host's name."""
    ether_type: int | str | None
    """The EtherType; all hosts must use the same."""
    topology: Path | None
    """A file of switches and hosts, or the name of a test bed."""
    calibration: Path | None
    """What the network costs, as ``ethbcast probe --out`` writes it."""
    plan: Path | None
    """A plan that ``ethbcast plan --out`` saved."""
    via: str | None
    """How bytes travel: auto, chain, cast, binary, kary=3 ..."""
    probe: bool | None
    """Whether to measure for up to 50 ms what the network costs."""

class _JoinOptions(_Options, total=False):
    join_within: float | None
    """How long to wait for all ranks, in seconds; 60 unless given."""
    call_within: float | None
    """How long a collective may stand still, and a message may take, in seconds; 60 unless given."""
    spin: float | None
    """How long a call that waits looks for frames before it sleeps, in seconds."""
    casts: bool | None
    """Whether one frame may go to all."""

class _SessionOptions(_Options, total=False):
    max_wait: float | None
    """How long to wait for the others, in seconds: 60 at a sender, without end at a receiver, unless given."""
    time_limit: float | None
    """How long the whole may take, in seconds."""
    priority: int | None
    """Priority of the frames, 0 to 7, for queueing disciplines and VLAN tags."""

class _SendOptions(_SessionOptions, total=False):
    receivers: int | None
    """With so many receivers it starts at once."""
    min_receivers: int | None
    """With so many it starts when ``max_wait`` is over."""
    hosts: str | Sequence[str] | None
    """The only receivers, by name: ``"n[1-3]"``, or ``"^FILE"``, a file of them."""
    source: str | None
    """What receivers are told of the bytes."""
    greedy: bool | None
    """Whether nothing is left to other traffic; otherwise up to half of each link is."""

@final
class Cancel:
    """Ends calls from any thread, or ``after`` some seconds: pass it as ``cancel=``.

    The call raises an ``Error`` whose status is ``CANCELLED``, and other hosts are told. A message is withdrawn, and
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
    """What a session came to."""

    @property
    def bytes(self) -> int:
        """How many bytes were sent or received."""
    @property
    def seconds(self) -> float:
        """From the first of them to the last verdict."""
    @property
    def blake3(self) -> builtins.bytes | None:
        """BLAKE3 of them."""
    @property
    def receivers(self) -> int:
        """At a sender: how many receivers have verified them."""
    @property
    def source(self) -> str:
        """At a receiver: what the sender calls them."""
    @property
    def via(self) -> str | None:
        """How they travelled, such as ``"cast"`` or ``"chain"``."""
    @property
    def path(self) -> "PathLike[str] | None":
        """At a receiver: where they are, if they were received to a path."""
    @property
    def data(self) -> builtins.bytes | None:
        """At a receiver: the bytes, if they were received to nowhere else."""

def send(
    content: Path | Buffer,
    group: str,
    *,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_SendOptions],
) -> Report:
    """Sends a file or directory, by its path, or the memory of an object to the receivers of ``group``.

    It returns when every one of them has verified it; who has not is named by the ``Error``. Say for whom to wait:
    ``receivers``, ``min_receivers`` or ``hosts``.
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

    A path is shown whole or not at all; what is there is kept unless ``replace``. ``accept`` lists the privileges that
    the sender may decide about, as ``ethbcast recv --accept`` does. Without ``into``, a sender that has
    more than ``most_bytes`` (a third of the memory that is available) turns this host away. Memory may be longer than what
    comes. After an error it may hold some of it.
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
        """How many ranks there are."""
    @property
    def host(self) -> str:
        """The name of this rank's host."""
    @property
    def hosts(self) -> list[str]:
        """The names of all hosts, by rank."""
    def broadcast(self, buffer: Buffer, root: int = 0, *, cancel: Cancel | None = None) -> None:
        """Puts the bytes that ``root`` has in its buffer into everybody's, in place.

        At the root it returns when they have been handed over to be sent, elsewhere when they are here.
        """
    def barrier(self, *, cancel: Cancel | None = None) -> None:
        """Waits until every rank has called it."""
    def scatter(
        self, blocks: Buffer | None, own: Buffer, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Puts block r of ``blocks``, as ``root`` has them, into rank r's ``own``; elsewhere ``blocks`` is ``None``."""
    def gather(
        self, own: Buffer, blocks: Buffer | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Puts every rank's ``own`` into the root's ``blocks``, by rank; elsewhere ``blocks`` is ``None``."""
    def allgather(self, own: Buffer, blocks: Buffer, *, cancel: Cancel | None = None) -> None:
        """Puts every rank's ``own`` into everybody's ``blocks``, by rank."""
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
        """Leaves the group; what this rank still owes the others is sent, for a second at most."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
