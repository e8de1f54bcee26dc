"""What the user is told while the script runs: how each run goes, and a rough answer before the first step.

The rough answer is what parameters, gradients and the optimizer's state take at least.
"""

import itertools
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coopsim.base.text import human

VARIABLE = "COOPSIM_FIT_ROUGH"  #: of the environment of a script's processes: the file for the rough answer
_LOOK_S = 0.2
_EVERY_S = 30  #: seconds between the lines which say that a run is still under way


class Runs:
    """Numbers the runs, of which several may be under way, and says when each begins and ends. `count`: how many."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.count = 0

    def note(self, said: str) -> None:
        """Say something of the run that began last."""
        self._say(f"[{self.count}] {said}")

    @contextmanager
    def one(self, what: str) -> Iterator[Callable[[str], None]]:
        """Report a run of `what` that takes place within the context, which gets a function to say how it ended."""
        with self._lock:
            number = self.count = next(self._numbers)
        began, over = time.monotonic(), threading.Event()

        def told(said: str) -> None:
            self._say(f"[{number}] {said}")

        def remind() -> None:
            while not over.wait(_EVERY_S):
                told(f"… for {time.monotonic() - began:.0f} s now: {what}")

        told(f"{what} …")
        threading.Thread(target=remind, daemon=True).start()
        try:
            yield lambda said: told(f"{said} ({time.monotonic() - began:.0f} s)")
        finally:
            over.set()


@contextmanager
def rough_answer(say: Callable[[str], None]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Within the context, call `say` with the rough answer once there is one; give variables for the script's run."""
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        file = Path(folder, "rough.json")

        def look() -> None:
            while not over.wait(_LOOK_S):
                if file.exists():
                    found = json.loads(file.read_text(encoding="utf-8"))
                    if found["parameters"]:  # which ZeRO-3 has not yet, but gathers
                        say(rough_text(found))
                    return

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield ((VARIABLE, str(file)),)
        finally:
            over.set()
            watcher.join()


def rough_text(found: dict[str, object]) -> str:
    """Return the answer in words.

    >>> rough_text({"parameters": 1 << 30, "gradients": 1 << 29, "states": {"AdamW": 1 << 30}})
    'at least 2.5 GiB: parameters 1 GiB, gradients 512 MiB, the state of AdamW 1 GiB; activations come on top'
    """
    parts = [("parameters", found["parameters"]), ("gradients", found["gradients"])]
    states: dict[str, int] = found["states"]  # type: ignore[assignment]
    parts += [(f"the state of {kind}", nbytes) for kind, nbytes in states.items()]
    total = sum(nbytes for _, nbytes in parts)  # type: ignore[misc]
    said = ", ".join(f"{name} {human(nbytes)}" for name, nbytes in parts if nbytes)  # type: ignore[arg-type]
    return f"at least {human(total)}: {said}; activations come on top"
