"""Errors of recording a step."""

from coopsim.base.types import CoopsimError


class CaptureError(CoopsimError):
    """The step could not be recorded; the message says why in one line."""


class CaptureOutOfMemory(CaptureError):  # noqa: N818 (the outcome's name)
    """The step needs more memory than the card has. The command line exits with 3."""

    exit_code = 3
