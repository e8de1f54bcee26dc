"""The errors of training inside a budget."""

from coopsim.base.types import CoopsimError

TRAP = "coopsim: evicted"  #: how the error begins that reading an evicted tensor raises
TRAP_TEXT = f"{TRAP}: something reads a tensor that was evicted, and did not ask for it"


class LiveError(CoopsimError):
    """The program does something that cannot be done inside a budget. The message says what, in one line."""


class DoesNotFit(LiveError):  # noqa: N818 (the outcome's name)
    """An op of the step finds no room in the budget. The command line exits with 3."""

    exit_code = 3


class Deviation(Exception):  # noqa: N818 (no error: such a step goes on without the plan)
    """The step differs from the one that the plan was made for. The message says how."""


class Outgrown(Deviation):
    """The step's data are larger than those that the plan was made for."""
