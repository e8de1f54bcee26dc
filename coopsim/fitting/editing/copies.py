"""Copy the user's script with the lines of a remedy in it, to run the copy in its place."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from coopsim.fitting.editing import texts as sources

_MOST = 10_000  #: files beside the script, at most: each takes a link
_CACHE = "__pycache__"


def can_copy(command: tuple[str, ...], texts: Mapping[str, str]) -> bool:
    """Return whether the script of a command can be copied, with other `texts` of files, by path (copied).

    Files that the command names may be anywhere. For others, it must name a script (a word that ends in .py), they must
    be in the script's folder, and that must not have too many files.
    """
    script, others = _script(command), [file for file in texts if not _names(command, file)]
    if script is None:
        return bool(texts) and not others
    beside = Path(script).resolve().parent
    return all(Path(file).resolve().is_relative_to(beside) for file in others) and len(os.listdir(beside)) <= _MOST


@contextmanager
def copied(command: tuple[str, ...], texts: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Within the context, give the command for a copy of the script in which files have these `texts`, by path.

    It is the command itself if the script cannot be copied (can_copy). The copy is a folder of links to what is beside
    the script, with real folders only where a file within differs. The script itself is copied, as Python would import
    from the folder of a link's target. Files that the command names are copied on their own.
    """
    script = _script(command)
    if not can_copy(command, texts):
        yield command
        return
    named = {file: text for file, text in texts.items() if _names(command, file)}
    wanted = {Path(file).resolve(): text for file, text in texts.items() if file not in named}
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        for i, (file, text) in enumerate(named.items()):
            copy = Path(folder, f"settings-{i}", Path(file).name)
            copy.parent.mkdir()
            copy.write_bytes(sources.encoded(file, text))
            command = tuple(str(copy).join(word.rsplit(file, 1)) if _names((word,), file) else word for word in command)
        if script is not None and (wanted or not named):
            path = Path(script).resolve()
            _mirror(path.parent, Path(folder), {path: sources.read(script)} | wanted)
            command = tuple(str(Path(folder, path.name)) if word == script else word for word in command)
        yield command


def _names(command: tuple[str, ...], file: str) -> bool:
    """Return whether a word of a command names a file of settings."""
    return any(file in (word, word.partition("=")[2]) for word in command) and not file.endswith(".py")


def _script(command: tuple[str, ...]) -> str | None:
    return next((word for word in command if word.endswith(".py") and Path(word).is_file()), None)


def _mirror(folder: Path, to: Path, texts: Mapping[Path, str]) -> None:
    """Link everything in a folder to another, except the files in `texts`, which are written."""
    for entry in folder.iterdir():
        place = to / entry.name
        if entry in texts:
            place.write_bytes(sources.encoded(entry, texts[entry]))
        elif any(file.is_relative_to(entry) for file in texts):
            place.mkdir()
            _mirror(entry, place, texts)
        elif entry.name != _CACHE:  # Python writes compiled files there
            place.symlink_to(entry)
