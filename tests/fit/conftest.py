"""What these tests share: the phantom GPU, and searches in processes of their own."""

from tests.capture.conftest import on_phantom, phantom_gpu

__all__ = ["on_phantom", "phantom_gpu"]

#: These are programs for users' hands, not modules with doctests.
collect_ignore = ["scripts"]
