"""What an op costs on a card: by its class, from the shares of the card's peak rates that such ops reach.

a + bytes ÷ (b · bandwidth) + FLOPs ÷ (f · peak), with the entries of the class, which prices.toml explains. The shares
were measured on an H100; a card's own are used where they have been measured. Nothing here imports torch.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Protocol

ELEMENTWISE = "elementwise"  #: whatever is in no other class
FREE = "free"  #: ops that allocate and launch no kernel

#: The ops of each class, by name without the namespace `aten`. `conv` and `conv_backward` are divided further by the
#: shapes of a call (Call.convolution).
_OPS = {
    FREE: "empty empty_like empty_permuted empty_strided new_empty new_empty_strided _efficientzerotensor",
    "copy": "_index_put_impl_ _to_copy as_strided_scatter cat clone col2im constant_pad_nd copy copy_ flip "
    "im2col index_put index_put_ masked_scatter masked_select pixel_shuffle pixel_unshuffle "
    "reflection_pad1d reflection_pad2d repeat replication_pad2d roll scatter scatter_ select_backward select_scatter "
    "slice_backward slice_scatter stack unfold_backward",
    "reduction": "_foreach_norm all amax amin any argmax argmin count_nonzero cumsum linalg_vector_norm logsumexp "
    "max mean median min norm prod std std_mean sum var var_mean",
    "softmax": "_softmax",
    "softmax_backward": "_softmax_backward_data",
    "log_softmax": "_log_softmax",
    "log_softmax_backward": "_log_softmax_backward_data",
    "nll": "nll_loss_forward nll_loss2d_forward",
    "layer_norm": "native_layer_norm _fused_rms_norm",
    "layer_norm_backward": "native_layer_norm_backward _fused_rms_norm_backward",
    "group_norm": "native_group_norm",
    "group_norm_backward": "native_group_norm_backward",
    "batch_norm": "cudnn_batch_norm",
    "batch_norm_backward": "cudnn_batch_norm_backward",
    "native_batch_norm": "native_batch_norm _native_batch_norm_legit _batch_norm_with_update",
    "native_batch_norm_backward": "native_batch_norm_backward batch_norm_backward",
    "pool": "_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool2d avg_pool3d max_pool2d_with_indices "
    "max_pool3d_with_indices upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_bicubic2d",
    "pool_backward": "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward avg_pool2d_backward "
    "avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
    "upsample_bilinear2d_backward upsample_nearest1d_backward upsample_nearest2d_backward upsample_bicubic2d_backward",
    "fill": "_foreach_zero_ fill_ zero_",
    "gather": "_unsafe_index gather index index_select",
    "embedding": "embedding",
    "embedding_backward": "embedding_dense_backward",
    "lstm_cell": "_thnn_fused_gru_cell _thnn_fused_lstm_cell",
    "lstm_cell_backward": "_thnn_fused_gru_cell_backward _thnn_fused_lstm_cell_backward_impl",
    "optimizer": "_fused_adagrad_ _fused_adam_ _fused_adamw_ _fused_sgd_",
    "matmul": "_addmm_activation _int_mm _scaled_mm addmm addmm_ addmv addmv_ mm mv",
    "bmm": "addbmm baddbmm baddbmm_ bmm",
    "conv": "_convolution convolution convolution_overrideable cudnn_convolution cudnn_convolution_transpose",
    "conv_backward": "convolution_backward",
    "attention": "_cudnn_attention_forward _efficient_attention_forward _flash_attention_forward "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_flash_attention",
    "attention_backward": "_cudnn_attention_backward _efficient_attention_backward _flash_attention_backward "
    "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention_backward",
    "rnn": "_cudnn_rnn",
    "rnn_backward": "_cudnn_rnn_backward",
}
_CLASS = {op: kind for kind, ops in _OPS.items() for op in ops.split()}


def class_of(name: str) -> str:
    """Return the class of an op by its name, such as `aten::add`; ops of other namespaces are elementwise."""
    namespace, _, plain = name.rpartition("::")
    return _CLASS.get(plain, ELEMENTWISE) if namespace in ("", "aten") else ELEMENTWISE


Shape = Sequence[int]

#: Of the columns of a matrix product, how many a block of threads computes.
_TILE = 128


@dataclass(frozen=True)
class Call:
    """A call as it is priced.

    kind: its class. unit: what computes its FLOPs, "tf32", "fp32", "bf16" or "fp16", by the type of its
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


Class = Mapping[str, float]


class CardPeaks(Protocol):
    """A card's peak rates, in TFLOP/s (0: no such unit) and 1e9 bytes per second; its title, and their source."""

    @property
    def fp32_tflops(self) -> float: ...
    @property
    def tf32_tflops(self) -> float: ...
    @property
    def bf16_tflops(self) -> float: ...
    @property
    def fp16_tflops(self) -> float: ...
    @property
    def bandwidth_gbs(self) -> float: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...


def price(call: Call, classes: Mapping[str, Class], ieee_of_peak: float, card: CardPeaks) -> int:
    """Return the price of a call, in whole ns.

    `classes` is a table of prices, `ieee_of_peak` the share of the FP32 peak that products in full float32 reach.
    """
    fixed, per_byte = line(call, classes, card)
    computing = 0.0
    if call.flops and call.kind != FREE:
        of = _class(call, classes)
        of = of if "f" in of or "v" in of else classes["matmul"]
        computing = call.flops * _waste(call, of) / _rate(call, of, ieee_of_peak, card)
    return round(fixed + call.moved * per_byte + computing)


def line(call: Call, classes: Mapping[str, Class], card: CardPeaks) -> tuple[float, float]:
    """Return the ns that a call takes that moves and computes nothing, and the ns per byte."""
    if call.kind == FREE:
        return 0.0, 0.0
    of = _class(call, classes)
    return of["a"], 1 / (_share(call, of) * card.bandwidth_gbs)


def _class(call: Call, classes: Mapping[str, Class]) -> Class:
    return classes.get(call.kind) or classes[ELEMENTWISE]


def _share(call: Call, of: Class) -> float:
    """Return the share of the bandwidth that a call reaches."""
    share = of.get("b16", of["b"]) if call.half else of["b"]
    if call.last:
        share *= of.get("bl", 1.0)
    if call.odd:
        share *= of.get("bo", 1.0)
    if "c0" in of and call.width:
        share *= min(1.0, call.width / of["c0"])
    return share


def _waste(call: Call, of: Class) -> float:
    """Return the FLOPs that a call does ÷ those that it is credited with."""
    outputs = max(1.0, of["co"] / call.outputs) if "co" in of and call.outputs else 1.0
    depth = max(1.0, of["k"] / call.depth) if "k" in of and call.depth else 1.0
    return call.waste * outputs * depth


def _rate(call: Call, of: Class, ieee_of_peak: float, card: CardPeaks) -> float:
    """Return the FLOPs per ns that a call does. Those in TF32 are no slower than those in full float32."""
    full = 1000 * ieee_of_peak * card.fp32_tflops
    last = of.get("fl", 1.0) if call.last else 1.0
    if "v" in of and not (call.half and "f16" in of):
        return 1000 * card.fp32_tflops * last * (of.get("v16", of["v"]) if call.half else of["v"])
    peak = {"tf32": card.tf32_tflops, "bf16": card.bf16_tflops, "fp16": card.fp16_tflops}.get(call.unit, 0.0)
    if not peak:
        return full
    share = last * (of["f16"] if call.half and "f16" in of else of["f"])
    if call.odd:
        share *= of.get("odd16" if call.half else "odd", 1.0)
    tensor = 1000 * share * peak
    return max(tensor, full) if call.unit == "tf32" else tensor


IEEE = "ieee_fp32_of_peak"
Measured = Mapping[str, Any]  #: {class: {entry: value}, "ieee_fp32_of_peak": share}


@dataclass(frozen=True)
class PriceTable:
    """Prices on one card. `source` is a line for headers: what they rest on."""

    classes: Mapping[str, Class]
    ieee_fp32_of_peak: float
    card: CardPeaks
    source: str

    def price(self, call: Call) -> int:
        """Return the price of a call, in whole ns."""
        return price(call, self.classes, self.ieee_fp32_of_peak, self.card)

    def by_bytes(self, call: Call) -> tuple[float, float]:
        """Return the ns of a call without FLOPs that moves nothing, and the ns per byte."""
        return line(call, self.classes, self.card)


def table(card: CardPeaks, measured: Measured | None = None, measured_by: str = "") -> PriceTable:
    """Return the prices on a card.

    `measured` is what has been measured on it, a class or more, in the form of prices.toml; `measured_by` says how and
    when, for the table's source. Other classes are those that prices.toml shares between all cards.
    """
    shipped = _shipped()
    own = {kind: entries for kind, entries in (measured or {}).items() if kind != IEEE}
    on = f"an {shipped['card']} ({shipped['date']})"
    source = f"prices by class measured on {on}, as shares of the peaks of the {card.title}: {_peaks(card)}"
    if own:
        rest = "" if own.keys() >= shipped["classes"].keys() else f"; classes not measured there: {source}"
        source = f"prices by class measured on the {card.title}{f' ({measured_by})' if measured_by else ''}{rest}"
    ieee = (measured or {}).get(IEEE, shipped[IEEE])
    return PriceTable(shipped["classes"] | own, float(ieee), card, source)


def _peaks(card: CardPeaks) -> str:
    units = {name.upper(): getattr(card, f"{name}_tflops") for name in ("tf32", "fp32", "bf16", "fp16")}
    rates = ", ".join(f"{name} {rate:g}" for name, rate in units.items() if rate)
    return f"{rates} TFLOP/s, {card.bandwidth_gbs:g} GB/s; peaks from {card.source}"


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(resources.files("coopsim.cards").joinpath("prices.toml").read_text(encoding="utf-8"))


__all__ = ["Call", "PriceTable", "table"]
