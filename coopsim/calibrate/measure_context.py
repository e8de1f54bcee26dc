"""What the context takes, beside PyTorch's allocator, after the first use of each library; one process each."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.calibrate.parts import READINGS


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the readings: names, and the calls that return the bytes that the context takes then."""
    for name, loaded in READINGS.items():
        yield name, lambda name=name, loaded=loaded: _read(name, loaded)  # type: ignore[misc]


def _read(name: str, loaded: tuple[str, ...]) -> dict[str, Any]:
    torch.zeros(1, device="cuda")
    _AFTER[name]()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return {"after": name, "loaded": loaded, "bytes": total - free - torch.cuda.memory_reserved()}


def _nothing() -> None:
    pass


def _product() -> None:
    a = torch.randn(1024, 1024, device="cuda")
    a @ a
    a.bfloat16() @ a.bfloat16()


def _convolution() -> None:
    layer = torch.nn.Conv2d(3, 64, 3).cuda()
    layer(torch.randn(8, 3, 64, 64, device="cuda")).sum().backward()


def _transformer() -> None:
    _product()
    model = torch.nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 128, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def _linear_algebra() -> None:
    torch.linalg.svd(torch.randn(512, 512, device="cuda"))


def _fourier() -> None:
    torch.fft.fft(torch.randn(1024, 1024, device="cuda"))


_AFTER = {
    "first tensor": _nothing,
    "matrix product": _product,
    "convolution": _convolution,
    "transformer with optimizer": _transformer,
    "linear algebra": _linear_algebra,
    "FFT": _fourier,
}
