"""The calls that a grid of measurements timed, as they are priced (prices.py)."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coopsim.cards.prices import Call, Shape

#: µs between two CUDA events with nothing between them, which a grid's times include.
EVENTS_US = 1.28
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
#: What computes products of each type; a grid is measured with TF32 allowed, but for products whose `more` is this.
_UNIT = {"float32": "tf32", "bfloat16": "bf16", "float16": "fp16"}
_IEEE = "ieee"


@dataclass(frozen=True)
class Timed:
    """A call and how long it took, in ns; `where` names what it is from: a network, an op."""

    call: Call
    ns: float
    where: str
    count: int = 1


def timed(rows: list[Mapping[str, str]]) -> list[Timed]:
    """Return the timed calls of a grid's rows (csv.DictReader); rows of several ops, errors and RNNs give none.

    Of rows of bfloat16 and float16 with the same shapes, which cost the same, the faster one counts: what else the host
    does can only add time.
    """
    fastest: dict[tuple[str, ...], Timed] = {}
    for number, row in enumerate(rows):
        found = _timed(row)
        if found is None or found.ns <= 0:
            continue
        half = found.call.half and row["kind"] == "conv"
        key = (row["op"], row["layout"], row["shape"], row["more"]) if half else (str(number),)
        if key not in fastest or found.ns < fastest[key].ns:
            fastest[key] = found
    return list(fastest.values())


def _timed(row: Mapping[str, str]) -> Timed | None:
    if row["kind"] not in ("op", "conv") or row["op"] == "error" or row["more"].startswith("error"):
        return None
    size = _BYTES[row["dtype"]]
    shape = [int(n) for n in row["shape"].split("x")]
    ns = 1000 * (float(row["us"]) - EVENTS_US)
    if row["kind"] == "conv":
        call, where = _convolution(row, shape, size)
        return Timed(call, ns, where)
    name, _, layout = row["op"].partition(" ")
    make = _OPS.get(row["op"] if layout.startswith("{") else name)
    if make is None:
        return None
    kind, nbytes, flops, extra = make(shape, size)
    unit = "fp32" if row["more"] == _IEEE else _UNIT[row["dtype"]]
    call = Call(kind, unit, nbytes, flops, last="last" in (layout, row["layout"]))
    return Timed(extra(call), ns, row["op"])


def _convolution(row: Mapping[str, str], image: Shape, size: int) -> tuple[Call, str]:
    weight, _bias, stride, padding, dilation, transposed, beyond, groups, network = json.loads(row["more"])
    kernel = [d * (k - 1) for d, k in zip(dilation, weight[2:], strict=True)]
    around = zip(image[2:], stride, padding, kernel, beyond, strict=True)
    if transposed:
        out = [image[0], weight[1] * groups, *((n - 1) * s - 2 * p + k + b + 1 for n, s, p, k, b in around)]
    else:
        out = [image[0], weight[0], *((n + 2 * p - k - 1) // s + 1 for n, s, p, k, _ in around)]
    images, weights, results = map(math.prod, (image, weight, out))
    pixels = image if transposed else out
    flops = 2 * pixels[0] * math.prod(pixels[2:]) * weights
    nbytes, kind = images + weights + results, "conv"
    if row["op"] != "forward":
        for_input = row["op"] == "backward"
        flops *= 1 + for_input
        nbytes += weights + images * for_input
        kind = "conv_backward"
    call = Call(kind, _UNIT[row["dtype"]], nbytes * size, flops, last=row["layout"] == "last")
    return call.convolution(image, weight, stride, groups, transposed=transposed), network


_Op = tuple[str, int, int, Callable[[Call], Call]]


def _same(call: Call) -> Call:
    return call


def _moves(kind: str, times: float, beside: int = 0) -> Callable[[Shape, int], _Op]:
    """Of an op that reads and writes `times` the operand, and `beside` bytes an element."""
    return lambda shape, size: (kind, round(math.prod(shape) * (times * size + beside)), 0, _same)


def _norm(kind: str, times: float, at: int) -> Callable[[Shape, int], _Op]:
    """Of a norm or softmax, whose width is the size of dimension `at`."""
    return lambda shape, size: (kind, round(math.prod(shape) * times * size), 0, lambda call: call.norm(shape[at]))


def _looks_up(kind: str) -> Callable[[Shape, int], _Op]:
    """Of an op that reads an element of each row."""
    return lambda shape, size: (kind, 2 * shape[0] * size, 0, _same)


def _matmul(shape: Shape, size: int) -> _Op:
    m, k, n = shape
    return "matmul", size * (m * k + k * n + m * n), 2 * m * k * n, lambda call: call.product(m, k, n)


def _bmm(shape: Shape, size: int) -> _Op:
    batch, rows, inner, columns = shape
    flops = 2 * batch * rows * inner * columns
    nbytes = size * batch * (rows * inner + rows * columns)
    return "bmm", nbytes, flops, lambda call: call.product(rows, inner, columns)


def _attention(shape: Shape, size: int) -> _Op:
    return "attention", 4 * math.prod(shape) * size, 4 * math.prod(shape) * shape[1], Call.causal


def _attention_backward(shape: Shape, size: int) -> _Op:
    return "attention_backward", 8 * math.prod(shape) * size, 10 * math.prod(shape) * shape[1], Call.causal


#: op of the grid → class, bytes as a recorder counts them, FLOPs
_OPS: dict[str, Callable[[Shape, int], _Op]] = {
    **{name: _moves("elementwise", 3) for name in ("add", "add_", "mul", "gelu_backward")},
    **{name: _moves("elementwise", 2) for name in ("gelu", "silu", "relu", "exp")},
    "dropout": _moves("elementwise", 2, 1),
    "copy": _moves("copy", 2),
    "to": lambda shape, _: ("copy", math.prod(shape) * 6, 0, _same),
    "transpose_copy": _moves("copy", 2),
    "cat": _moves("copy", 4),
    "zero_": _moves("fill", 2),
    **{name: _moves("reduction", 1) for name in ("sum", "sum_rows", "sum_cols", "avg_pool")},
    "layer_norm": _norm("layer_norm", 2, 1),
    "layer_norm_backward": _norm("layer_norm_backward", 3, 1),
    "softmax": _norm("softmax", 2, 1),
    "softmax_backward": _norm("softmax_backward", 3, 1),
    "log_softmax": _norm("log_softmax", 2, 1),
    "batch_norm": _norm("native_batch_norm", 2, 1),
    "batch_norm_backward": _norm("native_batch_norm_backward", 3, 1),
    "cudnn_batch_norm": _norm("batch_norm", 2, 1),
    "group_norm": _moves("group_norm", 2),
    "max_pool": _moves("pool", 1.25, 2),
    "upsample": _moves("pool", 5),
    "nll": lambda shape, _: ("nll", 16 * shape[0], 0, _same),
    "gather": _looks_up("gather"),
    "mm": _matmul,
    "addmm": _matmul,
    "bmm": _bmm,
    "sdpa": _attention,
    "sdpa_backward": _attention_backward,
    "adamw {'fused': True}": lambda shape, size: ("optimizer", 7 * math.prod(shape) * size, 0, _same),
}
