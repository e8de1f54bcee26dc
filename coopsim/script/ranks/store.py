"""PyTorch's store, through which ranks find each other, for a rank that is alone."""

from typing import Any, ClassVar

import torch.distributed as dist

_ID_BYTES = 128  #: of NCCL's unique id


class Everyone(dist.Store):  # type: ignore[name-defined, misc]
    """A store that never waits: a key that nobody has set reads as what another rank would have put there."""

    _kept: ClassVar[list["Everyone"]] = []  # C++ calls us as long as it likes

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        Everyone._kept.append(self)

    def set(self, key: str, value: Any) -> None:
        """Another rank, or this one, says something."""
        self._values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key: str) -> bytes:
        """What was said; of a rank that has not spoken, something of the length of NCCL's ids."""
        return self._values.get(key, b"\1" * _ID_BYTES)

    def add(self, key: str, amount: int) -> int:
        """Count."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Set, if it is what one thinks it is."""
        if key not in self._values or self._values[key] == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def wait(self, _keys: Any, _timeout: Any = None) -> None:
        """Every rank is always there."""

    def check(self, keys: list[str]) -> bool:
        """Has somebody spoken?"""
        return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Forget."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How much has been said."""
        return len(self._values)

    def set_timeout(self, _timeout: Any) -> None:
        """Nothing takes long."""
