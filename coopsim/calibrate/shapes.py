"""The ops that are timed: some for each class of the prices, with each feature that the prices know."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

_DTYPES = ("float32", "bfloat16")
IEEE = "ieee"  #: `more` of a product of float32 without TF32; with TF32 it is ""


@dataclass(frozen=True)
class MeasuredCase:
    """An op to be timed: the columns that name it in a table of times.

    kind: op or conv. layout: of images, "c" channels first, "last"; "" of others. shape: sizes as in 32x64x56x56;
    `more`: what else describes it, for convolutions as JSON: sizes of the weights, bias, stride, padding, dilation,
    transposed, output padding, groups, the network.
    """

    kind: str
    op: str
    dtype: str
    layout: str
    shape: tuple[int, ...]
    more: str = ""

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.kind} {self.op} {self.dtype} {self.layout} {self.sizes} {self.more}"

    @property
    def sizes(self) -> str:
        """The shape as tables have it."""
        return "x".join(map(str, self.shape))

    def row(self) -> dict[str, str]:
        """Return the columns."""
        names = "kind", "op", "dtype", "layout", "shape", "more"
        values = self.kind, self.op, self.dtype, self.layout, self.sizes, self.more
        return dict(zip(names, values, strict=True))


_ELEMENTWISE = ("add", "add_", "mul", "gelu", "gelu_backward", "copy", "to", "sum", "dropout", "where")
_ELEMENTS = (10**4, 10**6, 2 * 10**7)
_ROWS = ("layer_norm", "layer_norm_backward", "softmax", "softmax_backward", "log_softmax", "sum_rows", "sum_cols")
_ROW_SIZES = ((4096, 256), (16384, 1024), (8192, 4096))
_VOCABULARY = ("log_softmax", "nll", "embedding")
_IMAGES = ("batch_norm", "batch_norm_backward", "max_pool", "avg_pool", "upsample", "group_norm")
_IMAGE_SIZES = ((32, 64, 56, 56), (32, 512, 14, 14))
_PRODUCTS = ((512, 1024, 1024), (4096, 1024, 4096), (8192, 4096, 1024), (4096, 4096, 4096), (8192, 1024, 50257))
_BATCHED = ((256, 512, 64, 512), (64, 2048, 128, 2048), (384, 128, 64, 128))
_ATTENTION = ((256, 512, 64), (64, 2048, 128), (384, 128, 64))
_OPTIMIZERS = ("adamw {'foreach': True}", "adamw {'fused': True}", "sgd {'foreach': True}", "clip")
_PARAMETERS = ((10**6, 16), (10**3, 300))
#: Input, weights, stride, padding, groups, transposed: 3 x 3, 1 x 1, strided, depthwise, grouped, first layer, wide,
#: oblong, small batch, transposed.
_CONVOLUTIONS = (
    ((32, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, False),
    ((32, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1, False),
    ((32, 512, 7, 7), (2048, 512, 1, 1), 1, 0, 1, False),
    ((32, 1024, 14, 14), (2048, 1024, 1, 1), 2, 0, 1, False),
    ((32, 384, 14, 14), (384, 1, 3, 3), 1, 1, 384, False),
    ((32, 128, 56, 56), (128, 4, 3, 3), 1, 1, 32, False),
    ((32, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1, False),
    ((32, 1280, 16, 16), (1280, 1280, 3, 3), 1, 1, 1, False),
    ((32, 96, 25, 25), (96, 96, 3, 3), 1, 1, 1, False),
    ((8, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, False),
    ((32, 1024, 16, 16), (1024, 512, 2, 2), 2, 0, 1, True),
)
_LAYOUTS = (("float32", "c"), ("bfloat16", "c"), ("bfloat16", "last"))


def ops() -> Iterator[MeasuredCase]:
    """Yield the ops that are timed for the prices."""
    for dtype in _DTYPES:
        for n in _ELEMENTS:
            yield from (MeasuredCase("op", op, dtype, "", (n,)) for op in _ELEMENTWISE)
        for size in _ROW_SIZES:
            yield from (MeasuredCase("op", op, dtype, "", size) for op in _ROWS)
        yield from (MeasuredCase("op", op, dtype, "", (8192, 32000)) for op in _VOCABULARY)
        for shape in _IMAGE_SIZES:
            for layout in ("c", "last"):
                yield from (MeasuredCase("op", f"{op} {layout}", dtype, "", shape) for op in _IMAGES)
                if dtype == "float32":  # with weights of another type than the input it is refused
                    yield MeasuredCase("op", f"cudnn_batch_norm {layout}", dtype, "", shape)
        for precision in ("", IEEE) if dtype == "float32" else ("",):
            for sizes in _PRODUCTS:
                yield MeasuredCase("op", "mm", dtype, "", sizes, precision)
            yield MeasuredCase("op", "addmm", dtype, "", _PRODUCTS[1], precision)
            yield from (MeasuredCase("op", "bmm", dtype, "", sizes, precision) for sizes in _BATCHED)
        for sizes in _ATTENTION:
            yield from (MeasuredCase("op", op, dtype, "", sizes) for op in ("sdpa", "sdpa_backward"))
        if dtype == "float32":
            for size in _PARAMETERS:
                yield from (MeasuredCase("op", op, dtype, "", size) for op in _OPTIMIZERS)


def convolutions() -> Iterator[MeasuredCase]:
    """Yield the convolutions that are timed for the prices, and whose workspaces are measured."""
    for shape, weights, stride, padding, groups, transposed in _CONVOLUTIONS:
        more = [list(weights), False, [stride] * 2, [padding] * 2, [1, 1], transposed, [0, 0], groups, "calibrate"]
        backward = "backward" if shape[1] > 4 else "backward-weights"
        for dtype, layout in _LAYOUTS:
            yield from (
                MeasuredCase("conv", op, dtype, layout, shape, json.dumps(more)) for op in ("forward", backward)
            )


def recurrent() -> Iterator[MeasuredCase]:
    """Yield the recurrent layers whose workspaces are measured; `more`: hidden size, layers, bidirectional."""
    for kind in ("LSTM", "GRU", "RNN"):
        for dtype in _DTYPES:
            more = json.dumps([512, 2, False])
            yield from (
                MeasuredCase("rnn", f"{kind} {way}", dtype, "", (32, 128, 512), more) for way in ("forward", "backward")
            )
