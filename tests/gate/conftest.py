"""What the gate's tests need of others."""

from tests.capture.conftest import phantom_gpu

__all__ = ["phantom_gpu"]
