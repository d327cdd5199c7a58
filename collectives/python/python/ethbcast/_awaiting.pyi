"""Types of the awaitable forms; ``ethbcast`` has their public names."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from ._ethbcast import Communicator

_P = ParamSpec("_P")
_T = TypeVar("_T")

def awaitable(blocking: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]: ...
def equip(communicator: type[Communicator]) -> None: ...
