"""The code that runs within a script's processes: it makes the changes of a remedy, and surveys the script.

Loaded by coopsim.script.inside as a task's guest (script/guest.py: code that runs in a script's process), once torch is
imported. Only here does coopsim.fit import torch.
"""

from coopsim.fit.inside.guest import ChangesGuest
from coopsim.script.guest import MakesGuest

GUEST: MakesGuest = ChangesGuest
