"""The compiled library, as Python calls it."""

import ctypes
from functools import cache

from coopsim.observe.interpose.build import INTERPOSE


@cache
def load() -> ctypes.CDLL:
    """The library. NoExtensionError if it cannot be had here, OSError if this torch refuses it."""
    library = ctypes.PyDLL(str(INTERPOSE.file()))
    return library
