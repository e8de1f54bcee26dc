"""The simulator: policies, allocators and plans, the replay of a trace under them, and what it takes in time.

It works on tables alone and imports no torch. `kernel/` is what the compiled code is made of, `packing/` finds offsets
for values whose lifetimes are known, `planning/` decides what is evicted where the step is known beforehand.
"""
