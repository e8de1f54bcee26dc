"""The code that runs within a script's processes: it makes the changes of a remedy, and surveys the script.

Loaded as a task's plugin (run/launch/plugin.py), once torch is imported. Only here does coopsim.fitting import torch.
"""

from coopsim.fitting.inside.plugin import ChangesPlugin
from coopsim.run.launch.plugin import MakesPlugin

PLUGIN: MakesPlugin = ChangesPlugin
