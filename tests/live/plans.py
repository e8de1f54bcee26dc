"""What plans in tests are made of and for."""

from coopsim.live.plan_file import PlanFile
from tests.conftest import ROOT

EMPTY = PlanFile(1 << 20, "coop", 0, "2.14.1", "cuda", "train.py")


PLAN = """
import torch
from dataclasses import replace
from coopsim.live import make, plan_file
from coopsim.live.session import TrainingSession
from tests.live.compare import compare
from tests.live.programs import PROGRAMS
def planned(name, path, share=0.75, hosting=None):
    session = TrainingSession(None, "foresight-offline", "cpu", offload=hosting)
    _, step = PROGRAMS[name]()
    for i in range(3):
        session.begin(); step(i); session.end()
    session.learner.save(path, name)
    file = plan_file.load(path)
    budget = int(share * max(k.peak_bytes for k in session.known.signatures))
    made = [make.make(kind, "foresight-offline", budget, 0, hosting=hosting).signature for kind in file.signatures]
    plan_file.save(replace(file, budget_bytes=budget, hosting=hosting, signatures=made), path)
    return {"first": [k.first for k in file.signatures], "why": [k.state.why for k in made], "budget": budget}
"""


TRAIN = ("python", str(ROOT / "experiments" / "live" / "train.py"), "swin-t")  #: 4.4 GiB without a budget
