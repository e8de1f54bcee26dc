"""Survey and change how a script shards its modules with FSDP."""

import contextlib
import inspect
import sys
from types import FrameType, ModuleType
from typing import Any

import torch

from coopsim.fitting.changes import Changes
from coopsim.record.observe.private import hooked
from coopsim.run.probes.imports import after_import
from coopsim.run.probes.places import is_own

#: Strategies of FSDP1 that keep layers gathered from the forward to the backward pass → the like that do not.
_KEEPS = {"SHARD_GRAD_OP": "FULL_SHARD", "_HYBRID_SHARD_ZERO2": "HYBRID_SHARD"}
_WRAPS = "torch.distributed.fsdp."


class Sharded:
    """Surveys the calls of FullyShardedDataParallel and fully_shard, and changes their arguments as `changes` say."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._calls: list[dict[str, Any]] = []
        self._defers: list[dict[str, Any]] = []
        after_import("torch.distributed.fsdp", self._imported)

    def found(self) -> list[dict[str, Any]]:
        """Return each call once, in the form of survey.Sharding, for the report; a library's call has the file ""."""
        return [dict(call) for call in dict.fromkeys(tuple(call.items()) for call in self._calls)]

    def _imported(self, module: ModuleType) -> None:
        self._first(module)
        self._second(module)
        self._deferring(module)

    def _first(self, module: ModuleType) -> None:
        changes, kind = self._changes, module.FullyShardedDataParallel

        def init(original: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(original).bind(*args, **kwargs)
            bound.apply_defaults()
            said = bound.arguments
            strategy = getattr(said["sharding_strategy"], "name", "")
            self._call(
                sys._getframe(2),
                type="FullyShardedDataParallel",
                keeps=_KEEPS.get(strategy, ""),
                unlimited=not said["limit_all_gathers"],
                ahead=tuple(name for name in ("backward_prefetch", "forward_prefetch") if said[name]),
            )
            if changes.reshard and strategy in _KEEPS:
                said["sharding_strategy"] = module.ShardingStrategy[_KEEPS[strategy]]
            if changes.limit_gathers:
                said["limit_all_gathers"] = True
            if changes.no_prefetch:
                said["backward_prefetch"], said["forward_prefetch"] = None, False
            original(*bound.args, **bound.kwargs)

        kind.__init__ = hooked(kind.__init__, init)

    def _second(self, module: ModuleType) -> None:
        if not hasattr(module, "fully_shard"):  # before 2.6
            return
        changes = self._changes

        def fully_shard(original: Any, sharded: Any, **options: Any) -> Any:
            keeps = options.get("reshard_after_forward") is False
            self._call(sys._getframe(2), type="fully_shard", keeps="True" * keeps, unlimited=False, ahead=())
            if changes.reshard and keeps:
                options["reshard_after_forward"] = True
            if changes.sharded_half:
                options.setdefault("mp_policy", module.MixedPrecisionPolicy(param_dtype=torch.bfloat16))
            return original(sharded, **options)

        module.fully_shard = hooked(module.fully_shard, fully_shard)  # type: ignore[attr-defined]

    def _deferring(self, module: ModuleType) -> None:
        """Watch what defers the reduction of gradients to a later batch; with `sync_each`, it does nothing."""
        at_once, kind = self._changes.sync_each, module.FullyShardedDataParallel

        def without(no_sync: Any, sharded: Any) -> Any:
            self._note(self._defers, sys._getframe(2), name="no_sync")
            return contextlib.nullcontext() if at_once else no_sync(sharded)

        kind.no_sync = hooked(kind.no_sync, without)
        if not hasattr(module, "FSDPModule"):  # before 2.6
            return
        module_kind = module.FSDPModule

        def set_requires(requires: Any, sharded: Any, requires_gradient_sync: bool, **options: Any) -> None:
            if not requires_gradient_sync:
                self._note(self._defers, sys._getframe(2), name="set_requires_gradient_sync")
            requires(sharded, requires_gradient_sync or at_once, **options)

        module_kind.set_requires_gradient_sync = hooked(module_kind.set_requires_gradient_sync, set_requires)

    def deferred(self) -> list[dict[str, Any]]:
        """Return the calls that defer the reduction of gradients, each once: name, file and line, as in `found`."""
        return [dict(call) for call in dict.fromkeys(tuple(call.items()) for call in self._defers)]

    def _call(self, caller: FrameType, **about: Any) -> None:
        if not caller.f_globals.get("__name__", "").startswith(_WRAPS):  # else FSDP wraps a submodule itself
            self._note(self._calls, caller, **about)

    def _note(self, calls: list[dict[str, Any]], caller: FrameType, **about: Any) -> None:
        own = is_own(caller.f_code.co_filename)
        calls.append(about | {"file": caller.f_code.co_filename * own, "line": caller.f_lineno * own})
