"""What the models and policies are, and what the files of a folder of results are called."""

MAIN = ("resnet-50", "bert-large", "swin-t")  #: executed, and bisected for their smallest memory
OTHERS = ("gpt3-2.7b", "unet", "inception-v3", "bilstm", "spos")
POLICIES = ("foresight", "coop", "dtr-oneflow", "dte-oneflow")
PLAIN = "plain"  #: the schedule without eviction
RATIO = 0.5
RATIOS = (0.7, 0.3)  #: all models are executed in these parts of their peaks, too
ITERATIONS = 2  #: steps of a schedule; foresight decides the first as thrift does, and plans the second

MACHINE = "machine.json"
RUN = "run.json"
LIVE = "live.json"  #: many cases, of the first run


def steps(model: str) -> int:
    """How many steps of a model are recorded."""
    return 5 if model == "spos" else 1


def trace(model: str) -> str:
    return f"trace-{model}.parquet"


def phantom(model: str) -> str:
    return f"phantom-{model}.parquet"


def _at(ratio: float) -> str:
    return "" if ratio == RATIO else f"{100 * ratio:.0f}"


def arena(model: str, policy: str, ratio: float = RATIO) -> str:
    return f"arena{_at(ratio)}-{model}-{policy}.parquet"


def caching(model: str, policy: str) -> str:
    return f"caching-{model}-{policy}.parquet"


def execution(model: str, policy: str, ratio: float = RATIO) -> str:
    return f"execution{_at(ratio)}-{model}-{policy}.json"


def requests(model: str) -> str:
    return f"requests-{model}.json"


def answers(model: str, policy: str) -> str:
    return f"answers-{model}-{policy}.json.gz"


def smallest(model: str) -> str:
    return f"smallest-{model}.json"


def snapshot(model: str) -> str:
    return f"snapshot-{model}.pickle"


def bits(model: str) -> str:
    return f"bits-{model}.json"


def live(case: str) -> str:
    return f"live-{case}.json"


def live_phantom(case: str) -> str:
    return f"live-{case}-phantom.json"


def peaks(which: str, *, phantom: bool) -> str:
    return f"peaks-{which}-{'phantom' if phantom else 'card'}.json"


CALIBRATION = "calibration.json"
