"""Plan an iteration of the trace that is known beforehand, and follow the plan (docs/policies-ours.md).

cut.py says what is cheapest to be without where memory is fullest, dry_run.py counts what an iteration costs under
given decisions, select.py makes them fit, prune.py takes back what was too much, place.py finds the addresses, made.py
and make.py put them together (with_copies.py, if values may be offloaded). planner.py runs a replay by plans
(replay/plan.py is what that asks while one is followed), tries.py says with which choices a step begins anew.
"""
