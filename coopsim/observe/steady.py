"""The recorded part of a program's run: from one moment between two steps to a later one."""

import gc
from typing import Any

from coopsim.observe import roles
from coopsim.observe.effects import tensors
from coopsim.observe.native import memory
from coopsim.observe.recorder import NextStep, Recorder, Recording


class Steady:
    """Records consecutive steps of a program that has warmed up. The recorder runs already, and goes on running."""

    def __init__(self, recorder: Recorder) -> None:
        gc.collect()
        self._recorder = recorder
        objects = roles.Objects.now()
        roles.assign(objects, recorder.ledger)
        self._hooks = roles.GradientHooks(objects.leaves(), recorder.ledger)
        recorder.where.know(objects.modules)
        self._about: dict[str, Any] = {
            # of a rank its shards; a layer that is taken apart has no bytes
            "parameters": sum(t.numel() for p in objects.parameters() for t in tensors(p) if memory(t)[1]),
            # cuBLAS keeps workspaces for good: memory that the program has, and that no storage holds
            "workspace_bytes": recorder.device.requested_bytes() - recorder.ledger.live_bytes,
            "optimizer": ", ".join(type(o).__name__ for o in objects.optimizers),
        }
        del objects
        recorder.device.steady()
        gc.disable()  # storages in reference cycles would go at a moment that depends on all else that Python did
        self._recording = recorder.start()

    def next_step(self) -> None:
        """What follows is another step."""
        gc.collect()
        self._recorder.ledger.catch_up()
        self._recording.events.append(NextStep())
        self._recorder.where.next_step()

    def stop(self) -> tuple[Recording, dict[str, Any]]:
        """End it: what was recorded, and what is to be said about it in the trace's header."""
        gc.collect()
        self._recorder.stop()
        gc.enable()
        self._hooks.remove()
        self._about |= {"peak_live_bytes": self._recorder.ledger.peak_bytes} | self._recorder.device.peaks()
        roles.assign(roles.Objects.now(), self._recorder.ledger)
        return self._recording, self._about
