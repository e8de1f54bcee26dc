"""What losing a value costs (types.Cost), and when a known cost is out of date.

union_find.py has OneFlow's sets, classes.py DTR's equivalence classes, walks.py the evicted neighbourhood and
projection.py what static DTR projects. relatives.py says which of them hears of a value that comes or goes, cache.py
which known costs are then forgotten.
"""
