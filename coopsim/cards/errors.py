"""Errors of the phantom GPU: what it needs is missing."""

from coopsim.base.types import CoopsimError


class PhantomError(CoopsimError):
    """The phantom GPU does not work here; the message says why, and how to fix it."""


class NoCudaTorchError(PhantomError):
    """torch is not installed, or is a build without CUDA."""
