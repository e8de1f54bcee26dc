"""The rough answer of a run under way: what parameters, gradients and the optimizer's state take at least."""

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coopsim.text import human

VARIABLE = "COOPSIM_FIT_ROUGH"  #: of the environment of a script's processes: the file to write
_EVERY_S = 0.2


@contextmanager
def answer(say: Callable[[str], None]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Within the context, call `say` with the rough answer once there is one; give variables for the script's run."""
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        file = Path(folder, "rough.json")

        def look() -> None:
            while not over.wait(_EVERY_S):
                if file.exists():
                    say(text(json.loads(file.read_text(encoding="utf-8"))))
                    return

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield ((VARIABLE, str(file)),)
        finally:
            over.set()
            watcher.join()


def text(found: dict[str, object]) -> str:
    """Return the answer in words.

    >>> text({"parameters": 1 << 30, "gradients": 1 << 29, "states": {"AdamW": 1 << 30}})
    'at least 2.5 GiB: parameters 1 GiB, gradients 512 MiB, the state of AdamW 1 GiB; activations come on top'
    """
    parts = [("parameters", found["parameters"]), ("gradients", found["gradients"])]
    states: dict[str, int] = found["states"]  # type: ignore[assignment]
    parts += [(f"the state of {kind}", nbytes) for kind, nbytes in states.items()]
    total = sum(nbytes for _, nbytes in parts)  # type: ignore[misc]
    said = ", ".join(f"{name} {human(nbytes)}" for name, nbytes in parts if nbytes)  # type: ignore[arg-type]
    return f"at least {human(total)}: {said}; activations come on top"
