"""Compiles the arena for the installed torch, once."""

from coopsim.observe.extension import Extension

ARENA = Extension("arena", "coopsim.live.arena", ["arena.cpp"], ["-lc10", "-ldl"])
