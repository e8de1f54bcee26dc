"""Card files: what is read of them, and one line for each that is bad."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.cards import card_file, link, profiles
from coopsim.phantom import PhantomError
from tests.cards import card_files

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "card.json"
    path.write_text(card_file.text(card_files.content()), encoding="utf-8")
    return path


def test_a_card_without_a_profile(file: Path) -> None:
    card = profiles.get(str(file))
    assert (card.name, card.title, card.memory_bytes) == ("rtx-a6000", "NVIDIA RTX A6000", 48669 * MIB)
    assert card.prices["matmul"]["f"] == 0.9
    context = card.context_with("2.14.2", "13.0")
    assert context.first_bytes == 300 * MIB
    assert context.with_libraries(["cublas"]) == 340 * MIB
    assert context.off_by_bytes == 10 * MIB
    variables = card.variables()
    assert variables["COOPSIM_PHANTOM_DISPATCH"] == "6100"
    assert variables["COOPSIM_PHANTOM_BUS"] == "24500"
    assert variables["COOPSIM_PHANTOM_CUBLAS"] == str(40 * MIB)


def test_a_known_card(file: Path) -> None:
    """What the file does not say is its profile's."""
    content = card_files.content()
    content["card"] = {"profile": "a40", "memory_mib": 45000}
    file.write_text(card_file.text(content), encoding="utf-8")
    card, known = profiles.get(str(file)), profiles.get("a40")
    assert (card.name, card.bandwidth_gbs, card.memory_mib) == ("a40", known.bandwidth_gbs, 45000)
    assert known.memory_mib != 45000


def test_its_link(file: Path) -> None:
    link.check(str(file), None)
    found = link.find(str(file), None, {})
    assert (found.name, found.rate_mb_s, found.shared_rate_mb_s, found.latency_ns) == (
        "rtx-a6000's",
        24500,
        15500,
        9000,
    )
    assert found.host_ns is None
    content = card_files.content()
    content["link"]["host_ns"] = 19_000
    file.write_text(card_file.text(content), encoding="utf-8")
    assert link.find(str(file), None, {}).host_ns == 19_000
    del content["link"]
    file.write_text(card_file.text(content), encoding="utf-8")
    with pytest.raises(CoopsimError, match="has no link"):
        link.check(str(file), None)


def test_the_text_is_the_content(file: Path) -> None:
    assert json.loads(file.read_text(encoding="utf-8")) == card_files.content()


def refused(text: str) -> str:
    with pytest.raises(PhantomError) as caught:
        card_file.parse(text, "card.json", profiles._base)
    said = str(caught.value)
    assert said.startswith("card.json: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"phantom": True}, "made on the phantom GPU, which measures nothing"),
        ({"card_version": 2}, "card file of version 2, and this coopsim reads version 1"),
        ({"card_version": "1"}, "card_version is not a whole number"),
        ({"more": 1}, "unknown key 'more'"),
        ({"card": []}, "card is not an object"),
        ({"card": {"profile": "h200x"}}, "card.profile: unknown card 'h200x'"),
        ({"card": {"name": "x"}}, "card lacks title, and names no profile"),
        ({"card": {"profile": "a40", "sms": 0}}, "card.sms is not from 0.001"),
        ({"card": {"profile": "a40", "sms": 84.5}}, "card.sms is not a whole number"),
        ({"card": {"profile": "a40", "fp32_tflops": 0}}, "card.fp32_tflops is not from"),
        ({"card": {"profile": "a40", "name": "A 40"}}, "is not of small letters"),
        ({"card": {"profile": "a40", "compute_capability": "sm_86"}}, "is not such as 9.0"),
        ({"context": []}, "context is empty"),
        ({"context": [{"torch": "2", "cuda": "13.0", "driver": "", "readings": []}]}, "context[0].readings is empty"),
        ({"prices": {"matmul": {"a": "x"}}}, "prices.matmul.a is not a number"),
        ({"prices": {"matmul": {"a": -1}}}, "prices.matmul.a is not from 0"),
        ({"link": {}}, "link.to_card_gb_s is missing"),
        ({"host_ns_per_op": True}, "host_ns_per_op is not from"),
        ({"addresses": [{"bytes": 1}]}, "addresses[0].address is missing"),
    ],
)
def test_bad_files(change: dict[str, Any], said: str) -> None:
    assert said in refused(json.dumps(card_files.content() | change))


def test_no_card_file(tmp_path: Path) -> None:
    assert "not JSON" in refused("{")
    assert "not JSON" in refused("[" * 100_000)
    assert "no JSON object" in refused("[]")
    assert "no card_version" in refused("{}")
    assert "NaN is no number" in refused('{"card_version": NaN}')
    with pytest.raises(PhantomError, match="no such file"):
        profiles.get(str(tmp_path / "none.json"))
    (tmp_path / "x.json").write_bytes(b"\xff\xfe")
    with pytest.raises(PhantomError, match="cannot be read"):
        profiles.get(str(tmp_path / "x.json"))
    with pytest.raises(PhantomError, match="cannot be read"):
        profiles.get(f"{(tmp_path / 'folder.json').mkdir() or tmp_path / 'folder.json'}")


def damaged(value: Any) -> Iterator[Any]:
    """Every copy of a value in which one value, anywhere, is another or not there."""
    for junk in (None, [], {}, "", -1, 1e308, True, [None], "\x00", 2**80):
        if junk != value or type(junk) is not type(value):
            yield junk
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: other} for other in damaged(value[key]))
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in damaged(item))


def test_whatever_is_damaged_is_one_line_or_nothing() -> None:
    fine, said = 0, []
    for content in damaged(card_files.content()):
        try:
            fields, measured = card_file.parse(json.dumps(content), "card.json", profiles._base)
            assert profiles.Profile(**{"context_mib": 0} | fields, measured=measured).variables()
            fine += 1
        except PhantomError as e:
            said.append(str(e))
    assert fine > 10  # parts may be left out, and versions be anything
    assert all(line.startswith("card.json: ") and "\n" not in line for line in said)
