"""The kinds of remedy, a module each: what to propose for a bench, request by request (proposals.py)."""
