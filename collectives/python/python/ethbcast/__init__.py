"""Reliable broadcast and collectives over raw Ethernet frames.

``send`` and ``recv`` move a file, a directory or an object's memory from one host to all others and verify it;
``Communicator`` is a group of ranks that call each other. All of them need root or ``CAP_NET_RAW``.
"""

from ._errors import Error, Status
from ._ethbcast import Communicator, Report, __version__, recv, send

__all__ = ["Communicator", "Error", "Report", "Status", "__version__", "recv", "send"]
