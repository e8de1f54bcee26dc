"""The child's side of a capture: build the program, warm it up, record, and write the trace."""

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
from coopsim.capture import assemble, models, roles, target
from coopsim.capture.costs import CostModel
from coopsim.capture.recorder import NextStep, Recorder
from coopsim.capture.request import Request
from coopsim.phantom import profiles

Say = Callable[[str], None]


def record(request: Request, say: Say) -> None:
    """Record what was asked for and write it. Whatever the program raises goes through."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    torch.cuda.init()  # type: ignore[no-untyped-call]
    cost_model = CostModel(profiles.get(request.card), request.precision)
    recorder = Recorder(cost_model)
    with recorder:
        say("building the program")
        step, about = _program(request, cost_model)
        for i in range(request.warmup):
            say(f"warming up, step {i + 1} of {request.warmup}")
            step()
        gc.collect()
        objects = roles.Objects.now()
        roles.assign(objects, recorder.ledger)
        hooks = roles.GradientHooks(objects.leaves(), recorder.ledger)
        recorder.where.install(objects.modules)
        about |= {
            "parameters": sum(p.numel() for p in objects.parameters()),
            # cuBLAS keeps workspaces for good: memory that the program has, and that no storage holds
            "workspace_bytes": torch.cuda.memory_stats()["requested_bytes.all.current"] - recorder.ledger.live_bytes,
            "optimizer": about.get("optimizer") or ", ".join(type(o).__name__ for o in objects.optimizers),
        }
        del objects
        torch.cuda.empty_cache()  # what the warm-up left unused is no need of the recorded steps
        torch.cuda.reset_peak_memory_stats()
        gc.disable()  # storages in reference cycles would go at a moment that depends on all else that Python did
        recording = recorder.start()
        for i in range(request.steps):
            say(f"recording step {i + 1} of {request.steps}")
            if i:
                recording.events.append(NextStep())
                recorder.where.next_step()
            step()
            gc.collect()
        recorder.stop()
        gc.enable()
        recorder.where.remove()
        hooks.remove()
        about |= {
            "peak_live_bytes": recorder.ledger.peak_bytes,
            "peak_requested_bytes": torch.cuda.memory_stats()["requested_bytes.all.peak"],
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        }
        roles.assign(roles.Objects.now(), recorder.ledger)
    say("writing the trace")
    header = _header(request, cost_model, about) | {
        "temporaries": "allocator history" if recorder.history.available else "none",
    }
    trace.save(assemble.assemble(recording, recorder.history.stop(), header), Path(request.out))


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


def _header(request: Request, cost_model: CostModel, about: dict[str, Any]) -> dict[str, Any]:
    """The provenance of the trace: nothing in it differs between two runs."""
    versions = {"coopsim": coopsim.__version__, "torch": torch.__version__}
    if "transformers" in sys.modules:
        versions["transformers"] = sys.modules["transformers"].__version__
    return about | {
        "versions": versions,
        "command": request.command,
        "device": f"phantom {profiles.get(request.card).title}",
        "card": request.card,
        "precision": cost_model.precision,
        "cost_source": cost_model.source,
        "steps_recorded": request.steps,
        "warmup_steps": request.warmup,
    }
