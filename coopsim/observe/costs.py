"""Estimate what an op costs on a card without running it, by a roofline: max(FLOPs ÷ rate, bytes ÷ bandwidth).

No kernel costs less than a launch. FLOPs are those of torch.utils.flop_counter (matrix products, convolutions,
attention) and, for cuDNN's RNNs, of the formula here; everything else is bound by bandwidth. Peak rates are those of
the card's data sheet, times the share of them that kernels reach (efficiency.py).
"""

import logging
from typing import Any

import torch

# flop_counter warns at import if Triton is absent; Triton's kernels are not counted here.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

from torch.utils.flop_counter import flop_registry  # noqa: E402

from coopsim.observe.efficiency import EFFICIENCY  # noqa: E402
from coopsim.observe.precision import Precisions  # noqa: E402
from coopsim.phantom.profiles import Profile  # noqa: E402
from coopsim.types import Precision  # noqa: E402

#: Prefixes of the names of ops that allocate and launch no kernel: they cost nothing.
NO_KERNEL = ("aten::empty", "aten::new_empty", "aten::_efficientzerotensor")


class CostModel:
    """Costs of ops on one card, in ns.

    `precision` is that of float32 products: "tf32" or "fp32" in all ops; None: as the program has set it when an op
    runs. `precisions` has seen what it was. A card without TF32 does them at its FP32 rate, and so does a card without
    units for bfloat16 or float16 with these.
    """

    def __init__(self, card: Profile, precision: Precision | None) -> None:
        vector = card.fp32_tflops * EFFICIENCY.vector
        tensor = {name: getattr(card, f"{name}_tflops") * EFFICIENCY.tensor for name in ("tf32", "bf16", "fp16")}
        self.precisions = Precisions(precision, has_tf32=card.tf32_tflops > 0)
        # cuBLAS may use FP32 where that is faster: TF32 is never slower
        self._single: dict[str, float] = {"tf32": max(tensor["tf32"], vector), "fp32": vector}
        self._half = {torch.bfloat16: tensor["bf16"] or vector, torch.float16: tensor["fp16"] or vector}
        self._vector = vector
        self._gbs = card.bandwidth_gbs * EFFICIENCY.bandwidth
        self._card = card

    @property
    def precision(self) -> str:
        """The precision of float32 products that were costed, for the trace's header (Precisions.text)."""
        return self.precisions.text

    @property
    def source(self) -> str:
        """One line for the trace's header: the rates and the assumptions that the costs follow from."""
        card = self._card
        parts = [f"TF32 {EFFICIENCY.tensor:g}*{card.tf32_tflops:g}"] if self.precisions.any_tf32 else []
        parts += [f"FP32 {EFFICIENCY.vector:g}*{card.fp32_tflops:g}"]
        parts += [f"BF16 {EFFICIENCY.tensor:g}*{card.bf16_tflops:g}"] if card.bf16_tflops else []
        parts += [f"FP16 {EFFICIENCY.tensor:g}*{card.fp16_tflops:g}"] if card.fp16_tflops else []
        return (
            f"roofline of the {card.title}: {', '.join(parts)} TFLOP/s, memory {EFFICIENCY.bandwidth:g}*"
            f"{card.bandwidth_gbs:g} GB/s, at least {EFFICIENCY.launch_ns} ns a launch; peaks from {card.source}, "
            f"factors: {EFFICIENCY.source}"
        )

    @property
    def bandwidth(self) -> float:
        """Bytes per ns that a kernel moves."""
        return self._gbs

    def nanoseconds(self, func: Any, flops: int, nbytes: int, dtype: torch.dtype | None) -> int:
        """Return the cost, in whole ns, of a call that does `flops` FLOPs on operands of `dtype` and moves `nbytes`.

        `dtype` None means that no operand is floating-point. An op that launches no kernel costs 0. To be called when
        the op runs, as the precision of float32 products is read now.
        """
        if func._schema.name.startswith(NO_KERNEL):
            return 0
        # TFLOP/s are 1000 FLOP/ns, GB/s are bytes/ns
        computing = round(flops / (self._rate(func, dtype) * 1000)) if flops else 0
        return max(computing, self.moving(nbytes))

    def _rate(self, func: Any, dtype: torch.dtype | None) -> float:
        if dtype is torch.float32:
            return self._single[self.precisions.of(func)]
        return self._half.get(dtype, self._vector) if dtype is not None else self._vector

    def moving(self, nbytes: int) -> int:
        """Return the cost, in whole ns, of a kernel that moves `nbytes` and computes next to nothing."""
        return max(round(nbytes / self._gbs), EFFICIENCY.launch_ns)


_RNN = ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward")


def has_flops(func: Any) -> bool:
    """Return whether there is a formula for the FLOPs of an op."""
    return func._schema.name in _RNN or func.overloadpacket in flop_registry


def flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any], out: Any) -> int:
    """Return the FLOPs of a call, a multiply-add counting as two; 0 for an op without a formula.

    `named` are the arguments by name (effects.arguments), `out` is what the call returned.
    """
    if func._schema.name in _RNN:
        return _rnn(named) * (2 if func._schema.name.endswith("_backward") else 1)
    formula = flop_registry.get(func.overloadpacket)
    if formula is None:
        return 0
    return int(formula(*args, **kwargs, out_val=out))


def _rnn(named: dict[str, Any]) -> int:
    """Count one product of every token with every weight matrix; cuDNN's weights are matrices and bias vectors."""
    tokens = named["input"].numel() // named["input"].size(-1)
    return sum(2 * tokens * weight.numel() for weight in named["weight"] if weight.dim() > 1)


def operand_dtype(value: Any) -> torch.dtype | None:
    """Return the dtype of the first floating-point tensor in a value, lists and tuples included; None without one."""
    if isinstance(value, torch.Tensor):
        return value.dtype if value.is_floating_point() else None
    if isinstance(value, list | tuple):
        return next((found for found in map(operand_dtype, value) if found is not None), None)
    return None
