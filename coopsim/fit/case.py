"""The case that remedies are proposed for: a script that does not fit its card, and what is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coopsim.fit.changes import Changes
from coopsim.fit.editing.edits import Edit
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Survey
from coopsim.script import Script


@dataclass(frozen=True)
class Case:
    """A script that does not fit, and the survey of a run of it.

    limit_bytes: the bytes of the card that a remedy may use. replays: whether its requests to the allocator were
    recorded. found: every remedy that works, as soon as it is known, by its key; failed: the changes with which the
    script fails for another reason than memory, and the reason. The search adds to both.
    """

    script: Script
    survey: Survey
    limit_bytes: int
    replays: bool = True
    found: Mapping[str, Remedy] = field(default_factory=dict)
    failed: Mapping[Changes, str] = field(default_factory=dict)

    def proposal(
        self,
        kind: str,
        text: str,
        lines: tuple[str, ...],
        changes: Changes,
        *,
        same: bool,
        command: tuple[str, ...] = (),
        after_model: bool = False,
        edits: tuple[Edit, ...] = (),
    ) -> Remedy:
        """Return a remedy that has not been tried, so without figures; the arguments are fields of Remedy.

        same: whether all results remain the same, bit for bit. command: () for the script's own. after_model: whether
        `lines` belong where the model was made, so that they can become a patch.
        """
        command = command or self.script.command
        pasted = lines if after_model else ()
        return Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)

    def failure(self, remedy: Remedy) -> str:
        """Return why the script failed when it was run with a remedy; "" if it did not, or only ran out of memory."""
        return self.failed.get(remedy.changes.stand_in, "")

    @property
    def over_bytes(self) -> int:
        """The bytes by which the script's need exceeds what a remedy may use (limit_bytes)."""
        return self.survey.needs_bytes - self.limit_bytes
