"""Record consecutive steps of a program, from one step boundary to a later one."""

import gc
from typing import Any

from coopsim.record.observe import roles
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.native import memory
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.recording import NextStep, Recording


class Steady:
    """Records consecutive steps of a program that has warmed up, from its creation to `stop`.

    The recorder must be installed already, and remains installed.
    """

    def __init__(self, recorder: Recorder) -> None:
        gc.collect()
        self._recorder = recorder
        objects = roles.Objects.now()
        roles.assign(objects, recorder.ledger)
        self._hooks = roles.GradientHooks(objects.leaves(), recorder.ledger)
        recorder.where.know(objects.modules)
        self._about: dict[str, Any] = {
            # a rank counts its shards; parameters that FSDP has freed have no bytes and are not counted
            "parameters": sum(t.numel() for p in objects.parameters() for t in tensors(p) if memory(t)[1]),
            # memory in use that no storage holds: cuBLAS keeps its workspaces for good
            "workspace_bytes": recorder.device.requested_bytes() - recorder.ledger.live_bytes,
            "optimizer": ", ".join(type(o).__name__ for o in objects.optimizers),
        }
        del objects
        recorder.device.steady()
        gc.disable()  # else storages in reference cycles end whenever Python's collector happens to run
        self._recording = recorder.start()

    def next_step(self) -> None:
        """Record that a step ends here and the next begins; to be called between two steps, not after the last."""
        gc.collect()
        self._recorder.ledger.catch_up()
        self._recording.events.append(NextStep())
        self._recorder.where.next_step()

    def release(self) -> None:
        """Remove the hooks from the program's tensors; for a recording that is given up before `stop`."""
        self._hooks.remove()

    def stop(self) -> tuple[Recording, dict[str, Any]]:
        """Stop recording; return the recording and entries for the trace's header. To be called once.

        The entries are the number of parameters, the optimizers' names, the bytes of workspaces, and peaks in bytes.
        """
        gc.collect()
        self._recorder.stop()
        gc.enable()
        self.release()
        self._about |= {"peak_live_bytes": self._recorder.ledger.peak_bytes} | self._recorder.device.peaks()
        roles.assign(roles.Objects.now(), self._recorder.ledger)
        return self._recording, self._about
