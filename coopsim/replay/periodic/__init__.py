"""Plan a training step that repeats, and follow the plan (docs/policies-ours.md).

cut.py says what is cheapest to be without where memory is fullest, rehearse.py counts what a step costs under given
decisions, select.py makes them fit, place.py finds the addresses, make.py puts them together, follow.py is what the
replay asks while a plan is followed.
"""
