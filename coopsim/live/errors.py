"""How training inside a budget can fail."""

from coopsim.types import CoopsimError


class LiveError(CoopsimError):
    """The program does something that cannot be run inside a budget; the message says what, in one line."""


class DoesNotFit(LiveError):  # noqa: N818 (the outcome's name)
    """The step cannot be run in the budget. The command line exits with 3."""

    exit_code = 3
