"""Plan an iteration of a trace that is known beforehand (docs/policies-ours.md). Replays follow the plans.

recompute/ says what is cheapest to be without where memory is fullest, makes decisions fit and takes back what was too
much; offload/ does so with copies to the host; dry_run/ counts what an iteration costs under given decisions; place.py
finds the addresses; made.py and make.py put them together (with_copies.py, if values may be offloaded).
"""
