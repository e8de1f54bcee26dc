"""The compiled arena, for the installed torch (ten seconds, once)."""

from coopsim.observe.extension import Extension

ARENA = Extension("arena", "coopsim.live.arena", ["arena.cpp"], ["-lc10", "-ldl"])
