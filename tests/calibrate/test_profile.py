"""The card of a card file, by what the card says of itself."""

from coopsim.calibrate.run import card_of
from coopsim.cards import card_file, profiles
from tests.cards import card_files

H100 = {
    "title": "NVIDIA H100 80GB HBM3",
    "memory_bytes": 85017493504,
    "compute_capability": "9.0",
    "sms": 132,
    "threads_per_sm": 2048,
    "shared_per_sm_kib": 228,
    "shared_optin_kib": 0,
    "l2_kib": 51200,
    "memory_clock_khz": 0,
    "memory_bus_bits": 0,
    "clock_khz": 1980000,
}


def test_a_known_card() -> None:
    assert card_of(H100, 1980) == {"profile": "h100-80gb", "memory_mib": 81079}


def test_an_unknown_card() -> None:
    """An RTX A6000 gets the rates of the A40, by its multiprocessors and clock, and its own bandwidth."""
    own = {"title": "NVIDIA RTX A6000", "memory_bytes": 51033931776, "compute_capability": "8.6", "sms": 84}
    own |= {"threads_per_sm": 1536, "l2_kib": 6144, "memory_clock_khz": 8001000, "memory_bus_bits": 384}
    found = card_of(H100 | own | {"shared_per_sm_kib": 100, "shared_optin_kib": 99}, 2100)
    assert (found["profile"], found["name"], found["bandwidth_gbs"]) == ("a40", "rtx-a6000", 768)
    assert 35 < found["fp32_tflops"] < 47
    content = card_files.content() | {"card": found}
    fields, _ = card_file.parse(card_file.text(content), "card.json", profiles._base)
    assert fields["title"] == "NVIDIA RTX A6000"
    assert fields["sms"] == 84
