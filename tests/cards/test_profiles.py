"""Cards: what is said of one that has no profile."""

import tomllib
from importlib import resources

import pytest

from coopsim.cards import profiles
from coopsim.phantom import PhantomError


def said(name: str) -> str:
    with pytest.raises(PhantomError) as caught:
        profiles.get(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "card", "memory"),
    [
        ("rtx-a6000", "a40", "48GiB"),
        ("A6000", "a40", "48GiB"),
        ("NVIDIA GeForce RTX 3080", "rtx-3060", "10GiB"),
        ("rtx-4070-ti-super", "rtx-4060-ti-16gb", "16GiB"),
        ("RTX 6000 Ada", "l20", "48GiB"),
        ("rtx-5070", "rtx-5080", "12GiB"),
        ("rtx-2080-ti", "t4", "11GiB"),
        ("a30", "a100-40gb", "24GiB"),
        ("V100-SXM2-16GB", "v100-32gb", "16GiB"),
        ("h100-nvl", "h100-80gb", "94GiB"),
    ],
)
def test_another_card_of_the_same_architecture(name: str, card: str, memory: str) -> None:
    assert f"of the same architecture is --gpu {card} --memory {memory} " in said(name)


@pytest.mark.parametrize(("title", "card"), [
    ("NVIDIA L40S", "l40s"),  # not an L4
    ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti-16gb"),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-80gb"),
    ("NVIDIA L4000", None),
    ("", None),
])  # fmt: skip
def test_a_card_by_the_title_that_its_driver_reports(title: str, card: str | None) -> None:
    found = profiles.titled(title)
    assert (found.name if found else None) == card


@pytest.mark.parametrize("name", ["b300", "gtx-1080-ti", "p100"])
def test_no_card_of_the_architecture(name: str) -> None:
    """Another generation is not offered in its place."""
    assert "none of its architecture (compute capability" in said(name)
    assert "did you mean" not in said(name)


@pytest.mark.parametrize("name", ["mi300x", "MI250", "AMD Instinct MI210", "rx-7900-xtx", "Radeon VII"])
def test_other_vendors(name: str) -> None:
    assert "NVIDIA's cards only" in said(name)
    assert "did you mean" not in said(name)


def test_mistyped() -> None:
    assert "did you mean rtx-3060" in said("rtx-3061")
    assert "did you mean h100-80gb? " in said("H100 80GB HBM3")
    assert "did you mean h100-80gb? " in said("h100")
    assert "did you mean a100-40gb or a100-80gb? " in said("a100")
    assert "take one of its architecture, with --memory" in said("no such card")


def test_other_cards_are_others() -> None:
    """No card is in both lists, and each of the second has a capability and a memory that cards have."""
    text = resources.files("coopsim.cards").joinpath("others.toml").read_text(encoding="utf-8")
    others = tomllib.loads(text)
    assert not set(others) & set(profiles.names())
    for capability, gib in others.values():
        assert 6 <= float(capability) <= 13
        assert 6 <= gib <= 300


def test_a10g() -> None:
    card = profiles.get("a10g")
    assert (card.compute_capability, card.sms, card.memory_mib) == ("8.6", 80, 22587)
