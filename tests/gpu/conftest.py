"""For the tests of experiments/gpu."""

#: A program for a Python with a CPU build of PyTorch.
collect_ignore = ["reference.py"]
