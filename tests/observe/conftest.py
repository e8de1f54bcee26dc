"""Programs that run on the phantom GPU in child processes."""

from tests.capture.conftest import on_phantom, phantom_gpu  # noqa: F401 (fixtures)
