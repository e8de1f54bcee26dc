"""The child's side of a capture: build the program, warm it up, record, and write the trace."""

import contextlib
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coopsim import trace
from coopsim.base.errors import CaptureError
from coopsim.base.text import human
from coopsim.cards import profiles
from coopsim.phantom.control import Control
from coopsim.record.capture import models, target
from coopsim.record.capture.job import Job
from coopsim.record.observe import assemble, inductor
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import Device, PhantomDevice, RealDevice
from coopsim.record.observe.device_data import DeviceData
from coopsim.record.observe.masks import Masks
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.recording import Op, Recording
from coopsim.record.observe.steady import Steady
from coopsim.version import __version__

Say = Callable[[str], None]


def record(job: Job, say: Say) -> None:
    """Record the steps of a job and write the trace, calling `say` with lines on progress.

    The process is for this alone. Raises CaptureError if there is no GPU, and whatever the program raises.
    """
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    with contextlib.ExitStack() as stack:
        _record(job, say, stack, lambda: _program(job))


def record_here(step: target.Step, about: dict[str, Any], job: Job, say: Say) -> None:
    """Record calls of `step`, a function of this process, as `record` does; `about`: entries for the trace's header.

    Afterwards the process is as before, whatever the function raises.
    """
    collects = gc.isenabled()
    with contextlib.ExitStack() as stack:
        try:
            _record(job, say, stack, lambda: (step, about))
        finally:
            if collects:
                gc.enable()


def _record(
    job: Job, say: Say, stack: contextlib.ExitStack, program: Callable[[], tuple[target.Step, dict[str, Any]]]
) -> None:
    """Record the step that `program` gives, and write the trace. What is to be undone afterwards is in `stack`."""
    device = _device(job)
    cost_model = OpCostModel(profiles.get(job.card), job.precision)
    recorder = stack.enter_context(Recorder(device, cost_model))
    if job.device == "phantom":
        recorder.answer_by(DeviceData(recorder.ledger, Masks.of(job.masks), lambda: "", by_host=False))
    inductor.watch_buffers(recorder)
    say("building the program")
    step, about = program()
    for i in range(job.warmup):
        say(f"warming up, step {i + 1} of {job.warmup}")
        step()
    inductor.watch_kernels_if_any(recorder)
    recorder.where.install()
    stack.callback(recorder.where.remove)
    if job.device == "cuda":
        recorder.time_ops()
    stack.callback(recorder.stop)
    steady = Steady(recorder)
    stack.callback(steady.release)
    stack.callback(device.history.stop)
    for i in range(job.steps):
        say(f"recording step {i + 1} of {job.steps}")
        if i:
            steady.next_step()
        step()
    recording, seen = steady.stop()
    history = device.history.stop()
    recorder.where.remove()
    source = _measure(job, recorder, recording, step, say) if recorder.timer else cost_model.source
    stack.close()
    about = seen | about
    if recorder.data is not None and recorder.data.sizes:
        ops = ", ".join(sorted({op for op, _, _ in recorder.data.sizes}))
        say(f"caution: {ops}: sizes depend on data, which are unknown: masks keep {job.masks or 'all'}")
        about["masks"] = job.masks or "all"
    if job.device == "phantom" and (over := over_the_card(profiles.get(job.card))):
        say(over)
    say("writing the trace")
    header = _header(job, recorder, about) | {
        "cost_source": source,
        "temporaries": "allocator history" if device.history.available else "none",
    }
    trace.save(assemble.assemble(recording, history, header), Path(job.out))


def over_the_card(card: profiles.Profile) -> str:
    """Return one line if this process has taken more of the phantom GPU than the card has, "" otherwise."""
    took = Control().peak_bytes
    if took <= card.memory_bytes:
        return ""
    return f"caution: the program takes {human(took)}, more than the {card.title} has ({human(card.memory_bytes)})"


def _device(job: Job) -> Device:
    if not torch.cuda.is_available():
        raise CaptureError("torch finds no GPU here; leave out --device cuda to record on the phantom GPU")
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return PhantomDevice(profiles.get(job.card)) if job.device == "phantom" else RealDevice()


def _measure(job: Job, recorder: Recorder, recording: Recording, step: target.Step, say: Say) -> str:
    """Repeat the recorded steps to time their ops, set the costs in the recording, and return their source."""
    timer = recorder.timer
    assert timer is not None
    timer.next_pass()
    for i in range(job.passes - 1):
        say(f"measuring, pass {i + 2} of {job.passes}")
        for _ in range(job.steps):
            step()
        timer.next_pass()
    costs, passes = timer.medians()
    for event in recording.events:
        if isinstance(event, Op) and event.timed >= 0:
            event.cost_ns = costs[event.timed]
    return timer.source(passes)


def _program(job: Job) -> tuple[target.Step, dict[str, Any]]:
    """Return the step to record, and entries for the trace's header about it."""
    if job.is_file:
        return target.load(job.target), {"model": target.label(job.target), "title": job.target.rpartition("/")[2]}
    model = models.get(job.target)
    setting = model.setting(job.batch, job.optimizer, job.amp, job.attention, job.gradients)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job.precision != "fp32"
    about = {"model": model.name, "title": model.title, "source": model.source, **model.details, **setting.header}
    gc.disable()  # it imports a library; the worker says why
    step = model.build(setting)
    gc.enable()
    return step, about


def _header(job: Job, recorder: Recorder, about: dict[str, Any]) -> dict[str, Any]:
    """Return the header of the trace, which is the same in every run."""
    versions = {"coopsim": __version__, "torch": torch.__version__}
    if "transformers" in sys.modules:
        versions["transformers"] = sys.modules["transformers"].__version__
    found = {
        "versions": versions,
        "command": job.command,
        **recorder.device.header,
        **recorder.cost_model.header(autocast=recorder.where.autocast),
        "steps_recorded": job.steps,
        "warmup_steps": job.warmup,
    }
    return found | about | ({"model": job.name} if job.name else {})
