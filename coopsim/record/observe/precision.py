"""Whether float32 products run in TF32 or in full precision now, as the program has set it.

cuBLAS and cuDNN ask PyTorch at every call, so a program may change its settings at any time. PyTorch's defaults are
full precision for matrix products, and TF32 for convolutions and RNNs.
"""

import os
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import Any

import torch

from coopsim.base.types import Precision
from coopsim.record.observe.torch_private import (
    FP32_PRECISION,
    cublas_allows_tf32,
    cudnn_allows_tf32,
    cudnn_enabled,
    fp32_precision,
    has,
)


class ProductKind(StrEnum):
    """Ops with products, by what decides their precision."""

    PRODUCTS = "matrix products"  #: cuBLAS
    CONVOLUTIONS = "convolutions"  #: cuDNN
    RNNS = "RNNs"  #: cuDNN
    ATTENTION = "attention"  #: fused kernels, which no setting changes


_SHORT = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
#: PyTorch's name of the setting of a kind (torch.backends), below backend "cuda".
_SETTINGS = {ProductKind.PRODUCTS: "matmul", ProductKind.CONVOLUTIONS: "conv", ProductKind.RNNS: "rnn"}


@cache
def kind(func: Any) -> ProductKind:
    """Return the kind of an op that has FLOPs (flops.has_flops)."""
    name = func._schema.name
    if "convolution" in name:
        return ProductKind.CONVOLUTIONS
    if "attention" in name:
        return ProductKind.ATTENTION
    return ProductKind.RNNS if "_rnn" in name else ProductKind.PRODUCTS


def now(of: ProductKind) -> Precision:
    """Return in what an op of this kind computes products of float32 tensors, on a card that has TF32.

    Neither changes a setting nor warns, whichever of PyTorch's old and new settings the program has mixed. Without
    cuDNN, convolutions are matrix products. The kernel of attention on float32 (CUTLASS, OpMultiplyAddFastF32) makes
    each product of three in TF32, to the accuracy of float32: that is "fp32" here.
    """
    if of is ProductKind.CONVOLUTIONS and not cudnn_enabled():
        of = ProductKind.PRODUCTS
    if of is ProductKind.ATTENTION or _switched_off():
        return "fp32"
    if _has_levels():
        return "tf32" if fp32_precision("cuda", _SETTINGS[of]) == "tf32" else "fp32"
    allowed = cublas_allows_tf32() if of is ProductKind.PRODUCTS else cudnn_allows_tf32()
    return "tf32" if allowed else "fp32"


class Precisions:
    """The precisions in which ops on float32 tensors were seen to run.

    `given` is that of all ops whose precision is a setting, whatever the program has set; None: as it has set it.
    """

    def __init__(self, given: Precision | None, *, has_tf32: bool) -> None:
        self._given: Precision | None = given if has_tf32 else "fp32"
        self._seen: dict[tuple[ProductKind, Precision], None] = {}
        self._others: set[str] = set()  # types of products other than float32

    def of(self, func: Any) -> Precision:
        """Return the precision of an op with FLOPs if it runs now, on float32 tensors."""
        what = kind(func)
        found = self._given if self._given is not None and what is not ProductKind.ATTENTION else now(what)
        self._seen[what, found] = None
        return found

    def multiplied(self, dtype: torch.dtype | None) -> None:
        """Note products of operands of this type."""
        if dtype is not None and dtype is not torch.float32:
            self._others.add(_SHORT.get(dtype, str(dtype).removeprefix("torch.")))

    def forget(self) -> None:
        """Forget what was seen."""
        self._seen.clear()
        self._others.clear()

    def products(self, *, autocast: bool) -> str:
        """In what the products were computed: "tf32", "bf16 autocast", "bf16 autocast, float32 products in fp32".

        autocast: whether a module was called under it.
        """
        if not self._others:
            return self.text
        words = " and ".join(sorted(self._others)) + " autocast" * autocast
        single = any(kind is not ProductKind.ATTENTION for kind, _ in self._seen)
        return f"{words}, float32 products in {self.text}" if single else words

    @property
    def text(self) -> str:
        """The precision, "tf32" or "fp32"; where there were both, what each was of: "fp32 (matrix products), ..."."""
        return describe(self._settings())

    def _settings(self) -> list[tuple[ProductKind, Precision]]:
        """Return what was seen of ops with a setting; without any, the setting of matrix products."""
        seen = [key for key in self._seen if key[0] is not ProductKind.ATTENTION]
        return seen or [(ProductKind.PRODUCTS, self._given or now(ProductKind.PRODUCTS))]


def describe(seen: Iterable[tuple[ProductKind, Precision]]) -> str:
    """Return one line that names precisions, and of what each is if there are two."""
    of: dict[str, list[str]] = {}
    for what, precision in sorted(set(seen), key=lambda key: list(ProductKind).index(key[0])):
        of.setdefault(precision, []).append(what)
    if len(of) == 1:
        return next(iter(of))
    return ", ".join(f"{precision} ({', '.join(whats)})" for precision, whats in sorted(of.items()))


@cache
def _has_levels() -> bool:
    """Return whether this PyTorch has fp32_precision. Its getter never raises; those of the older flags may, then."""
    return has(FP32_PRECISION)


@cache
def _switched_off() -> bool:
    """Return whether NVIDIA's libraries are told never to use TF32; they read that once."""
    return os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"
