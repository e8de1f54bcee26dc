"""What watches a script from inside its processes: the recorder of ops, and a list of probes (watch.py)."""
