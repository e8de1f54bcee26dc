"""A long run at the allocator's level: the recorded requests of some steps, replayed thousands of steps on.

`recorded.py`: what is recorded; `sections.py`: its steps, as templates; `book.py`: the template of a step of any
length; `schedule.py`: what happens at which steps; `play.py`: the replay; `causes.py`, `remedies.py`: why memory runs
out, and what helps.
"""
