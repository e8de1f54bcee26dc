"""What a replay prints says of how many steps it speaks, and whose time a search took."""

import json
import re
from typing import Any

OPTIONS = ("synth:chain:16", "--policy", "coop", "--budget", "60%")


def rows(out: str) -> dict[str, str]:
    return dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())


def test_search_of_all_steps_and_of_one(coopsim: Any) -> None:
    r = json.loads(coopsim("replay", *OPTIONS, "--steps", "4", "--json").out)
    said = rows(coopsim("replay", *OPTIONS, "--steps", "4").out)
    assert said["steps"] == "4 in one memory; the figures below are of all together"
    assert said["search"].startswith(f"{r['searches']} searches, {r['search_visits']} blocks visited, ")
    assert said["search"].endswith(" ms on this machine")
    assert said["search per step"].startswith(f"{r['search_visits'] / 4:.0f} blocks visited, ")
    one = rows(coopsim("replay", *OPTIONS, "--steps", "1").out)
    assert one["steps"] == "1 in one memory"
    assert "search per step" not in one


def test_what_plans_did(coopsim: Any) -> None:
    def said(*options: str) -> dict[str, str]:
        return rows(coopsim("replay", "synth:chain:16", "--policy", "foresight", *options).out)

    assert re.fullmatch(
        r"made in [\d.]+ ms on this machine, followed by 9 of 10 steps", said("--budget", "60%")["plans"]
    )
    assert said("--budget", "60%", "--steps", "1")["plans"] == "none: only a step like the one before goes by plan"
    assert "plans" not in rows(coopsim("replay", *OPTIONS).out)
    assert "lost" not in said("--budget", "60%")
    short = said("--budget", "20%")
    assert (short["outcome"], short["overhead"]) == ("oom", "-")
    assert re.fullmatch(
        r"[\d.]+ ms of steps that ran out of memory and started over; part of the overhead", short["lost"]
    )


def test_a_replay_that_failed_speaks_of_what_ran(coopsim: Any) -> None:
    answer = coopsim("replay", "synth:chain:16", "--policy", "coop", "--budget", "10%")
    assert answer.code == 3
    assert rows(answer.out)["steps"] == "10 in one memory; the figures below are of what ran"
    assert "search per step" not in rows(answer.out)


def test_the_search_of_a_timeline_is_named_as_the_model_s(coopsim: Any) -> None:
    t = json.loads(coopsim("replay", *OPTIONS, "--timeline", "--json").out)["timeline"]
    said = rows(coopsim("replay", *OPTIONS, "--timeline").out)
    assert said["model's search"].startswith(f"{t['search_ns'] / 1e6:.2f} ms in all steps, ")
