"""Report runs to the user while they are made."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
