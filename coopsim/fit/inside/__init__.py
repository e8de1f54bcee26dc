"""The code that runs within a script's processes: it makes the changes of a remedy, and surveys the script.

Loaded as a task's plugin (script/running/plugin.py), once torch is imported. Only here does coopsim.fit import torch.
"""

from coopsim.fit.inside.plugin import ChangesPlugin
from coopsim.script.running.plugin import MakesPlugin

PLUGIN: MakesPlugin = ChangesPlugin
