"""A file or directory of one host, mapped into the memory of a process on each host."""

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ._ethbcast import Report, recv, send

_VARIABLES = {"rank": ("RANK", "SLURM_PROCID"), "size": ("WORLD_SIZE", "SLURM_NTASKS")}


def _told(what: str) -> int:
    """Returns a number that torchrun or Slurm has put into the environment."""
    for name in _VARIABLES[what]:
        if name in os.environ:
            return int(os.environ[name])
    raise ValueError(f"no {what}: give it, or set {_VARIABLES[what][0]}, as torchrun does")


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        # Nothing cannot be mapped.
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if os.fstat(file.fileno()).st_size else b"")


class Shared(Mapping[str, memoryview]):
    """Files by their names, each as read-only memory, which is mapped when it is first asked for.

    ``shared["model-00001.safetensors"]`` is memory of a file in a shared directory; a shared file has its own name as
    the only key, and its memory is also ``shared.memory``. Links to files are files here.
    """

    def __init__(self, path: Path, report: Report) -> None:
        self.path, self.report = path, report
        self._maps: dict[str, memoryview] = {}
        if path.is_dir():
            found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
            self._paths = {str(one.relative_to(path)): one for one in sorted(found) if one.is_file()}
        else:
            self._paths = {path.name: path}

    def __getitem__(self, name: str) -> memoryview:
        if name not in self._maps:
            self._maps[name] = _mapped(self._paths[name])
        return self._maps[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def memory(self) -> memoryview:
        """The memory of a shared file."""
        (name,) = self._paths
        return self[name]


def share(
    path: str | os.PathLike[str],
    group: str | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    into: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Shared:
    """Copies what rank 0 has at ``path`` to all ``size`` ranks, one on each host, and maps it there.

    The copies are verified, and replace what the others have at ``into`` (without it, at ``path``) when they are whole.
    ``rank`` and ``size`` are those of torchrun or Slurm if they are not given; without ``group`` it is called after
    the file. Other options are those of ``send`` and ``recv``.
    """
    rank = _told("rank") if rank is None else rank
    size = _told("size") if size is None else size
    place = Path(path if rank == 0 or into is None else into)
    group = group or f"share-{Path(path).name}"
    if rank == 0:
        return Shared(place, send(place, group, receivers=size - 1, **options))
    place.parent.mkdir(parents=True, exist_ok=True)
    return Shared(place, recv(group, place, replace=True, **options))
