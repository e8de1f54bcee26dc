"""Record a trace of some steps of a script, from the end of one call of Optimizer.step to the end of a later one."""

import gc
from pathlib import Path

import torch

from coopsim import trace
from coopsim.record.observe import assemble, inductor
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.steady import Steady
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.task import Task
from coopsim.version import __version__


class TraceOfSteps(Probe):
    """Counts steps, records those that the task asks for, and writes the trace.

    `outcome` is "written", "too few steps", or "graphs" if CUDA graphs were replayed, in which case nothing is written.
    """

    def __init__(self, task: Task, recorder: Recorder) -> None:
        self._task, self._recorder = task, recorder
        self._replays = False
        self._steady: Steady | None = None
        self.outcome = "too few steps"

    def install(self) -> None:
        inductor.before_replay(self._replayed)

    def _replayed(self) -> None:
        """Note that the script replays a CUDA graph, whose kernels are not seen."""
        self._replays |= self._steady is not None

    def step_ended(self, steps: int) -> None:
        """Note the end of an optimizer step. It starts the recording after the warm-up steps,
        marks the boundaries of the recorded ones, and writes the trace after the last. Later calls do nothing.
        """
        if self._steady is None:
            if steps == max(self._task.warmup, 1):
                self._recorder.where.forget()
                self._steady = Steady(self._recorder)
        elif steps < max(self._task.warmup, 1) + self._task.steps:
            self._steady.next_step()
        else:
            self._write(self._steady)
            self._steady = None
        if self._steady is None:
            self._recorder.where.forget()

    def report(self, found: ProcessReport) -> None:
        found.trace = self.outcome

    def _write(self, steady: Steady) -> None:
        recording, about = steady.stop()
        if self._replays:
            self.outcome = "graphs"
            return
        task, model = self._task, self._recorder.cost_model
        history = self._recorder.device.history.stop()
        header = about | {
            "model": _name(task.command),
            "title": task.command,
            "command": f"coopsim phantom run --gpu {task.card} -- {task.command}",
            "versions": {"coopsim": __version__, "torch": torch.__version__},
            **self._recorder.device.header,
            **model.header(autocast=self._recorder.where.autocast),
            "cost_source": model.source,
            **({"rank": task.rank, "world_size": task.world} if task.ranks else {}),
            "steps_recorded": task.steps,
            "warmup_steps": max(task.warmup, 1),
            "temporaries": "allocator history" if self._recorder.device.history.available else "none",
        }
        trace.save(assemble.assemble(recording, history, header), Path(task.trace))
        gc.collect()
        self.outcome = "written"


def _name(command: str) -> str:
    """Return the trace's name: that of the first Python file in the command, or else of the program."""
    words = command.split()
    return Path(next((word for word in words if word.endswith(".py")), words[0])).stem
