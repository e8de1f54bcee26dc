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

import coopsim
from coopsim import trace
from coopsim.capture import assemble, models, target
from coopsim.capture.costs import CostModel
from coopsim.capture.device import Device, PhantomDevice, RealDevice
from coopsim.capture.errors import CaptureError
from coopsim.capture.measured import MeasuredCosts
from coopsim.capture.recorder import Op, Recorder, Recording
from coopsim.capture.request import Request
from coopsim.capture.steady import Steady
from coopsim.capture.temporary_table import TemporaryTable
from coopsim.capture.timing import Timer
from coopsim.phantom import profiles

Say = Callable[[str], None]


def record(request: Request, say: Say) -> None:
    """Record what was asked for and write it. Whatever the program raises goes through."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    with contextlib.ExitStack() as stack:
        device = _device(request, stack)
        cost_model = _cost_model(request)
        recorder = stack.enter_context(Recorder(device, cost_model))
        say("building the program")
        step, about = _program(request, cost_model)
        for i in range(request.warmup):
            say(f"warming up, step {i + 1} of {request.warmup}")
            step()
        recorder.where.install()
        if request.device == "cuda":
            recorder.timer = Timer()
        steady = Steady(recorder)
        for i in range(request.steps):
            say(f"recording step {i + 1} of {request.steps}")
            if i:
                steady.next_step()
            step()
        recording, seen = steady.stop()
        history = device.history.stop()
        recorder.where.remove()
        source = _measure(request, recorder, recording, step, say) if recorder.timer else cost_model.source
    about = seen | about
    say("writing the trace")
    header = _header(request, recorder, about) | {
        "cost_source": source,
        "temporaries": "allocator history" if device.history.available else "none",
    }
    table = TemporaryTable(Path(request.temporaries_from)) if request.temporaries_from else None
    trace.save(assemble.assemble(recording, history, header, table), Path(request.out))


def _device(request: Request, stack: contextlib.ExitStack) -> Device:
    if request.device == "fake":
        from coopsim.capture.fake.tensors import FakeDevice

        return stack.enter_context(FakeDevice(request.card))
    if not torch.cuda.is_available():
        raise CaptureError("torch finds no GPU here; leave out --device cuda to record on the phantom GPU")
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return PhantomDevice(profiles.get(request.card)) if request.device == "phantom" else RealDevice()


def _cost_model(request: Request) -> CostModel:
    card = profiles.get(request.card)
    if request.cost_from:
        return MeasuredCosts(card, request.precision, Path(request.cost_from))
    return CostModel(card, request.precision)


def _measure(request: Request, recorder: Recorder, recording: Recording, step: target.Step, say: Say) -> str:
    """Repeat the recorded steps for their times, and put the costs into the recording. What the header says of them."""
    timer = recorder.timer
    assert timer is not None
    timer.next_pass()
    for i in range(request.passes - 1):
        say(f"measuring, pass {i + 2} of {request.passes}")
        for _ in range(request.steps):
            step()
        timer.next_pass()
    costs, passes = timer.medians()
    for event in recording.events:
        if isinstance(event, Op) and event.timed >= 0:
            event.cost_ns = costs[event.timed]
    return timer.source(passes)


def _program(request: Request, cost_model: CostModel) -> tuple[target.Step, dict[str, Any]]:
    """The step, and what is known about it."""
    if request.is_file:
        name = Path(request.target.rpartition(":")[0]).stem
        return target.load(request.target), {"model": name, "title": request.target.rpartition("/")[2]}
    model = models.get(request.target)
    setting = model.setting(request.batch, request.optimizer, request.amp, request.attention)
    torch.backends.cuda.matmul.allow_tf32 = cost_model.precision == "tf32"
    about = {"model": model.name, "title": model.title, "source": model.source, **model.details, **setting.header}
    gc.disable()  # as the worker: it imports a library
    step = model.build(setting)
    gc.enable()
    return step, about


def _header(request: Request, recorder: Recorder, about: dict[str, Any]) -> dict[str, Any]:
    """The provenance of the trace: nothing in it differs between two runs."""
    versions = {"coopsim": coopsim.__version__, "torch": torch.__version__}
    if "transformers" in sys.modules:
        versions["transformers"] = sys.modules["transformers"].__version__
    return about | {
        "versions": versions,
        "command": request.command,
        **recorder.device.header,
        "precision": recorder.cost_model.precision,
        "steps_recorded": request.steps,
        "warmup_steps": request.warmup,
    }
