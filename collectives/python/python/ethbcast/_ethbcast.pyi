"""Types of the compiled module; ``ethbcast`` is its public name."""

import builtins
from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Protocol, Self, TypedDict, final

from typing_extensions import Buffer, Unpack

__version__: str

class _Tensor(Protocol):
    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

Path = str | PathLike[str]
Memory = Buffer | _Tensor
"""An object with the buffer protocol, or one of this host's memory with DLPack, such as a PyTorch tensor."""
Progress = Callable[[int, str | None], object]
"""Told how many bytes are there (at a sender: at the slowest receiver), and at a sender that receiver's name."""

class _Options(TypedDict, total=False):
    """For all calls; ``None`` stands for the library's own choice."""

    interface: str | None
    """The interface, by its name or an address; without it, the only Ethernet interface that is up."""
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
    preset: str | None
    """Protocol of a broadcast: default, paper or push-pull."""
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
    patience: float | None
    """How long to wait for a silent host while the others go on, in seconds; 30 unless given."""
    dead_after: float | None
    """After how much silence the others go on without a host, in seconds; 1.5 unless given."""
    mtu: int | None
    """The MTU to send with; without it, the interface's."""
    delta: bool | None
    """Whether receivers hold an earlier version in memory: only what has changed is sent."""

class _RecvOptions(_SessionOptions, total=False):
    once: bool | None
    """Whether to end when the first sender refuses this host, gives up or has started without it."""

class _SendOptions(_SessionOptions, total=False):
    receivers: int | None
    """With so many receivers it starts at once."""
    min_receivers: int | None
    """With so many it starts when ``max_wait`` is over."""
    hosts: str | Sequence[str] | None
    """The only receivers, by name: ``"n[1-3]"``, or ``"^FILE"``, a file of them."""
    source: str | None
    """What receivers are told of the bytes."""
    late: bool | None
    """Whether a receiver that comes after the start is admitted."""
    rate: str | None
    """Limit of each host's rate, such as ``"400mbit"``."""
    nice: bool | None
    """Whether every host lowers its rate while its frames queue."""
    chunk: int | str | None
    """Size of what is verified and compared: ``"16K"`` to ``"128K"``; ``"64K"``, with ``delta`` ``"16K"``, unless given."""
    stall: float | None
    """After how long without progress the others go on without a receiver, in seconds; 10 unless given."""
    sync_timeout: float | None
    """How long a receiver may take to verify and sync, in seconds; 120 unless given."""
    slow_after: float | None
    """How long a receiver may hold up the others, in seconds; 2 unless given."""
    on_slow: str | None
    """What becomes of one that does: demote, wait or evict."""

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
    def travelled(self) -> int | None:
        """How many bytes travelled to all, with hash lists, if receivers had an earlier version."""
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
    content: Path | Memory,
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
    into: Path | Memory | None = None,
    *,
    replace: bool = False,
    accept: str | None = None,
    most_bytes: int | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_RecvOptions],
) -> Report:
    """Receives what is sent to ``group``: to a path, into the memory of an object, or as ``Report.data``.

    A path is shown whole or not at all; what is there is kept unless ``replace``. ``accept`` lists the privileges that
    the sender may decide about, as ``ethbcast recv --accept`` does. Without ``into``, a sender that has
    more than ``most_bytes`` (a third of the memory that is available) turns this host away. Memory may be longer than what
    comes. After an error it may hold some of it. With ``delta=True`` memory holds an earlier version, and only what has
    changed comes.
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
    def broadcast(self, buffer: Memory, root: int = 0, *, cancel: Cancel | None = None) -> None:
        """Puts the bytes that ``root`` has in its buffer into everybody's, in place.

        At the root it returns when they have been handed over to be sent, elsewhere when they are here.
        """
    def barrier(self, *, cancel: Cancel | None = None) -> None:
        """Waits until every rank has called it."""
    def scatter(
        self, blocks: Memory | None, own: Memory, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Puts block r of ``blocks``, as ``root`` has them, into rank r's ``own``; elsewhere ``blocks`` is ``None``."""
    def gather(
        self, own: Memory, blocks: Memory | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Puts every rank's ``own`` into the root's ``blocks``, by rank; elsewhere ``blocks`` is ``None``."""
    def allgather(self, own: Memory, blocks: Memory, *, cancel: Cancel | None = None) -> None:
        """Puts every rank's ``own`` into everybody's ``blocks``, by rank."""
    def send(
        self, data: Memory, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None:
        """Sends a message: a short one at once, a long one when the other rank receives it."""
    def recv(
        self, buffer: Memory, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> int:
        """Receives the next message of ``tag`` into the beginning of a buffer; returns its length in bytes."""
    def shrink(self, *, cancel: Cancel | None = None) -> None:
        """Goes on with the ranks that live, after others died or left (ULFM's ``MPIX_Comm_shrink``).

        All that live call it, within ``call_within``, and have new ranks then, in the old order. Messages that were
        under way are dropped. After an error the group is as before.
        """
    @staticmethod
    async def ajoin(
        group: str, size: int, *, cancel: Cancel | None = None, **options: Unpack[_JoinOptions]
    ) -> Communicator:
        """As ``join``; it and the calls below end when their task is cancelled."""
    async def abroadcast(self, buffer: Memory, root: int = 0, *, cancel: Cancel | None = None) -> None: ...
    async def abarrier(self, *, cancel: Cancel | None = None) -> None: ...
    async def ascatter(
        self, blocks: Memory | None, own: Memory, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def agather(
        self, own: Memory, blocks: Memory | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def aallgather(self, own: Memory, blocks: Memory, *, cancel: Cancel | None = None) -> None: ...
    async def asend(
        self, data: Memory, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None: ...
    async def arecv(
        self, buffer: Memory, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> int: ...
    async def ashrink(self, *, cancel: Cancel | None = None) -> None: ...
    def close(self) -> None:
        """Leaves the group; what this rank still owes the others is sent, for a second at most."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
