"""Measured costs beside the roofline, by class of op; and efficiencies fitted on some models, tested on the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopsim.cards.profiles import Profile
from coopsim.trace import Trace

#: Models whose ops the efficiencies are fitted on; chosen before any measurement. The others test them.
FIT_ON = ("resnet-50", "bert-large", "unet", "bilstm")

#: The first class with a matching beginning (after `aten.`) is an op's.
CLASSES = {
    "no kernel": ("empty", "new_empty", "_efficientzerotensor"),
    "matrix product": ("mm.", "addmm", "bmm", "baddbmm"),
    "convolution": ("convolution.", "cudnn_convolution."),
    "convolution, backward": ("convolution_backward",),
    "normalisation": ("cudnn_batch_norm", "native_batch_norm", "native_layer_norm"),
    "softmax and loss": ("_softmax", "_log_softmax", "nll_loss"),
    "reduction": ("sum", "mean"),
    "move": ("clone", "_to_copy", "copy_", "cat", "roll", "constant_pad", "slice_backward", "index", "select_backward"),
    "embedding": ("embedding",),
    "pooling": ("max_pool", "avg_pool", "_adaptive_avg_pool"),
}
REST = "elementwise"
#: The roofline's shares of the peaks, by unit, and the least time of an op.
_TENSOR, _VECTOR, _BANDWIDTH, _LEAST_NS = 0.6, 0.9, 0.8, 3000
_LAUNCH = 1000  #: ns; what should take less than this shows what a launch costs


@dataclass(frozen=True)
class Costs:
    """Columns of equal length, an op a row. ideal_ns: at the card's peaks. roofline_ns: by one roofline for all."""

    model: str
    kind: list[str]
    ideal_ns: np.ndarray
    roofline_ns: np.ndarray
    measured_ns: np.ndarray


@dataclass(frozen=True)
class Fit:
    """By class, the part of the peaks that was reached; and the least time of an op."""

    efficiency: dict[str, float]
    launch_ns: int

    def predict(self, costs: Costs) -> np.ndarray:
        """ns by op; a class that no model of the fit has keeps the roofline."""
        return np.array(
            [
                0.0
                if kind == "no kernel"
                else max(ideal / self.efficiency[kind], self.launch_ns)
                if kind in self.efficiency
                else roofline
                for kind, ideal, roofline in zip(costs.kind, costs.ideal_ns, costs.roofline_ns, strict=True)
            ]
        )


def class_of(name: str) -> str:
    """The class of an op."""
    plain = name.removeprefix("aten.")
    return next((kind for kind, begins in CLASSES.items() if plain.startswith(begins)), REST)


def costs(trace: Trace, card: Profile) -> Costs:
    """Of a float32 trace that was recorded on this card, with TF32 products where the card has them."""
    tf32 = trace.header["precision"] == "tf32" and card.tf32_tflops
    peak, part = (card.tf32_tflops, _TENSOR) if tf32 else (card.fp32_tflops, _VECTOR)
    kind = [class_of(name) for name in trace.name]
    compute, moved = trace.flops / (peak * 1000), trace.bytes_moved / card.bandwidth_gbs
    roofline = np.maximum(np.maximum(compute / part, moved / _BANDWIDTH), _LEAST_NS)
    roofline[[k == "no kernel" for k in kind]] = 0
    return Costs(trace.label, kind, np.maximum(compute, moved), roofline, trace.cost_ns.astype(float))


def fit(models: list[Costs]) -> Fit:
    """Time-weighted efficiencies by class, of ops that take more than a launch; the launch is a median of small ops."""
    kind = np.array([k for c in models for k in c.kind])
    ideal = np.concatenate([c.ideal_ns for c in models])
    measured = np.concatenate([c.measured_ns for c in models])
    small = (ideal < _LAUNCH) & (measured > 0) & (kind != "no kernel")
    launch = int(np.median(measured[small])) if small.any() else 0
    efficiency = {}
    for name in (*CLASSES, REST):
        rows = (kind == name) & (ideal > launch) & (measured > 0)
        if name != "no kernel" and rows.any():
            efficiency[name] = float(ideal[rows].sum() / measured[rows].sum())
    return Fit(efficiency, launch)


def errors(models: list[Costs], fitted: Fit) -> list[dict[str, Any]]:
    """A row a model and class, and a row a model with class "all": ms measured, by roofline, and by the fit."""
    rows = []
    for c in models:
        kinds, predicted = np.array(c.kind), fitted.predict(c)
        for kind in (*sorted(set(c.kind)), "all"):
            of = np.ones(len(kinds), bool) if kind == "all" else kinds == kind
            rows.append(
                {
                    "model": c.model,
                    "role": "fit" if c.model in FIT_ON else "test",
                    "class": kind,
                    "ops": int(of.sum()),
                    "measured_ms": c.measured_ns[of].sum() / 1e6,
                    "roofline_ms": c.roofline_ns[of].sum() / 1e6,
                    "fitted_ms": predicted[of].sum() / 1e6,
                }
            )
    return rows
