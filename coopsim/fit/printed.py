"""A copy of the user's script with the lines of a remedy in it, to be run in its place."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_MOST = 10_000  #: files beside the script, each of which takes a link
_CACHE = "__pycache__"


@contextmanager
def copied(command: tuple[str, ...], texts: Mapping[str, str]) -> Iterator[tuple[str, ...] | None]:
    """The command for a copy in which files have these texts; None if there can be none.

    The copy is a folder of links to what lies beside the script, with folders of their own only on the way to what
    differs. The script itself is a copy, as Python imports from the folder where a linked one lies. The command names
    it by a word that ends in .py; what it imports from elsewhere cannot be copied.
    """
    script = next((word for word in command if word.endswith(".py") and Path(word).is_file()), None)
    if script is None:
        yield None
        return
    beside = Path(script).resolve().parent
    wanted = {Path(script).resolve(): Path(script).read_text(encoding="utf-8")}
    wanted |= {Path(file).resolve(): text for file, text in texts.items()}
    if not all(file.is_relative_to(beside) for file in wanted) or len(os.listdir(beside)) > _MOST:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        _mirror(beside, Path(folder), wanted)
        copy = str(Path(folder, Path(script).resolve().name))
        yield tuple(copy if word == script else word for word in command)


def _mirror(folder: Path, to: Path, texts: Mapping[Path, str]) -> None:
    """Links to all that is in a folder, but for files that have another text."""
    for entry in folder.iterdir():
        place = to / entry.name
        if entry in texts:
            place.write_text(texts[entry], encoding="utf-8")
        elif any(file.is_relative_to(entry) for file in texts):
            place.mkdir()
            _mirror(entry, place, texts)
        elif entry.name != _CACHE:  # Python writes there what it compiles
            place.symlink_to(entry)
