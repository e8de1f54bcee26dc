"""What FSDP2 shards is computed in bfloat16."""

import functools
import sys
from types import ModuleType
from typing import Any

import torch

from coopsim.script.imports import AfterImport


def install() -> None:
    """As a policy given to every call of fully_shard that has none does."""
    sys.meta_path.insert(0, AfterImport("torch.distributed.fsdp", _with_policy))


def _with_policy(module: ModuleType) -> None:
    original = module.fully_shard

    @functools.wraps(original)
    def fully_shard(sharded: Any, **options: Any) -> Any:
        policy = module.MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        return original(sharded, **{"mp_policy": policy} | options)

    module.fully_shard = fully_shard  # type: ignore[attr-defined]
