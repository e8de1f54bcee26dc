"""The kinds of remedy, a module each: what to propose for a case, request by request (proposals.py)."""
