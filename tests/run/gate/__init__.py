"""The memory gate: a limit, a baseline, the pytest plugin."""
