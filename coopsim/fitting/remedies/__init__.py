"""The kinds of remedy, a module each: what each has tried on a bench (bench.py)."""
