"""What the price of a call depends on: its class, what it moves and computes, and the shapes that its class minds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coopsim.prices.classes import ELEMENTWISE

Shape = Sequence[int]

#: Of the columns of a matrix product, how many a block of threads computes.
_TILE = 128


@dataclass(frozen=True)
class Call:
    """A call as it is priced.

    kind: its class (classes.py). unit: what computes its FLOPs, "tf32", "fp32", "bf16" or "fp16", by the type of its
    operands; "" for others. nbytes: the bytes of its operands and results, those that it changes twice; touched: which
    of them it reads and writes, None for all.

    width: the length of a row, or the number of channels, of a norm or softmax. last: whether the first operand is
    laid out channels-last. odd: whether rows of a matrix are no multiple of 16 bytes. outputs, depth: of a convolution,
    the channels of the result per group, and the products per element of the result. waste: FLOPs that are done ÷
    `flops`.
    """

    kind: str = ELEMENTWISE
    unit: str = ""
    nbytes: int = 0
    flops: int = 0
    width: int = 0
    last: bool = False
    odd: bool = False
    outputs: int = 0
    depth: int = 0
    waste: float = 1.0
    touched: int | None = None

    @property
    def half(self) -> bool:
        """Whether the operands have 16 bits."""
        return self.unit in ("bf16", "fp16")

    @property
    def moved(self) -> int:
        """The bytes that it reads and writes."""
        return self.nbytes if self.touched is None else self.touched

    def norm(self, width: int) -> "Call":
        """Return the call as one over rows or channels of this length or number."""
        return replace(self, width=width)

    def touching(self, nbytes: int) -> "Call":
        """Return the call as one that reads and writes only so many bytes, as an op does that looks rows up."""
        return replace(self, touched=nbytes)

    def causal(self) -> "Call":
        """Return the call as attention of each query with the keys up to its own only: half of the products."""
        return replace(self, waste=0.5)

    def product(self, *sizes: int) -> "Call":
        """Return the call as a matrix product with these sizes; a zero-dimensional call stays as it is."""
        return replace(self, odd=any(size % self._aligned for size in sizes))

    def convolution(self, image: Shape, weight: Shape, stride: Shape, groups: int, *, transposed: bool) -> "Call":
        """Return the call as a convolution of images (N, C, ...) with a weight, in the class that these make it.

        A pointwise one of contiguous images is a matrix product for each image, with a column per pixel.
        """
        backward = self.kind.endswith("_backward") * "_backward"
        taps = math.prod(weight[2:])
        inner, outer = (weight[0] // groups, weight[1]) if transposed else (weight[1], weight[0] // groups)
        if groups > 1 and inner == 1:
            return replace(self, kind="depthwise" + backward)
        sized = replace(self, outputs=outer, depth=inner * taps)
        if taps > 1 or max(stride) > 1:
            return sized
        pixels = math.prod(image[2:])
        columns = pixels if not self.last and pixels > 1 else _TILE
        return replace(
            sized,
            kind="pointwise" + backward,
            odd=bool(columns % self._aligned),
            waste=math.ceil(columns / _TILE) * _TILE / columns,
        )

    @property
    def _aligned(self) -> int:
        """Of how many elements a row must be a multiple to be loaded 16 bytes at a time."""
        return 8 if self.half else 4
