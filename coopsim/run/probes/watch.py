"""Watch a script that runs on the phantom GPU: a list of probes, and what tells them of steps and of memory's end."""

import sys
from collections.abc import Callable

import torch

from coopsim.cards import profiles
from coopsim.phantom.control import Control, convolutions, left_out
from coopsim.record.observe import device_data, inductor
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import PhantomDevice
from coopsim.record.observe.device_data import DeviceData
from coopsim.record.observe.masks import Masks
from coopsim.record.observe.native import NativeLedger
from coopsim.record.observe.torch_private import attach_oom_observer, call_when_initialized
from coopsim.record.observe.where import Where
from coopsim.run.probes import allocator, kinds, places, probe
from coopsim.run.probes.allocator import AllocatorProbe
from coopsim.run.probes.calls import Calls, InputSizesProbe
from coopsim.run.probes.clock import Clock
from coopsim.run.probes.compilation import Compilation
from coopsim.run.probes.ending import Ending
from coopsim.run.probes.garbage import Garbage
from coopsim.run.probes.growth import GrowthProbe
from coopsim.run.probes.host import HostProbe
from coopsim.run.probes.kept import KeptOutputs, Unused
from coopsim.run.probes.kinds import Kinds
from coopsim.run.probes.out_of_memory import OutOfMemories, SnapshotProbe
from coopsim.run.probes.parameters import Parameters
from coopsim.run.probes.peaks import PeakProbe
from coopsim.run.probes.probe import Probe
from coopsim.run.probes.recorder import ScriptRecorder, watch_resizes
from coopsim.run.probes.requests import RequestsProbe, StepRequests
from coopsim.run.probes.steps import Steps
from coopsim.run.process import ProcessReport
from coopsim.run.records import EndedLoop, SizeFromData, ValueRead
from coopsim.run.task import Task

_VERSIONS = "torch", "transformers", "triton"


class Watch:
    """Watches a process from the import of torch to its end, and makes its report.

    `calls` tells of calls of modules from outside of all modules; `recorder` sees the ops and knows the storages;
    `compilation` knows of torch.compile. `after_compiled_step` are called after each step of compiled code, which runs
    without hooks.
    """

    def __init__(self, task: Task, folder: str) -> None:
        card, control = profiles.get(task.card), Control()
        model = OpCostModel(card, task.precision)
        recorder = self.recorder = ScriptRecorder(PhantomDevice(card), model, Clock(control, model))
        ledger, where = recorder.ledger, recorder.where
        data = recorder.answer_by(DeviceData(ledger, Masks.of(task.masks), places.here))
        self._unmet: Callable[[], str] = lambda: allocator.unmet() or data.decisions.endless
        self._watched, self._traced, self._explains = task.watched, bool(task.trace), task.explains
        where.install()
        watch_resizes(recorder)
        if isinstance(ledger, NativeLedger) and not task.trace:
            recorder.watch_natively(control, ledger.modules, for_python=lambda: kinds.ops() | device_data.OPS)
        if task.watched:
            recorder.__enter__()
        steps = self._steps = Steps(where, self._step_ended)
        self.after_compiled_step: list[Callable[[], None]] = steps.after_compiled
        calls = self.calls = Calls(lambda: where.backwards)
        calls.begins.append(_Once(places.find_program))
        compilation = self.compilation = Compilation(where.enter, steps.run_compiled, cuda_graphs=not task.trace)
        peaks, host, unused = PeakProbe(calls), HostProbe(), Unused(recorder, compilation, calls)
        requests_of_steps = [StepRequests(task.step_requests, where, calls)] if task.step_requests else []
        snapshots = [SnapshotProbe(task.snapshot)] if task.snapshot else []
        requests = [RequestsProbe(task.requests)] if task.requests else []
        #: PyTorch keeps one history: it is recorded as the first of these needs it.
        self._histories: list[SnapshotProbe | StepRequests | RequestsProbe] = [
            *snapshots, *requests_of_steps, *requests
        ]  # fmt: skip
        #: In the order in which they are told. Peaks come first, which the others' work may not touch.
        self._probes: list[Probe] = [
            _Data(data),
            peaks,
            *requests_of_steps,
            *(_tracing(task, recorder) if task.trace else [_Forgets(where), GrowthProbe(recorder, peaks)]),
            unused,
            KeptOutputs(ledger, calls),
            InputSizesProbe(calls),
            calls,
            host,
            Garbage(),
            compilation,
            AllocatorProbe(control),
            OutOfMemories(recorder, steps, unused, lambda: peaks.batch, lambda: host.batches),
            _Recorder(recorder, watched=task.watched),
            *([] if task.trace else [Parameters(ledger), Kinds(recorder, peaks, unused)]),
            *snapshots,
            *requests,
            Ending(task.ends_after, folder),
            steps,
        ]
        for one in self._probes:
            one.install()
        call_when_initialized(self._device_is_up)

    @property
    def steps(self) -> int:
        """The number of optimizer steps so far, of the first optimizer that stepped."""
        return self._steps.count

    def watch_dynamo(self) -> None:
        """Start to watch torch.compile; to be called once, when torch._dynamo has been imported."""
        self.compilation.watch()
        if self._watched:
            inductor.watch_buffers(self.recorder)

    def watch_kernels(self) -> None:
        """Start to record Inductor's kernels, if a trace is wanted; else do nothing.

        To be called once, when Inductor's launcher (triton_heuristics) has been imported.
        """
        if self._traced:
            inductor.watch_kernels(self.recorder)

    def forget(self) -> None:
        """Stop watching, because this process is a fork."""
        if self._watched:
            self.recorder.__exit__(None, None, None)

    def end(self, found: ProcessReport) -> None:
        """Stop watching, and fill this process's report; to be called once. Files that the task asks for are written.

        In a process that never used the GPU, only `used`, `versions` and `unmet` are filled.
        """
        if self._watched:
            self.recorder.__exit__(None, None, None)
        found.used = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
        found.versions = {name: sys.modules[name].__version__ for name in _VERSIONS if name in sys.modules}
        found.unmet = self._unmet()
        if found.used:
            probe.fill(self._probes, found)

    def _device_is_up(self) -> None:
        if allocator.unmet():
            sys.exit(2)  # an exception would be wrapped by PyTorch
        if self._explains:
            attach_oom_observer(self._ran_out)
        for one in self._histories[:1]:
            one.start_history()

    def _step_ended(self, steps: int) -> None:
        for one in self._probes:
            one.step_ended(steps)

    def _ran_out(self, device: int, asked: int, _total: int, _free: int) -> None:
        """Called by the allocator when it has tried everything, before it raises."""
        for one in self._probes:
            one.ran_out(device, asked)


class _Once:
    """Calls a function the first time that it is called."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self, *_: object) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


def _tracing(task: Task, recorder: ScriptRecorder) -> list[Probe]:
    from coopsim.run.probes.trace import TraceOfSteps  # not where no trace is wanted

    return [TraceOfSteps(task, recorder)]


class _Data(Probe):
    """What was taken from the device's data, which nobody knows."""

    def __init__(self, data: DeviceData) -> None:
        self._data = data

    def step_ended(self, _steps: int) -> None:
        self._data.decisions.step_ended()

    def report(self, found: ProcessReport) -> None:
        found.needs_data = [
            SizeFromData(op, place, calls, by) for (op, place, by), calls in self._data.sizes.most_common()
        ]
        found.loops_ended = [
            EndedLoop(f"{file}:{line}", iterations, times)
            for (file, line, iterations), times in self._data.decisions.ended.most_common()
        ]
        if (last := self._data.last_value) is not None:
            found.last_value_read = ValueRead(*last)


class _Forgets(Probe):
    """Forgets with each step which module made which autograd node, as the step's graph is gone."""

    def __init__(self, where: Where) -> None:
        self._where = where

    def step_ended(self, _steps: int) -> None:
        self._where.forget()


class _Recorder(Probe):
    """How the ops were watched."""

    def __init__(self, recorder: ScriptRecorder, *, watched: bool) -> None:
        self._recorder, self._watched = recorder, watched

    def report(self, found: ProcessReport) -> None:
        found.watched_by_mode = self._watched and self._recorder.active
        found.benchmarked = torch.backends.cudnn.benchmark and convolutions() > 0
        found.left_out_workspace_bytes = left_out()
