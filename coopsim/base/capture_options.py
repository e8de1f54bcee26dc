"""The options of `capture` and coopsim.capture, each declared once (option.py)."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from coopsim.base.errors import of_type, whole
from coopsim.base.option import natural, option, positive
from coopsim.base.run_options import OnPhantom

#: Where a step is run: on the phantom GPU, or on a real one.
Where = Literal["phantom", "cuda"]
Attention = Literal["eager", "sdpa"]
Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
Amp = Literal["bf16"]
Gradients = Literal["dropped", "zeroed"]
VERB = "capture"


def _one_or_more(name: str, value: Any) -> None:
    whole(name, value, 1, "a batch size" if name == "batch" else f"how many {name}")


def _none_or_more(name: str, value: Any) -> None:
    whole(name, value, 0, f"how many {name}")


@dataclass(frozen=True, kw_only=True)
class CaptureOptions(OnPhantom):
    """Where and how a step is recorded; of a reference model, how it trains, None being its own."""

    device: Where = option(
        "phantom",
        "phantom: without a GPU; cuda: on a real GPU, with measured costs (default: phantom)",
        VERB,
        choices=get_args(Where),
    )
    passes: int = option(
        5, "with --device cuda: how often the steps are measured (default: 5)", VERB, parse=positive, check=_one_or_more
    )
    limit: bool = option(
        False,
        "fail (exit code 3) where the card's memory runs out (default: a step may take more than the card has)",
        VERB,
        check=lambda name, value: of_type(name, value, bool, "whether memory runs out where the card's does"),
    )
    batch: int | None = option(
        None, "batch size of a reference model (default: its own)", VERB, parse=positive, check=_one_or_more
    )
    optimizer: Optimizer | None = option(
        None, "optimizer of a reference model (default: its own)", VERB, choices=get_args(Optimizer)
    )
    amp: Amp | None = option(None, "train a reference model under autocast", VERB, choices=get_args(Amp))
    attention: Attention | None = option(
        None, "attention of a reference model that has it (default: its own)", VERB, choices=get_args(Attention)
    )
    gradients: Gradients | None = option(
        None,
        "what a reference model does with gradients after the optimizer (default: dropped)",
        VERB,
        choices=get_args(Gradients),
    )
    steps: int = option(1, "record this many consecutive steps (default: 1)", VERB, parse=positive, check=_one_or_more)
    warmup: int = option(
        2, "steps that run before the recorded ones (default: 2)", VERB, parse=natural, check=_none_or_more
    )
    name: str = option(
        "",
        "label of the trace in tables and figures",
        VERB,
        metavar="LABEL",
        check=lambda name, value: of_type(name, value, str, "the label of the trace"),
    )
