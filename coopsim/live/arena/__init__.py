"""An allocator that serves all of a device's memory from one reservation, at the addresses that a plan has.

arena.cpp is the allocator, build.py compiles it, library.py is how Python calls it, install.py makes it PyTorch's and
statistics.py answers what programs ask of their allocator. requests.py predicts the requests of a planned step,
place.py assigns them addresses, and placed.py hands these to the allocator, step by step.
"""
