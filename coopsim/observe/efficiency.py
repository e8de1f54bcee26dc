"""What kernels reach of a card's peaks, as the roofline assumes it. Apart from costs.py, which imports torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Efficiency:
    """The part of its peak that a kernel reaches, and the least time that a launch takes."""

    tensor: float
    vector: float
    bandwidth: float
    launch_ns: int
    source: str


#: One table for all cards. Large matrix products reach 60 to 70 % of a tensor core's dense peak and about 90 % of the
#: plain FP32 peak, streaming kernels about 80 % of the bandwidth; none of it was measured on each card.
EFFICIENCY = Efficiency(tensor=0.6, vector=0.9, bandwidth=0.8, launch_ns=3000, source="assumption")
