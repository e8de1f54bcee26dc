"""Adapt torch.distributed in the process of a rank on the phantom GPU, where the results of kernels are zeros.

Objects are sent by the CPU's back end, as PyTorch would otherwise assemble them by a kernel on the device. Where a rank
runs alone, the store never waits, PyTorch's own fake back end replaces Gloo, which would connect to the others, and
what another rank would send is assumed to be what this rank has.
"""

import atexit
import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from coopsim.record.observe import torch_private
from coopsim.run.probes.imports import after_import
from coopsim.run.task import FOLDER, NEEDS_OTHERS, Task

_ID_BYTES = 128  #: of NCCL's unique id
_FAKE_BACKEND = "torch.testing._internal.distributed.fake_pg"
_PLUGINS = "torch.distributed.Backend._plugins"
_MAKE_GROUP = "torch.distributed.distributed_c10d._new_process_group_helper"
_OBJECTS_DEVICE = "torch.distributed.distributed_c10d._get_object_coll_device"
_VALIDATE = "torch.distributed.checkpoint.default_planner._validate_global_plan"
_OBJECTS = ("broadcast_object_list", "send_object_list", "recv_object_list")


class Everyone(dist.Store):  # type: ignore[name-defined, misc]
    """A key-value store that never waits: `get` and `wait` treat a key that was not set as if another rank had set it.

    The other methods know only the keys that this rank has set. All have the signatures of torch.distributed.Store.
    """

    _kept: ClassVar[list["Everyone"]] = []  # kept alive, because C++ may call a store until the process ends

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        Everyone._kept.append(self)

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key: bytes, or anything else by its str()."""
        self._values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key: str) -> bytes:
        """Return the value of a key; if it was not set, a constant of the length of NCCL's unique ids."""
        return self._values.get(key, b"\1" * _ID_BYTES)

    def add(self, key: str, amount: int) -> int:
        """Add `amount` to the counter of a key, which begins at 0, and return its new value."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Set a key to `desired` if its value is `expected`, or if it was not set; return its value afterwards."""
        if key not in self._values or self._values[key] == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def wait(self, _keys: Any, _timeout: Any = None) -> None:
        """Return at once: every key counts as set."""

    def check(self, keys: list[str]) -> bool:
        """Return whether this rank has set all of these keys; unlike for `get`, others do not count as set."""
        return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Delete a key; return whether this rank had set it."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return the number of keys that this rank has set."""
        return len(self._values)

    def set_timeout(self, _timeout: Any) -> None:
        """Do nothing: no call waits."""


def install(task: Task) -> None:
    """Replace functions of torch.distributed in this process, as `task.ranks` requires.

    "together": every other rank runs in a process of its own. "alone": the others are imitated.
    """
    _objects_through_cpu("gloo" if task.ranks == "together" else "fake")
    if task.ranks == "together":
        return
    _imagine_the_others()
    after_import("torch.distributed.pipelining.stage", _no_stage_alone)


def _replace(name: str, call: Callable[..., Any]) -> None:
    """Hook a function in the module that defines it, and in the package that exports it."""
    function = torch_private.hooked(getattr(c10d, name), call)
    setattr(c10d, name, function)
    if hasattr(dist, name):
        setattr(dist, name, function)


def _objects_through_cpu(backend: str) -> None:
    configure = c10d.BackendConfig.__init__

    def with_cpu(self: Any, name: Any) -> None:
        configure(self, name)
        if "nccl" in self.device_backend_map.values():
            self.device_backend_map.setdefault("cpu", c10d.Backend(backend))

    c10d.BackendConfig.__init__ = with_cpu  # type: ignore[method-assign, assignment]
    choose = torch_private.get(_OBJECTS_DEVICE)
    torch_private.replace(_OBJECTS_DEVICE, lambda group=None: "cpu" if choose(group) == "cuda" else choose(group))
    for name in _OBJECTS:
        _replace(name, _on_cpu)


def _on_cpu(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function with its argument `device` always the CPU."""
    bound = inspect.signature(call).bind(*args, **named)
    bound.arguments["device"] = torch.device("cpu")
    return call(*bound.args, **bound.kwargs)


def _no_stage_alone(_: ModuleType) -> None:
    """End a process that makes a stage of a pipeline, with code 0, and say that it needs the other ranks.

    Stages differ, and tell each other the shapes of what they send, so that one cannot run alone.
    """
    base = torch_private.get("torch.distributed.pipelining.stage._PipelineStageBase")

    def end(make: Any, *args: Any, **named: Any) -> None:
        given = inspect.signature(make).bind(*args, **named).arguments
        if given["num_stages"] > 1:
            Path(os.environ[FOLDER], NEEDS_OTHERS).touch()
            os._exit(0)
        make(*args, **named)

    base.__init__ = torch_private.hooked(base.__init__, end)


def _save_by_this_rank(planner: ModuleType) -> None:
    """Let this rank save its part of a checkpoint. The plans of the other ranks are copies of its own, which PyTorch
    would reject as incomplete, or assign to ranks that do not exist.
    """
    faults = torch_private.get(_VALIDATE)([], planner.Metadata({}))  # none: [], or True before torch 2.14
    torch_private.replace(_VALIDATE, lambda *_: faults)
    dedup = planner.dedup_save_plans
    planner.dedup_save_plans = lambda plans, *_, **__: dedup(plans, True)  # type: ignore[attr-defined]


def _source(call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Return the global rank that the objects of a call come from."""
    given = inspect.signature(call).bind(*args, **named).arguments
    if given.get("group_src") is not None:
        group: Any = given.get("group") or dist.group.WORLD
        return dist.get_global_rank(group, given["group_src"])
    return int(given.get("src") or 0)


def _end_groups() -> None:
    """Destroy process groups that the script has left: their threads would call the store, a Python object, at exit."""
    if dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()


@functools.cache
def _sums_on_the_card() -> None:
    """Let all_reduce of tensors on the card, by the fake back end in place of Gloo, give its result to whoever waits.

    DistributedDataParallel reads its sums from there; the fake back end gives none. Called once; the kernel stays.
    """
    from torch.futures import Future

    finished = torch_private.get("torch._C._distributed_c10d._create_work_from_future")

    def all_reduce(sums: list[torch.Tensor], *_: Any, **__: Any) -> Any:
        done: Future[list[torch.Tensor]] = Future()
        done.set_result(sums)
        return sums, finished(done).boxed()

    global _kernels
    _kernels = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    _kernels.impl("allreduce_", all_reduce, "CUDA")


_kernels: Any = None  #: a library, whose kernels are there as long as it is


def _make_fake_without_options() -> None:
    """Make PyTorch's fake back end without options. For the CPU, PyTorch 2.9 to 2.13 give it those of NCCL's."""
    plugins = torch_private.get(_PLUGINS)
    fake = plugins["FAKE"]
    if fake.extended_api:  # else it takes none
        plugins["FAKE"] = fake._replace(creator_fn=lambda common, _: fake.creator_fn(common, None))


def _imagine_the_others() -> None:
    importlib.import_module(_FAKE_BACKEND)  # registers the back end "fake"
    _make_fake_without_options()

    atexit.register(_end_groups)
    # The package has a function of the module's name.
    rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
    package: Any = dist
    rendezvous.TCPStore = rendezvous.FileStore = package.TCPStore = package.FileStore = Everyone

    def without_device(init: Any, *args: Any, **named: Any) -> None:
        """Initialize without a device, so that no communicator is split: that needs the colors of other ranks."""
        init(*args, **named | {"device_id": None})

    def without_gloo(make: Any, size: int, rank: int, ranks: Any, name: Any, *rest: Any, **named: Any) -> Any:
        if str(name) in ("gloo", "cuda:gloo"):
            _sums_on_the_card()
        return make(size, rank, ranks, re.sub("gloo", "fake", str(name)), *rest, **named)

    def keep(broadcast: Any, *args: Any, **named: Any) -> None:
        if _source(broadcast, args, named) == dist.get_rank():
            broadcast(*args, **named)

    def own(scatter: Any, *args: Any, **named: Any) -> None:
        source = _source(scatter, args, named)
        if source != dist.get_rank():
            raise RuntimeError(f"rank {dist.get_rank()} alone cannot know what rank {source} scatters: --ranks all")
        scatter(*args, **named)

    after_import("torch.distributed.checkpoint.default_planner", _save_by_this_rank)
    _replace("init_process_group", without_device)
    torch_private.around(_MAKE_GROUP, without_gloo)
    _replace("broadcast_object_list", keep)
    _replace("scatter_object_list", own)
