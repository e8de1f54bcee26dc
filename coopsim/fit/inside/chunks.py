"""Compute the loss in chunks, by running the lines to paste."""

import torch

from coopsim.fit.remedies.loss import LINES


def install() -> None:
    """Replace torch.nn.functional.cross_entropy by that in chunks, for all that calls it by this name from now on."""
    exec("\n".join(LINES), {"torch": torch})  # noqa: S102 (the trial runs the lines that are shown)
