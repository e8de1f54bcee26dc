"""PyTorch's settings that say how ops compute: by which library, which algorithms, in which precision.

A program may change them in the middle of a step, around an op that cuDNN computes badly, say. An op that is run again
computes as it did at first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Settings = tuple[Any, ...]  #: by position in `_ALL`; None where PyTorch does not say

_CUDNN, _ONEDNN, _CUBLAS = torch.backends.cudnn, torch.backends.mkldnn, torch.backends.cuda.matmul
_NAMES = (
    (_CUDNN, ("enabled", "benchmark", "deterministic", "allow_tf32")),
    (_ONEDNN, ("enabled", "deterministic")),
    (_CUBLAS, ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")),
    (_CUBLAS, ("allow_fp16_accumulation", "fp32_precision")),
    *((getattr(library, kind, None), ("fp32_precision",)) for library in (_CUDNN, _ONEDNN) for kind in ("conv", "rnn")),
    (getattr(_ONEDNN, "matmul", None), ("fp32_precision",)),
)
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


#: What reads each of them, and what writes it; older versions of PyTorch do not have all.
_ALL: list[_Pair] = [
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])),
    (torch.get_default_dtype, torch.set_default_dtype),
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
