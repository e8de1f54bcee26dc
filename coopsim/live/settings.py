"""PyTorch's settings that say how ops compute: by which library and algorithms, how precisely, by how many threads.

A program may change them in the middle of a step, around an op that cuDNN computes badly, say. An op that is run again
computes as it did at first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.record.observe import torch_private

Settings = tuple[Any, ...]  #: by position in `_ALL`; None where PyTorch does not say

_CUDA, _CUDNN, _ONEDNN = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
_CUBLAS = _CUDA.matmul
_TINY = 1e-310  #: a denormal number
_NAMES = (
    (_CUDNN, ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")),
    (_ONEDNN, ("enabled", "deterministic")),
    (_CUBLAS, ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")),
    (_CUBLAS, ("allow_fp16_accumulation", "fp32_precision")),
    *((getattr(library, kind, None), ("fp32_precision",)) for library in (_CUDNN, _ONEDNN) for kind in ("conv", "rnn")),
    (getattr(_ONEDNN, "matmul", None), ("fp32_precision",)),
    (torch.utils.deterministic, ("fill_uninitialized_memory",)),
)
#: What fused attention may use, as functions `..._sdp_enabled` and `enable_..._sdp`.
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
_Pair = tuple[Callable[[], Any], Callable[[Any], object]]


def _pair(owner: Any, name: str) -> _Pair:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _has(owner: Any, name: str) -> bool:
    try:
        return hasattr(owner, name)
    except RuntimeError:  # as in `_read`
        return True


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _carveout() -> int | None:
    if not torch_private.has("torch._C._get_sm_carveout_experimental"):
        return None
    kept = torch_private.sm_carveout()
    return -1 if kept is None else kept


#: What reads each of them, and what writes it; older versions of PyTorch do not have all.
_ALL: list[_Pair] = [
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (lambda: _TINY * 1.0 == 0.0, torch.set_flush_denormal),
    (_CUDA.preferred_blas_library, _CUDA.preferred_blas_library),
    (_CUDA.preferred_linalg_library, _CUDA.preferred_linalg_library),
    (_CUDA.fp16_bf16_reduction_math_sdp_allowed, _CUDA.allow_fp16_bf16_reduction_math_sdp),
    (torch_private.nnpack_enabled, torch_private.set_nnpack_enabled),
    (_carveout, lambda value: torch_private.set_sm_carveout(None if value < 0 else value)),
    *((getattr(_CUDA, f"{one}_sdp_enabled"), getattr(_CUDA, f"enable_{one}_sdp")) for one in _ATTENTION),
    *(_pair(owner, name) for owner, names in _NAMES for name in names if _has(owner, name)),
]


def now() -> Settings:
    """The present settings."""
    return tuple(_read(read) for read, _ in _ALL)


@contextmanager
def by(wanted: Settings) -> Iterator[None]:
    """A context in which ops compute by these settings."""
    before = now()
    _write(wanted, before)
    try:
        yield
    finally:
        _write(before, wanted)


def _write(wanted: Settings, there: Settings) -> None:
    for _ in range(2 * (wanted != there)):  # some write others, too
        for (read, write), value in zip(_ALL, wanted, strict=True):
            if value is not None and _read(read) != value:
                write(value)


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:  # the precision was set in both of PyTorch's ways, of which this is the older
        return None
