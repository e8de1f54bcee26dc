"""Programs that run on the phantom GPU in child processes."""

from tests.capture.conftest import on_phantom, phantom_gpu  # noqa: F401 (fixtures)

#: These are programs for children, not modules with doctests.
collect_ignore = ["programs"]
