"""Training on many cards, on the phantom GPU: a process stands for one rank of a job of up to thousands.

A launcher (torchrun, accelerate launch) runs up to where it would start its workers (launcher.py), and says what it
would start. Then some ranks of that world run, each in a process of its own (world.py, processes.py): alone, where the
other ranks are imagined (imagined.py, store.py), or all of them together, where they really speak to each other.
"""
