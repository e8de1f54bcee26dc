"""Plan a training step that repeats, and follow the plan (docs/policies-ours.md).

rehearse.py counts what a step costs under given decisions, select.py makes the decisions, place.py finds the
addresses, make.py puts them together, follow.py is what the replay asks while a plan is followed.
"""
