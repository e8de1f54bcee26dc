"""What names a sweep, so that rows of another are not mixed into its journal."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from coopsim.sweep.grid import Setting

SWEEP_VERSION = 4


def key(*what: Any) -> str:
    """Names what is asked for and this version of the core: rows of something else must not be mixed in.

    what: settings, points, or whatever JSON can hold.
    """
    from coopsim.kernel import sources
    from coopsim.policies._foreign import fingerprint
    from coopsim.version import __version__

    def plain(value: Any) -> Any:
        if isinstance(value, Setting):
            return asdict(value) | {"fingerprint": fingerprint(value.policy)}
        return asdict(value)

    text = json.dumps([__version__, sources.of_replays(), SWEEP_VERSION, *what], default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
