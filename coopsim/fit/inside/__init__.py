"""Inside a script's processes: makes the changes of a remedy, and looks at what the parent wants to know.

Loaded by coopsim.script.inside as a task's guest, once torch is there. Only here does coopsim.fit import torch.
"""

from coopsim.fit.inside.guest import Guest
from coopsim.script.guest import MakesGuest

GUEST: MakesGuest = Guest
