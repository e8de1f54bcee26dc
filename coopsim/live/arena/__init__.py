"""The arena: an allocator that serves all of a device's memory from one reservation, at the addresses of a plan.

A request is a call to allocate a block; the requests of a step are numbered from 0. An offset is a distance in bytes
from the start of the reservation. Requests without a planned address are placed where there is room.

arena.cpp is the allocator; library.py compiles it, calls it from Python, makes it PyTorch's and answers what programs
ask of that. requests.py predicts the requests of a planned step, place.py assigns them addresses, and placed.py hands
these to the allocator, step by step. cap.py makes the budget the arena's, and a hole for a request that failed.
"""
