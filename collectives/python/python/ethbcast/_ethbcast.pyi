"""Types of the compiled module; ``ethbcast`` is its public name."""

import builtins
from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Protocol, Self, TypedDict, final

from typing_extensions import Buffer, Unpack

__version__: str

__all__ = ["Communicator", "Report", "recv", "send", "Cancel", "__version__"]

class _Tensor(Protocol):
    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

_Path = str | PathLike[str]
_Memory = Buffer | _Tensor
"""An object with the buffer protocol, or one of this host's memory with DLPack, such as a PyTorch tensor."""
_Progress = Callable[[int, str | None], object]
"""Called with the bytes present (at a sender: at the slowest receiver), and at a sender that receiver's name."""

class _Options(TypedDict, total=False):
    """Options of all calls; ``None`` is the library's default."""

    interface: str | None
    """The interface: a name, a MAC or IP address, a network (10.1.0.0/16); without it, the only Ethernet interface up."""
    host: str | None
    """This host's name."""
    ether_type: int | str | None
    """The EtherType; all hosts must use the same."""
    over: str | None
    """The carrier of frames, the same on all hosts: ``"ethernet"``, or ``"udp"``, which needs no right."""
    topology: _Path | None
    """A file of switches and hosts, or the name of a test bed."""
    calibration: _Path | None
    """A file of measured network costs, as ``ethbcast probe --out`` writes it."""
    plan: _Path | None
    """A plan that ``ethbcast plan --out`` saved."""
    via: str | None
    """The broadcast algorithm: auto, chain, cast, binary, kary=3 ..."""
    preset: str | None
    """Protocol of a broadcast: default, paper or push-pull."""
    probe: bool | None
    """Whether to measure the network costs, for up to 50 ms."""
    key: _Path | None
    """A key file, or ``"auto"``: the key that this host has."""
    key_phrase: str | None
    """A key phrase."""
    unkeyed: bool | None
    """Whether to speak without a key on a host that has one."""
    dead_after: float | None
    """Silence after which a host or rank counts as dead, in seconds (default: 1.5)."""
    mtu: int | None
    """The MTU of frames; without it, the interface's."""
    priority: int | None
    """Priority of the frames, 0 to 7, for queueing disciplines and VLAN tags."""
    ttl: int | None
    """Time to live of frames over UDP by multicast (default: 1, this network)."""

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
    patience: float | None
    """Longest wait for a silent host while the others go on, in seconds (default: 30)."""
    delta: bool | None
    """Whether receivers hold an earlier version in memory: only changed chunks are sent."""

class _RecvOptions(_SessionOptions, total=False):
    sender: str | None
    """Over unicast the sender to ask, by name or IPv4 address: no other is accepted, and it needs no ``hosts``."""
    once: bool | None
    """Whether to end when the first sender refuses this host, gives up or has started without it."""

class _SendOptions(_SessionOptions, total=False):
    receivers: int | None
    """Number of receivers at which the transfer starts at once."""
    min_receivers: int | None
    """Number of receivers with which it starts when ``max_wait`` is over."""
    hosts: str | Sequence[str] | None
    """The only receivers, by name: ``"n[1-3]"``, or ``"^FILE"``, a file of them."""
    source: str | None
    """A name of the bytes, shown to receivers."""
    late: bool | None
    """Whether a receiver that comes after the start is admitted."""
    carousel: float | None
    """Time without a newcomer after which a further round begins, in seconds."""
    rate: str | None
    """Rate limit of each host, such as ``"400mbit"``."""
    nice: bool | None
    """Whether every host lowers its rate while its frames queue."""
    greedy: bool | None
    """Whether nothing is left to other traffic; otherwise up to half of each link is."""
    chunk: int | str | None
    """Chunk size, ``"16K"`` to ``"128K"`` (default: ``"64K"``; ``"16K"`` with ``delta``)."""
    stall: float | None
    """Time without progress after which the others go on without a receiver, in seconds (default: 10)."""
    sync_timeout: float | None
    """Longest time in which a receiver may verify and sync, in seconds (default: 120)."""
    slow_after: float | None
    """Longest time for which a receiver may hold up the others, in seconds (default: 2)."""
    on_slow: str | None
    """Treatment of a receiver that does: demote, wait or evict."""

@final
class Cancel:
    """Ends calls from any thread, or ``after`` some seconds: pass it as ``cancel=``.

    The call raises an ``Error`` whose status is ``CANCELLED``, and notifies other hosts. A message is withdrawn, and
    the group goes on; a collective and all later ones fail on all ranks.
    """

    def __new__(cls, *, after: float | None = None) -> Self: ...
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
    def travelled(self) -> int | None:
        """Number of bytes sent to all, with hash lists, if receivers held an earlier version."""
    @property
    def receivers(self) -> int:
        """At a sender: number of receivers that have verified the bytes."""
    @property
    def behind(self) -> int:
        """At a sender: number of hosts of other networks that have verified them, behind relays."""
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
    content: _Path | _Memory,
    group: str,
    *,
    progress: _Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_SendOptions],
) -> Report:
    """Sends a file or directory, by its path, or the memory of an object to the receivers of ``group``.

    It returns when every receiver has verified the content; the ``Error`` names those that have not. Say for whom to
    wait: ``receivers``, ``min_receivers`` or ``hosts``.
    """

def recv(
    group: str,
    into: _Path | _Memory | None = None,
    *,
    replace: bool = False,
    accept: str | None = None,
    most_bytes: int | None = None,
    progress: _Progress | None = None,
    cancel: Cancel | None = None,
    **options: Unpack[_RecvOptions],
) -> Report:
    """Receives what is sent to ``group``: to a path, into the memory of an object, or as ``Report.data``.

    A path appears whole or not at all; an existing one is kept unless ``replace``. ``accept`` lists the privileges that
    the sender may decide about, as ``ethbcast recv --accept`` does. Without ``into``, a sender that has
    more than ``most_bytes`` (a third of the memory that is available) is refused. Memory may be longer than the
    content. After an error it may hold a part of it. With ``delta=True`` memory holds an earlier version, of
    which only changed chunks come.
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
    def broadcast(self, buffer: _Memory, root: int = 0, *, cancel: Cancel | None = None) -> None:
        """Copies the bytes of the root's buffer into the buffers of all ranks, in place.

        At the root it returns when they have been handed over to be sent, elsewhere when they have arrived.
        """
    def barrier(self, *, cancel: Cancel | None = None) -> None:
        """Waits until every rank has called it."""
    def scatter(
        self, blocks: _Memory | None, own: _Memory, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Copies block r of the root's ``blocks`` into rank r's ``own``; elsewhere ``blocks`` is ``None``."""
    def gather(
        self, own: _Memory, blocks: _Memory | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None:
        """Copies every rank's ``own`` into the root's ``blocks``, by rank; elsewhere ``blocks`` is ``None``."""
    def allgather(self, own: _Memory, blocks: _Memory, *, cancel: Cancel | None = None) -> None:
        """Copies every rank's ``own`` into every rank's ``blocks``, by rank."""
    def reduce(
        self, buffer: _Memory, op: str = "sum", root: int = 0, *, type: str | None = None, cancel: Cancel | None = None
    ) -> None:
        """Combines the numbers of all ranks' buffers, in place at ``root``: their ``sum``, ``min`` or ``max``."""
    def allreduce(
        self, buffer: _Memory, op: str = "sum", *, type: str | None = None, cancel: Cancel | None = None
    ) -> None:
        """Combines the numbers of all ranks' buffers, in place at all ranks."""
    def send(
        self, data: _Memory, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None:
        """Sends a message: a short one at once, a long one when the other rank receives it."""
    def recv(
        self, buffer: _Memory, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
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
    async def abroadcast(self, buffer: _Memory, root: int = 0, *, cancel: Cancel | None = None) -> None: ...
    async def abarrier(self, *, cancel: Cancel | None = None) -> None: ...
    async def ascatter(
        self, blocks: _Memory | None, own: _Memory, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def agather(
        self, own: _Memory, blocks: _Memory | None, root: int = 0, *, cancel: Cancel | None = None
    ) -> None: ...
    async def aallgather(self, own: _Memory, blocks: _Memory, *, cancel: Cancel | None = None) -> None: ...
    async def areduce(
        self, buffer: _Memory, op: str = "sum", root: int = 0, *, type: str | None = None, cancel: Cancel | None = None
    ) -> None: ...
    async def aallreduce(
        self, buffer: _Memory, op: str = "sum", *, type: str | None = None, cancel: Cancel | None = None
    ) -> None: ...
    async def asend(
        self, data: _Memory, to: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> None: ...
    async def arecv(
        self, buffer: _Memory, source: int, tag: int = 0, *, within: float | None = None, cancel: Cancel | None = None
    ) -> int: ...
    async def ashrink(self, *, cancel: Cancel | None = None) -> None: ...
    def close(self) -> None:
        """Leaves the group, after sending frames that others still need, for a second at most."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
