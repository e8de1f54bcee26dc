"""Run jobs on many cards on the phantom GPU: each process is one rank of a job of up to thousands.

A launcher (torchrun, accelerate launch) runs until it would start its workers, and reports what it would start
(launcher.py). Then some ranks of that world run, each in a process of its own (world.py, processes.py): alone, with the
other ranks imitated (imagined.py), or all of them together, communicating with each other.
"""
