"""Watch a script that runs on the phantom GPU: every op, every storage, and every time that memory runs out."""

import os
import pickle
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from coopsim.observe import inductor
from coopsim.observe.costs import CostModel
from coopsim.observe.data import device_data
from coopsim.observe.data.device_data import DeviceData
from coopsim.observe.data.masks import Masks
from coopsim.observe.device import PhantomDevice
from coopsim.observe.native import NativeLedger
from coopsim.observe.torch_private import (
    attach_oom_observer,
    call_when_initialized,
    memory_snapshot,
    record_history,
)
from coopsim.phantom import profiles
from coopsim.phantom.control import Control, convolutions
from coopsim.script import allocator, clock, history, kinds, native, out_of_memory, places, stacks
from coopsim.script.compilation import Compilation
from coopsim.script.ending import Ending
from coopsim.script.growth import Growth
from coopsim.script.host import HostWatch
from coopsim.script.input_sizes import InputSizes
from coopsim.script.kept_outputs import KeptOutputs
from coopsim.script.kinds import Kinds
from coopsim.script.parts import Parts
from coopsim.script.peaks import PeakWatch
from coopsim.script.phases import Calls
from coopsim.script.recorder import ScriptRecorder, watch_resizes
from coopsim.script.steps import StepsSeen
from coopsim.script.task import Task
from coopsim.script.unused import UnusedWatch

_VERSIONS = "torch", "transformers", "triton"


class Watch:
    """Watches a process from the import of torch to its end, and makes its report."""

    def __init__(self, task: Task, folder: str) -> None:
        self._task = task
        self._ending = Ending(task.ends_after, folder)
        card = profiles.get(task.card)
        self._device = Control()
        self._steps = self._backwards = 0
        self._ooms: list[dict[str, Any]] = []
        self._failed_to_train = False  #: whether memory last ran out while training
        self._clock: int | None = None
        self._counted: CodeType | None = None  #: the compiled code that ended the last step
        self.compiled_steps: list[Callable[[], None]] = []  #: called after each step of compiled code, without hooks
        model = CostModel(card, task.precision)
        time = clock.Clock(self._device, model)
        self._recorder = ScriptRecorder(PhantomDevice(card), model, time)
        self._data = self._recorder.data = DeviceData(self._recorder.ledger, Masks.of(task.masks), places.here)
        where = self._recorder.where
        where.install()
        watch_resizes(self._recorder)
        self._host = HostWatch()
        calls = self._calls = Calls()
        self._steps_seen = StepsSeen(lambda: where.backwards, calls) if task.step_requests else None
        self._sizes = InputSizes(calls)
        self._peaks = PeakWatch()
        self._kept = KeptOutputs(self._recorder.ledger)
        calls.begins += [self._peaks.call_begins, self._kept.call_begins]
        self._growth = None if task.trace else Growth(self._recorder)
        self.compilation = Compilation(where.enter, self._compiled_step, cuda_graphs=not task.trace)
        self._unused = UnusedWatch(self._recorder, self.compilation)
        calls.begins.append(self._unused.call_begins)
        ledger = self._recorder.ledger
        if isinstance(ledger, NativeLedger) and not task.trace:
            for_python = kinds.OPS | device_data.OPS
            native.install(self._device, model, time, where, ledger.modules, for_python)
            self._recorder.native = True
        if task.watched:
            self._recorder.__enter__()
        self._recording = None
        self._kinds = None if task.trace else Kinds(self._recorder, lambda: self._unused.serials)
        if self._kinds is not None:
            self._recorder.kinds = self._kinds.after
        if task.trace:
            from coopsim.script.recording import TraceOfSteps

            self._recording = TraceOfSteps(task, self._recorder)
        optimizers.register_optimizer_step_post_hook(self._stepped)
        call_when_initialized(self._device_is_up)
        allocator.watch_fraction()

    def dynamo(self) -> None:
        """Start to watch torch.compile; to be called once, when torch._dynamo has been imported."""
        self.compilation.watch()
        if self._recording is not None:
            inductor.watch_buffers(self._recorder)

    def kernels(self) -> None:
        """Start to record Inductor's kernels, if a trace is wanted; else do nothing.

        To be called once, when Inductor's launcher (triton_heuristics) has been imported.
        """
        if self._recording is not None:
            inductor.watch_kernels(self._recorder)

    @property
    def steps(self) -> int:
        """The number of optimizer steps so far, of the first optimizer that stepped."""
        return self._steps

    @property
    def calls(self) -> Calls:
        """What tells of calls of modules from outside of all modules."""
        return self._calls

    @property
    def recorder(self) -> ScriptRecorder:
        """The recorder, which sees the ops and knows the storages."""
        return self._recorder

    def forget(self) -> None:
        """Stop watching, because this process is a fork."""
        if self._task.watched:
            self._recorder.__exit__(None, None, None)

    def end(self) -> dict[str, Any]:
        """Stop watching, and return this process's report, in types that JSON can represent; to be called once.

        It has only `used`, `versions` and `unmet` if the process never used the GPU. Files that the task asks for, the
        snapshot and the requests, are written.
        """
        if self._task.watched:
            self._recorder.__exit__(None, None, None)
        found: dict[str, Any] = {
            "used": bool(torch.cuda.is_initialized()),  # type: ignore[no-untyped-call]
            "versions": {name: sys.modules[name].__version__ for name in _VERSIONS if name in sys.modules},
            "unmet": allocator.unmet() or self._data.decisions.endless,
        }
        if not found["used"]:
            return found
        # A rank sees all cards of its machine, but uses one of them only.
        devices = [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]
        stats = max(devices, key=lambda of: of.get("reserved_bytes.all.peak", 0))
        self._peaks.end()
        if self._steps_seen is not None:  # what a long run is judged by
            self._steps_seen.save(self._task.step_requests)
        found |= {
            "steps": self._steps,
            **{f"peak_{kind}_bytes": nbytes for kind, nbytes in self._peaks.run.items()},
            "first_step_peak_reserved_bytes": self._peaks.first and self._peaks.first["reserved"],
            "steady_peak_reserved_bytes": self._peaks.last and self._peaks.last["reserved"],
            "steady_peak_allocated_bytes": self._peaks.last and self._peaks.last["allocated"],
            "phases": self._peaks.phases,
            "evaluation_keeps": self._kept.found,
            "evaluation_peaks": self._peaks.evaluation_peaks,
            **self.compilation.report(),
            "peak_device_bytes": self._device.peak_bytes,
            "context_bytes": self._device.context_bytes,
            "nccl_bytes": self._device.nccl_bytes,
            "managed_bytes": self._device.managed_bytes,
            "memory_fraction": allocator.fraction(devices.index(stats)),
            "ended_early": self._ending.early,
            "retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
            "out_of_memory": self._ooms[-1] if self._ooms else None,
            "gave_up": self._failed_to_train and self._ooms[-1]["step"] > self._steps,
            "needs_data": [
                {"op": op, "place": place, "calls": calls, "by": by}
                for (op, place, by), calls in self._data.sizes.most_common()
            ],
            "loops_ended": [
                {"place": f"{file}:{line}", "iterations": iterations, "times": times}
                for (file, line, iterations), times in self._data.decisions.ended.most_common()
            ],
            "benchmarked": torch.backends.cudnn.benchmark and convolutions() > 0,
            "last_value_read": self._data.last_value,
            "watched_by_mode": self._recorder.active and self._task.watched,
            "trace": self._recording.outcome if self._recording else "",
            "graphs_off": self.compilation.graphs_off,
        }
        return found | self._parts()

    def _parts(self) -> dict[str, Any]:
        """Return what is worked out at the end, and `lost`: the parts that failed, with the reason. Write the files."""
        parts = Parts()
        if self._task.snapshot and not self._ooms:
            parts.do("snapshot", self._snapshot)
        if self._task.requests:
            parts.do("requests", lambda: history.save(self._task.requests))
        parts.add("host", self._host.report, {})
        parts.add("unused", self._unused.report, [])
        parts.add("input_sizes", self._sizes.report)
        parts.add("peak_by_kind", lambda: self._kinds.at_peak(self._peaks.run["allocated"]) if self._kinds else {}, {})
        parts.add("growth", lambda: self._growth.report() if self._growth else None)
        return parts.found | {"lost": parts.lost}

    def _device_is_up(self) -> None:
        if allocator.unmet():
            sys.exit(2)  # an exception would be wrapped by PyTorch
        if self._task.explains:
            attach_oom_observer(self._out_of_memory)
        if self._task.snapshot:
            record_history(stacks="python")
        elif self._steps_seen is not None:
            self._steps_seen.start()
        elif self._task.requests:
            record_history(enabled="all", context=None, max_entries=history.LIMIT)

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Count a step after Optimizer.step; only those of the first optimizer seen are counted."""
        if self._clock is None:
            self._clock = id(optimizer)
        if id(optimizer) == self._clock:
            self._step_ended()

    def _compiled_step(self, run: Callable[[], Any], code: CodeType) -> Any:
        """Run compiled code of an optimizer's step, whose hooks are removed meanwhile, and count steps.

        A step may consist of several graphs; one step is counted per backward pass. If the backward pass is compiled,
        too, and so not seen, a step is counted whenever the code that ended the last step runs again.
        """
        with self._recorder.where.in_step():
            out = run()
        again = code is self._counted or (self._counted is None and not self._steps)
        if again or self._recorder.where.backwards > self._backwards:
            self._counted = code
            self._step_ended()
            for call in self.compiled_steps:
                call()
        return out

    def _step_ended(self) -> None:
        self._steps += 1
        self._backwards = self._recorder.where.backwards
        self._data.decisions.step_ended()
        self._peaks.step_ended()
        if self._steps_seen is not None:
            self._steps_seen.step_ended()
        if self._recording is not None:
            self._recording.step_ended()
        if self._recording is None or not self._recording.runs:
            self._recorder.where.forget()
        if self._growth is not None:
            self._growth.step_ended(self._peaks.allocated)
        self._unused.step_ended()
        self._sizes.step_ended()
        self._calls.step_ended()
        self._host.step_ended()
        self._ending.step_ended(self._steps)

    def _out_of_memory(self, device: int, asked: int, _total: int, _free: int) -> None:
        """Note what memory held; called by the allocator when it has tried everything, before it raises."""
        if self._growth is not None:
            self._growth.ran_out()
        self._unused.ran_out()
        self._kept.ran_out()
        self._failed_to_train = torch.is_grad_enabled() or self._recorder.where.backwards > 0
        found = out_of_memory.found(self._recorder, device, asked, self._steps + 1, self._unused.serials)
        phase, batch = self._peaks.batch or ("training", 0)
        if batch and (not torch.is_grad_enabled() or batch < self._host.batches):  # else it is over
            found |= {"phase": phase, "batch": batch, "batches": self._host.batches}
        self._ooms.append(found)
        if self._task.snapshot:
            self._snapshot()

    def _snapshot(self) -> None:
        part = f"{self._task.snapshot}.{os.getpid()}.part"
        with open(part, "wb") as file:  # protocol 4: the memory_viz page reads no later one
            pickle.dump(stacks.unwatched(memory_snapshot()), file, protocol=4)
        os.replace(part, self._task.snapshot)
