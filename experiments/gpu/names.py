"""What the models and policies are, and what the files of a folder of results are called."""

MAIN = ("resnet-50", "bert-large", "swin-t")  #: executed, and bisected for their smallest memory
OTHERS = ("gpt3-2.7b", "unet", "inception-v3", "bilstm", "spos")
POLICIES = ("foresight", "coop", "dtr-oneflow", "dte-oneflow")
PLAIN = "plain"  #: the schedule without eviction
RATIO = 0.5
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


def arena(model: str, policy: str) -> str:
    return f"arena-{model}-{policy}.parquet"


def caching(model: str, policy: str) -> str:
    return f"caching-{model}-{policy}.parquet"


def execution(model: str, policy: str) -> str:
    return f"execution-{model}-{policy}.json"


def requests(model: str) -> str:
    return f"requests-{model}.json"


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
