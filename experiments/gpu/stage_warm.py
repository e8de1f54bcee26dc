"""Compile the core, which takes a minute or two.

Usage: python -m experiments.gpu.stage_warm. While the GPU records; the cache keeps it."""

from coopsim.simulate.replay import replay
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make


def main() -> None:
    trace = make("synth:chain:8")
    for allocator in ("arena", "cuda-caching"):
        replay(trace, "coop", 4 * peak_bytes(trace, 512), allocator, steps=1)


if __name__ == "__main__":
    main()
