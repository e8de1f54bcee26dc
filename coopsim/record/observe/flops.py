"""Count the FLOPs of ops, a multiply-add as two.

Those of convolutions, attention and cuDNN's RNNs are counted here, those of other ops as torch.utils.flop_counter does.
PyTorch's own counts of convolutions' gradients are wrong for groups, and its counts of attention raise for grouped
queries below 2.12.
"""

import logging
import math
from collections.abc import Callable
from typing import Any

# flop_counter warns at import if Triton is absent; Triton's kernels are not counted here.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

from torch.utils.flop_counter import flop_registry  # noqa: E402

from coopsim.cards.prices import class_of  # noqa: E402

_log = logging.getLogger(__name__)
_failed: set[str] = set()  #: ops whose formula has raised, of which each is told once


def has_flops(func: Any) -> bool:
    """Return whether there is a formula for the FLOPs of an op."""
    return class_of(func._schema.name) in _FORMULAS or func.overloadpacket in flop_registry


def flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any], out: Any) -> int:
    """Return the FLOPs of a call; 0 for an op without a formula, or with one of PyTorch's that raises, which is logged.

    `named` are the arguments by name (effects.arguments), `out` is what the call returned.
    """
    name = func._schema.name
    own = _FORMULAS.get(class_of(name))
    if own is not None:
        return own(name, named, out)
    formula = flop_registry.get(func.overloadpacket)
    if formula is None:
        return 0
    try:
        return int(formula(*args, **kwargs, out_val=out))
    except Exception as error:  # whatever PyTorch does not expect: a count must not end a run
        if name not in _failed:
            _failed.add(name)
            _log.warning("the FLOPs of %s count as 0, as PyTorch's formula fails: %s", name, error)
        return 0


def _convolution(name: str, named: dict[str, Any], out: Any) -> int:
    image = named["input" if "input" in named else "self"]
    transposed = named.get("transposed", name.endswith("_transpose"))
    return _of_pixels(image if transposed else out, named["weight"])


def _of_pixels(pixels: Any, weight: Any) -> int:
    """Every pixel of the smaller image meets every weight of its group once; a weight has one pair of channels."""
    return int(2 * pixels.size(0) * math.prod(pixels.shape[2:]) * weight.numel())


def _convolution_backward(_: str, named: dict[str, Any], __: Any) -> int:
    of_input, of_weight, _of_bias = named["output_mask"]
    pixels = named["input"] if named["transposed"] else named["grad_output"]
    return _of_pixels(pixels, named["weight"]) * (bool(of_input) + bool(of_weight))


def _attention(name: str, named: dict[str, Any], _: Any) -> int:
    """Two products, scores and result, of all queries with all keys: masks save nothing, as PyTorch counts."""
    pairs, width, result = _pairs(name, named)
    return 2 * pairs * (width + result)


def _attention_backward(name: str, named: dict[str, Any], _: Any) -> int:
    """Five products: the scores again, and the gradients of scores, values, queries and keys."""
    pairs, width, result = _pairs(name, named)
    return 2 * pairs * (3 * width + 2 * result)


def _pairs(name: str, named: dict[str, Any]) -> tuple[int, int, int]:
    """Return how many pairs of query and key there are in all heads of queries, and what a query and a value have.

    Sequences that are packed one behind the other count as equally long: their lengths are data of the device.
    """
    query, key, value = (tuple(map(int, named[what].shape)) for what in ("query", "key", "value"))
    starts = named.get("cum_seq_q", named.get("cu_seqlens_q"))
    if "scaled_dot_product" in name or ("cudnn_attention" in name and len(query) == 4):
        return math.prod(query[:-1]) * key[-2], query[-1], value[-1]
    length = key[-3]  # sequences before heads
    if starts is not None and starts.numel() > 1:
        length = math.ceil(length / (int(starts.numel()) - 1))
    return math.prod(query[:-1]) * length, query[-1], value[-1]


def _rnn(_: str, named: dict[str, Any], __: Any) -> int:
    """Count one product of every token with every weight matrix; cuDNN's weights are matrices and bias vectors."""
    tokens = named["input"].numel() // named["input"].size(-1)
    return sum(2 * tokens * weight.numel() for weight in named["weight"] if weight.dim() > 1)


def _rnn_backward(name: str, named: dict[str, Any], out: Any) -> int:
    return 2 * _rnn(name, named, out)


_FORMULAS: dict[str, Callable[[str, dict[str, Any], Any], int]] = {
    "conv": _convolution,
    "conv_backward": _convolution_backward,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "rnn": _rnn,
    "rnn_backward": _rnn_backward,
}
