"""The loss in chunks, by the very lines that a user would paste."""

import torch

from coopsim.fit.chunks import LINES


def install() -> None:
    """From now on, of all that calls torch.nn.functional.cross_entropy by this name."""
    exec("\n".join(LINES), {"torch": torch})  # noqa: S102 (what is tried is what is shown)
