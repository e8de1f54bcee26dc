"""Estimate the memory that NCCL allocates on a card, outside PyTorch's allocator, per communicator.

Published: on 4 A100, 544 MB with two ranks and 688 MB with more (NVIDIA/nccl issue 964); on 8 H100, 1.06 GB, and
4.34 GB after the first all-to-all (issue 1685). NCCL has buffers per channel and protocol, so the amount depends on the
machine's links and on NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS and similar variables.
"""

_OF_TWO, _OF_MORE = 544_000_000, 688_000_000


def variables(nbytes: int | None) -> dict[str, str]:
    """Return the environment variables by which the phantom's NCCL takes `nbytes` of a card per communicator.

    None means the amounts published for 4 A100: 544 MB for two ranks, 688 MB for more.
    """
    of_two, of_more = (_OF_TWO, _OF_MORE) if nbytes is None else (nbytes, nbytes)
    return {"COOPSIM_PHANTOM_NCCL_2": str(of_two), "COOPSIM_PHANTOM_NCCL": str(of_more)}
