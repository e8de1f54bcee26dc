"""How a script is run: its processes are started (start.py), set up within (inside.py), and reported on (run.py)."""
