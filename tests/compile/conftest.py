"""What these tests share: the phantom GPU."""

from tests.capture.conftest import on_phantom, phantom_gpu

__all__ = ["on_phantom", "phantom_gpu"]
