"""The share of a card's peak rates that kernels reach, as the roofline assumes. Apart from costs.py: no torch here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Efficiency:
    """The share (0 to 1) of a peak rate that kernels reach, by kind of unit, and the least time of a kernel.

    tensor: of tensor cores' FLOP/s. vector: of the plain FP32 FLOP/s. bandwidth: of the memory's bytes per second.
    launch_ns: the least cost of a kernel, in ns. source: where the figures are from, for trace headers.
    """

    tensor: float
    vector: float
    bandwidth: float
    launch_ns: int
    source: str


#: One table for all cards. Large matrix products reach 60 to 70 % of a tensor core's dense peak and about 90 % of the
#: plain FP32 peak, streaming kernels about 80 % of the bandwidth; none of it was measured on each card.
EFFICIENCY = Efficiency(tensor=0.6, vector=0.9, bandwidth=0.8, launch_ns=3000, source="assumption")
