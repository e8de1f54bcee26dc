"""The compiled library, for the installed torch (some seconds, once)."""

from coopsim.live.extension import Extension

INTERPOSE = Extension(
    "interpose", "coopsim.observe.interpose", ("watchers.h", "interpose.cpp"), ["-ltorch_cpu", "-lc10"]
)
