"""What can be missing for the phantom GPU."""

from coopsim.types import CoopsimError


class PhantomError(CoopsimError):
    """The phantom GPU cannot be had here; the message says why and what would mend it."""


class NoCudaTorchError(PhantomError):
    """There is no torch, or only a build of it without CUDA."""
