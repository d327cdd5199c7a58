"""What a call can fail with."""

import enum


class Status(enum.IntEnum):
    """What sort of failure it is. Up to 5 the numbers are the exit codes of the program ethbcast."""

    SOME_FAILED = 1
    """Not every receiver has the bytes, or the group's work has failed at others."""
    USAGE = 2
    """An argument, a file or an option cannot be, or contradicts what the others were told."""
    NOBODY = 3
    """Nobody was there, not everybody came, or the time was up."""
    SYSTEM = 4
    """The system: interface, permission, memory, a file."""
    INTEGRITY = 5
    """The bytes are not the sender's."""
    MISMATCH = 6
    """The ranks' calls differ."""
    GONE = 7
    """A rank is silent, cut off or has left."""
    TOO_LONG = 8
    """A message is longer than the buffer for it."""
    CANCELLED = 9
    """It was ended before its time."""


class Error(Exception):
    """A call of ethbcast has failed: one sentence that says what to do, and what sort of failure it is."""

    def __init__(self, status: int, text: str, failed: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = Status(status)
        self.failed = dict(failed or {})
        """The hosts that failed, as far as they are known, each with the reason."""

    def __reduce__(self) -> tuple[type["Error"], tuple[int, str, dict[str, str]]]:
        return type(self), (int(self.status), str(self), self.failed)
