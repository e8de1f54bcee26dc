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
from coopsim.phantom.profiles import Profile  # noqa: E402

#: Prefixes of the names of ops that allocate and launch no kernel: they cost nothing.
NO_KERNEL = ("aten::empty", "aten::new_empty", "aten::_efficientzerotensor")


class CostModel:
    """Costs of ops on one card, in ns. `precision` is that of float32 matrix products: "tf32" or "fp32".

    A card without TF32 does them at its FP32 rate, and so does a card without units for bfloat16 or float16 with these.
    """

    def __init__(self, card: Profile, precision: str) -> None:
        vector = card.fp32_tflops * EFFICIENCY.vector
        tensor = {name: getattr(card, f"{name}_tflops") * EFFICIENCY.tensor for name in ("tf32", "bf16", "fp16")}
        self.precision = precision if tensor["tf32"] else "fp32"
        single = tensor["tf32"] if self.precision == "tf32" else vector
        self._tflops = {
            torch.float32: single,
            torch.bfloat16: tensor["bf16"] or vector,
            torch.float16: tensor["fp16"] or vector,
        }
        self._vector = vector
        self._gbs = card.bandwidth_gbs * EFFICIENCY.bandwidth
        parts = [f"TF32 {EFFICIENCY.tensor:g}*{card.tf32_tflops:g}"] if self.precision == "tf32" else []
        parts += [f"FP32 {EFFICIENCY.vector:g}*{card.fp32_tflops:g}"]
        parts += [f"BF16 {EFFICIENCY.tensor:g}*{card.bf16_tflops:g}"] if card.bf16_tflops else []
        parts += [f"FP16 {EFFICIENCY.tensor:g}*{card.fp16_tflops:g}"] if card.fp16_tflops else []
        self._roofline = (
            f"roofline of the {card.title}: {', '.join(parts)} TFLOP/s, memory {EFFICIENCY.bandwidth:g}*"
            f"{card.bandwidth_gbs:g} GB/s, at least {EFFICIENCY.launch_ns} ns a launch; peaks from {card.source}, "
            f"factors: {EFFICIENCY.source}"
        )

    @property
    def rates(self) -> tuple[float, float, float, float, float]:
        """FLOPs per ns of float32, bfloat16, float16, and of all other types; then bytes per ns."""
        types = (torch.float32, torch.bfloat16, torch.float16)
        single, brain, half = (1000 * self._tflops[dtype] for dtype in types)
        return single, brain, half, 1000 * self._vector, self._gbs

    @property
    def source(self) -> str:
        """One line for the trace's header: the rates and the assumptions that the costs follow from."""
        return self._roofline

    def nanoseconds(self, func: Any, flops: int, nbytes: int, dtype: torch.dtype | None) -> int:
        """Return the cost, in whole ns, of a call that does `flops` FLOPs on operands of `dtype` and moves `nbytes`.

        `dtype` None means that no operand is floating-point. An op that launches no kernel costs 0.
        """
        if func._schema.name.startswith(NO_KERNEL):
            return 0
        rate = self._tflops.get(dtype, self._vector) if dtype is not None else self._vector
        # TFLOP/s are 1000 FLOP/ns, GB/s are bytes/ns
        return max(round(flops / (rate * 1000)), self.moving(nbytes))

    def moving(self, nbytes: int) -> int:
        """Return the cost, in whole ns, of a kernel that moves `nbytes` and computes next to nothing."""
        return max(round(nbytes / self._gbs), EFFICIENCY.launch_ns)


_RNN = ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward")


def has_flops(func: Any) -> bool:
    """Return whether there is a formula for the FLOPs of an op."""
    return func._schema.name in _RNN or func.overloadpacket in flop_registry


def flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any], out: Any) -> int:
    """Return the FLOPs of a call, a multiply-add counting as two; 0 for an op without a formula.

    `named` are the arguments by name (effects.arguments), `out` is what the call returned. A formula that raises gives
    0, too: those of PyTorch before 2.12 reject the shapes of grouped-query attention, and a price never ends a run.
    """
    if func._schema.name in _RNN:
        return _rnn(named) * (2 if func._schema.name.endswith("_backward") else 1)
    formula = flop_registry.get(func.overloadpacket)
    if formula is None:
        return 0
    try:
        return int(formula(*args, **kwargs, out_val=out))
    except Exception:
        return 0


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
