"""LoRA, named as what it is: another method, which trains other parameters. No remedy, but a note."""

from importlib import util

from coopsim.base.text import human
from coopsim.fitting.changes import Changes
from coopsim.fitting.proposals import Case, Note, Proposals, trial


def propose(case: Case) -> Proposals:
    """Propose LoRA, which does not count; if it fits, say so in a note with that run's peak.

    Only for scripts of one rank that train one model of transformers, without LoRA so far, where peft is installed.
    """
    survey = case.survey
    trained = [model for model in survey.models if model.trained]
    one = trained[0] if len(trained) == 1 else None
    if one is None or "transformers" not in one.families or "peft" in one.families or not one.name:
        return
    if util.find_spec("peft") is None or survey.report.ranks:
        return
    lines = (
        "from peft import LoraConfig, get_peft_model",
        f'{one.name} = get_peft_model({one.name}, LoraConfig(r=16, target_modules="all-linear"))',
    )
    changes = Changes(printed=("lora",))
    wanted = case.proposal("another method", "LoRA of rank 16", lines, changes, same=False, after_model=True)
    outcome = yield from trial(wanted, counts=False)
    if outcome.done is not None:
        takes = f"LoRA of rank 16 takes {human(outcome.done.peak_device_bytes)}"
        yield Note(
            f"another method, which trains other parameters: {takes}, "
            "run with these lines:" + "".join(f"\n     {line}" for line in lines)
        )
