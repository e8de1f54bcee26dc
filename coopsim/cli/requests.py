"""coopsim requests CASE: what PyTorch's caching allocator answers to a stream of requests, a line an answer."""

import argparse

from coopsim.cli.common import note


def run(args: argparse.Namespace) -> int:
    from coopsim.allocators.caching import case, version

    requests = case.load(args.case)
    rules = version.find(args.torch)
    if rules.name.split(".")[:2] != args.torch.split("+")[0].split(".")[:2]:
        note(f"note: torch {args.torch} is simulated by the rules of {rules.name}")
    from coopsim.kernel.jit import is_cold

    if is_cold():
        note("compiling the allocator: some seconds, once")
    for line in case.answer(requests, args.torch):
        print(line)
    return 0
