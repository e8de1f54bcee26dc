"""The variables that keep something of each batch of an evaluation, such as a list of outputs."""

from dataclasses import asdict
from typing import Any

import torch

from coopsim.observe.storages import Storage
from coopsim.script import holders
from coopsim.script.phases import Phase

_AT = 6  #: the batch at which is looked: what the batches before the last one made is kept, if it is there


class KeptOutputs:
    """Looks at the first evaluation that keeps something. `ledger` has the program's storages."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._newest: list[int] = []  #: the newest serials when the calls of this evaluation began
        self.found: list[dict[str, Any]] = []  #: the variables that hold most: the fields of holders.Holder

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside."""
        if phase == "evaluation":
            self._newest.append(self._ledger.newest)
            if len(self._newest) == _AT:
                self._look()
        elif phase is not None:
            self._newest.clear()

    def ran_out(self) -> None:
        """Look, as memory runs out."""
        if 2 < len(self._newest) < _AT:
            self._look()

    def _look(self) -> None:
        if self.found:
            return
        kept = {s.serial for s in self._ledger.alive() if self._newest[0] < s.serial <= self._newest[-2]}

        def is_kept(tensor: torch.Tensor) -> bool:
            storage: Storage | None = self._ledger.of(tensor) if tensor.is_cuda else None
            return storage is not None and storage.serial in kept

        if kept:
            self.found = [asdict(one) for one in holders.Holders().look(is_kept) if one.tensors]
