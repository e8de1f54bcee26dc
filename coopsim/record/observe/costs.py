"""Estimate what an op costs on a card without running it: by its class, the bytes that it moves, and its FLOPs.

The prices of classes are in coopsim/cards/prices, as shares of the card's peak rates.
"""

from typing import Any

import torch

from coopsim.base.types import Precision
from coopsim.cards import prices
from coopsim.cards.prices import Call
from coopsim.cards.profiles import Profile
from coopsim.record.observe import calls, flops
from coopsim.record.observe.precision import Precisions


class OpCostModel:
    """Costs of ops on one card, in ns.

    `precision` is that of float32 products: "tf32" or "fp32" in all ops; None: as the program has set it when an op
    runs. `precisions` has seen what it was. A card without TF32 does them at its FP32 rate, and so does a card without
    units for bfloat16 or float16 with these.
    """

    def __init__(self, card: Profile, precision: Precision | None) -> None:
        self.precisions = Precisions(precision, has_tf32=card.tf32_tflops > 0)
        self._prices = prices.table(card, card.prices, card.measured_by)

    @property
    def precision(self) -> str:
        """The precision of float32 products that were costed, for the trace's header (Precisions.text)."""
        return self.precisions.text

    def header(self, *, autocast: bool) -> dict[str, str]:
        """For the header of a trace: the precision of float32 products, and what products were computed in."""
        return {"precision": self.precision, "products": self.precisions.products(autocast=autocast)}

    @property
    def source(self) -> str:
        """One line for the trace's header: what the costs rest on."""
        return self._prices.source

    def call(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any], out: Any, nbytes: int
    ) -> Call:
        """Describe a call of an op that moves `nbytes`, as it is priced.

        `named` are the arguments by name (effects.arguments), `out` is what the call returned. To be called when the op
        runs, as the precision of float32 products is read now.
        """
        counted = flops.flops(func, args, kwargs, named, out)
        dtype = calls.operand_dtype(list(args))
        if counted:
            self.precisions.multiplied(dtype)
        single = self.precisions.of(func) if counted and dtype is torch.float32 else "fp32"
        return calls.describe(func, named, out, counted, nbytes, calls.unit(dtype, single))

    def nanoseconds(self, name: str, call: Call) -> int:  # noqa: ARG002 - models that look ops up need the name
        """Return the cost of a call of the op called `name`, in whole ns. An op that launches no kernel costs 0."""
        return self._prices.price(call)

    def moving(self, nbytes: int) -> int:
        """Return the cost, in whole ns, of a kernel that moves `nbytes` and computes next to nothing."""
        return self._prices.price(Call(nbytes=nbytes))

    def by_bytes(self, func: Any, *, half: bool) -> tuple[float, float]:
        """Return the time in ns, and the ns per byte, of an op whose price depends on nothing else (calls.by_shape).

        `half`: whether its first floating-point operand has 16 bits.
        """
        return self._prices.by_bytes(Call(calls.kind(func), "bf16" if half else ""))
