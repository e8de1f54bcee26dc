"""Plan an iteration of a trace that is known beforehand (docs/policies.md). Replays follow the plans.

lower.py makes arrays of the trace (program.py). select.py, cut.py and segments.py say what is cheapest to be without
where memory is fullest; prune.py takes back what was too much. away.py, copy_prices.py and adjust_copies.py decide
about copies to the host. dry_run.py counts what an iteration costs by given decisions; place.py finds the addresses.
draft.py is the plan in the making, which they change in turn; fitting.py makes it fit, and make.py says from which
decisions it begins (with_copies.py, if values may be offloaded). Of long steps, stretches.py plans parts apart, and
at_once.py decides many intervals at a time, by what returns.py estimates.
"""
