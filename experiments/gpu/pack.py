"""A folder of results as a few tar files, for a way back that lets through only few files of limited size."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

from coopsim.base import files

LARGEST = 15 << 20  #: bytes of a tar file
_BLOCK = 512  # tar's
_ROOM = LARGEST - 10240  # what an end takes at most


def pack(folder: Path, to: Path) -> list[str]:
    """Write FOLDER-1.tar, FOLDER-2.tar, … into `to`; each unpacks by itself, into FOLDER/. Same files, same bytes.

    The names of files that are too large for it, and left out.
    """
    for number, part in enumerate(_parts(folder), 1):
        path = to / f"{folder.name}-{number}.tar"
        with files.replacing(path) as scratch, tarfile.open(scratch, "w", format=tarfile.PAX_FORMAT) as tar:
            for file in part:
                entry = tarfile.TarInfo(f"{folder.name}/{file.name}")
                entry.size = file.stat().st_size
                with file.open("rb") as content:
                    tar.addfile(entry, content)
    return [file.name for file in _files(folder) if _size(file) > _ROOM]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if not file.name.startswith("."))


def _size(file: Path) -> int:
    """Bytes of a tar file that a file takes."""
    return _BLOCK + -(-file.stat().st_size // _BLOCK) * _BLOCK


def _parts(folder: Path) -> Iterator[list[Path]]:
    """The files in order of their names, as many together as fit."""
    part: list[Path] = []
    left = _ROOM
    for file in _files(folder):
        size = _size(file)
        if size > _ROOM:
            continue
        if size > left:
            yield part
            part, left = [], _ROOM
        part.append(file)
        left -= size
    if part:
        yield part
