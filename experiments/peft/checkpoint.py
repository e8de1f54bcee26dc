"""Checkpoints without weights: a safetensors file of zeros that takes no room on the disk."""

import json
from pathlib import Path
from typing import Any

NAMES = {"torch.bfloat16": "BF16", "torch.float32": "F32"}


def write(path: Path, tensors: dict[str, Any]) -> None:
    """A file with tensors of these names, shapes and types. Its data are a hole in the file, which reads as zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[str(tensor.dtype)], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
