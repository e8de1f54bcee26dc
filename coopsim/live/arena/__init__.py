"""All of a device's memory out of one reservation of the budget's size, each request where the plan has it.

arena.cpp is the allocator, build.py compiles it, library.py is how Python calls it, install.py makes it PyTorch's and
statistics.py answers what programs ask of their allocator. requests.py says what a planned step asks for, place.py
where that goes, placed.py hands it to the allocator, step by step.
"""
