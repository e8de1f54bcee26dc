"""Plugins: code of other packages in a script's processes, as `fit` makes changes and `live` keeps a budget.

A task names a module, which is imported in the script's process. Its attribute PLUGIN makes the plugin.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from coopsim.run.probes.watch import Watch


class Plugin(Protocol):
    """A plugin in one process of a script. `begin` is followed by `end`, or by `forget` if the process is a fork."""

    def begin(self, watch: "Watch | None") -> None:
        """Start, once torch has been imported and is watched. `watch` is None on the machine's own devices."""

    def forget(self) -> None:
        """Stop, because this process is a fork of the script's, such as a DataLoader's worker."""

    def end(self) -> dict[str, Any]:
        """Return what to report at the end of the script, in types that JSON can represent."""


class MakesPlugin(Protocol):
    """The type of PLUGIN. It is called right after torch is imported, before anything uses its allocator."""

    def __call__(self, told: str) -> Plugin:
        """Make a plugin. `told` is the task's message to it, in the plugin's own format."""


def make(module: str, told: str) -> Plugin:
    """Import `module` and return the plugin that its PLUGIN makes. `told` is passed to it."""
    factory: MakesPlugin = importlib.import_module(module).PLUGIN
    return factory(told)
