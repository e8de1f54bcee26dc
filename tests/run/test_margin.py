"""What lies too near a card's memory is too close to call, in every verdict."""

from dataclasses import replace

import pytest

from coopsim.cli import phantom_largest
from coopsim.fitting.verdict import Fit
from coopsim.run import OutOfMemory, Report, Script
from coopsim.run.largest import Largest
from coopsim.run.memory import TOO_CLOSE, is_close

MIB = 1 << 20
CARD = 24259 * MIB  # an RTX 3090
#: The least memory of five batches that train here, and did not on the card; and of five that train on both (MiB).
FALSE = {"vgg16": 23178, "gmlp_s16_224": 23228, "resnet152": 23008, "inception_v4": 22850}
RIGHT = {"efficientnet_b4": 21730, "twins_svt_base": 19992, "regnety_032": 19158, "seresnet50": 21056, "vgg16": 17894}


def report(*, allocated: int, outcome: str = "ok", smallest: int | None = None) -> Report:
    return Report(
        command=["train.py"],
        gpu="rtx-3090",
        memory_bytes=CARD,
        context_bytes=260 * MIB,
        outcome=outcome,
        steps=3,
        peak_allocated_bytes=allocated * MIB,
        peak_reserved_bytes=min(allocated + 500, 23900) * MIB,
        peak_requested_bytes=allocated * MIB,
        peak_device_bytes=24000 * MIB,
        retries=0,
        ooms=int(outcome == "oom"),
        processes=1,
        versions={},
        out_of_memory=_failed() if outcome == "oom" else None,
        smallest_memory_bytes=smallest and smallest * MIB,
    )


def _failed() -> OutOfMemory:
    return OutOfMemory("train.py:5", "mm", "", "forward", 1, 1, 1, 1, 1, 1, {}, [])


@pytest.mark.parametrize("needs", FALSE.values())
def test_called_right_by_saying_nothing(needs: int) -> None:
    assert is_close(needs * MIB, CARD)
    assert is_close(2 * CARD - needs * MIB, CARD)


@pytest.mark.parametrize("needs", RIGHT.values())
def test_room_enough(needs: int) -> None:
    assert not is_close(needs * MIB, CARD)
    assert not is_close(2 * CARD - needs * MIB, CARD)


def verdict(needs: int, *, fits: bool) -> str:
    return str(Fit(fits, needs, CARD, (), "", "fp32", 1, "rtx-3090")).splitlines()[0]


def test_of_fit() -> None:
    edge = int(CARD * (1 - TOO_CLOSE))
    assert verdict(edge - MIB, fits=True).startswith("Fits: needs 22.27 GiB")
    said = verdict(edge + MIB, fits=True)
    assert said.startswith("Too close to call: needs 22.27 GiB, the NVIDIA GeForce RTX 3090 has 23.69 GiB: leaves 1.42")
    assert said.endswith("a real card differs by up to 6%")
    above = int(CARD * (1 + TOO_CLOSE))
    assert "lacks 1.42 GiB on the phantom GPU" in verdict(above - MIB, fits=False)
    assert verdict(above + MIB, fits=False).startswith("Does not fit: needs 25.11 GiB")


def test_of_a_run() -> None:
    assert "too close" not in str(report(allocated=20000))
    said = str(report(allocated=22916))
    assert "\ntoo close       to call: needs 22.63 GiB, leaves 1.058 GiB on the phantom GPU, and a real card" in said
    assert report(allocated=22916).to_dict()["too_close_to_call"]
    assert not report(allocated=20000, smallest=20300).to_dict()["too_close_to_call"]


def test_of_a_run_that_ran_out() -> None:
    """What it needs is known with --fit alone."""
    assert not report(allocated=23900, outcome="oom").too_close_to_call
    assert "too close       to call: needs 24.41 GiB, lacks " in str(
        report(allocated=23900, outcome="oom", smallest=25000)
    )


def test_of_the_largest() -> None:
    """The largest that trains with the margin to spare is named, too."""
    tried = {8: report(allocated=12000), 12: report(allocated=21000), 16: report(allocated=23000)}
    tried[17] = report(allocated=23900, outcome="oom")
    found = Largest(8, 32, tried)
    script = Script(("train.py",), card="rtx-3090")
    said = phantom_largest._text(script, found)
    assert "largest         16 trains, 17 does not" in said
    assert "too close       to call: 16 within 6% of the card, by which a real one differs; 12 trains with" in said
    assert phantom_largest._json(script, found)["too_close_to_call"] == [16]
    far = Largest(8, 32, {n: replace(r) for n, r in tried.items() if n < 16})
    assert "too close" not in phantom_largest._text(script, far)
