"""Reliable broadcast and collectives over raw Ethernet frames.

``send`` and ``recv`` move a file, a directory or an object's memory from one host to all others and verify it;
``Communicator`` is a group of ranks that call each other. ``asend``, ``arecv`` and a communicator's calls with an ``a``
before their names are the same for ``asyncio``. ``share`` maps a file or directory of rank 0 on every host. All of them need root or ``CAP_NET_RAW``.
"""

from ._awaiting import awaitable, equip
from ._errors import Error, Status
from ._ethbcast import Cancel, Communicator, Report, __version__, recv, send
from ._share import Shared, share
from ._transfer import Transfer

__all__ = ["Cancel", "Communicator", "Error", "Report", "Shared", "Status", "Transfer", "__version__", "arecv", "asend",
           "recv", "send", "share"]

asend, arecv = awaitable(send), awaitable(recv)
equip(Communicator)
