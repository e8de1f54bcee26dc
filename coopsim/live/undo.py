"""What a step has put in place is taken away to the last of it, also where that is interrupted."""

from collections.abc import Callable

from coopsim.base.types import CoopsimError

_TRIES = 3  #: a user who goes on to press Ctrl-C means it


def complete(act: Callable[[], object]) -> None:
    """Call `act`, and again if it is interrupted (KeyboardInterrupt, say), which is raised when it has come to its end.

    What it has done before must not matter then. Its own errors are raised at once.
    """
    interrupt: BaseException | None = None
    for _ in range(_TRIES):
        try:
            act()
        except (CoopsimError, RuntimeError):
            raise
        except BaseException as error:
            interrupt = error
        else:
            break
    if interrupt is not None:
        raise interrupt
