"""A store of torch.distributed, through which ranks find each other, for a rank that runs alone."""

from typing import Any, ClassVar

import torch.distributed as dist

_ID_BYTES = 128  #: of NCCL's unique id


class Everyone(dist.Store):  # type: ignore[name-defined, misc]
    """A key-value store that never waits: `get` and `wait` treat a key that was not set as if another rank had set it.

    The other methods know only the keys that this rank has set. All have the signatures of torch.distributed.Store.
    """

    _kept: ClassVar[list["Everyone"]] = []  # kept alive, because C++ may call a store until the process ends

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        Everyone._kept.append(self)

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key: bytes, or anything else by its str()."""
        self._values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key: str) -> bytes:
        """Return the value of a key; if it was not set, a constant of the length of NCCL's unique ids."""
        return self._values.get(key, b"\1" * _ID_BYTES)

    def add(self, key: str, amount: int) -> int:
        """Add `amount` to the counter of a key, which begins at 0, and return its new value."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Set a key to `desired` if its value is `expected`, or if it was not set; return its value afterwards."""
        if key not in self._values or self._values[key] == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def wait(self, _keys: Any, _timeout: Any = None) -> None:
        """Return at once: every key counts as set."""

    def check(self, keys: list[str]) -> bool:
        """Return whether this rank has set all of these keys; unlike for `get`, others do not count as set."""
        return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Delete a key; return whether this rank had set it."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return the number of keys that this rank has set."""
        return len(self._values)

    def set_timeout(self, _timeout: Any) -> None:
        """Do nothing: no call waits."""
