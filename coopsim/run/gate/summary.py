"""Write a verdict as text, and as Markdown for the summary of a CI job ($GITHUB_STEP_SUMMARY)."""

import os
from collections.abc import Mapping

from coopsim.base.text import human
from coopsim.run.gate.check import Verdict

VARIABLE = "GITHUB_STEP_SUMMARY"
_BAR = 40  #: characters of the longest bar


def text_of(verdict: Verdict) -> str:
    """Return the verdict as text for a terminal, whether it passes first."""
    peaks = verdict.peaks
    head = f"{'passes' if verdict.passed else 'fails'}: {verdict.name}"
    if peaks:
        head += (
            f": {human(peaks.allocated)} allocated, {human(peaks.reserved)} reserved, {human(peaks.device)} of the card"
        )
    return "\n".join([head, *verdict.failures, *verdict.notes])


def markdown(verdict: Verdict) -> str:
    """Return the verdict as a section of Markdown."""
    peaks, before = verdict.peaks, verdict.before
    lines = [f"### {'✅' if verdict.passed else '❌'} `{verdict.name}`", ""]
    if peaks:
        lines += ["| at the peak | bytes | baseline | change |", "| --- | ---: | ---: | ---: |"]
        for figure in ("allocated", "reserved"):
            now = getattr(peaks, figure)
            was = getattr(before, figure) if before else None
            change = "" if was is None else f"{now - was:+,}"
            lines.append(f"| {figure} | {now:,} | {'' if was is None else f'{was:,}'} | {change} |")
        lines += [f"| of the card | {peaks.device:,} | | |", ""]
        lines += ["```text", *bars(peaks.kinds, before.kinds if before else {}), "```", ""]
    if verdict.failures:
        lines += ["```text", *verdict.failures, "```", ""]
    return "\n".join(lines)


def bars(now: Mapping[str, int], before: Mapping[str, int]) -> list[str]:
    """Return a bar chart of bytes by kind, the largest first: GitHub shows no picture that is in the page itself.

    █ is memory that was there before, ▓ what has come to it, ░ what is gone.
    """
    kinds = sorted({*now, *before}, key=lambda kind: (-max(now.get(kind, 0), before.get(kind, 0)), kind))
    most = max([1, *now.values(), *before.values()])
    width = max(map(len, kinds), default=0)

    def bar(kind: str) -> str:
        is_ = now.get(kind, 0)
        was = before.get(kind, 0) if before else is_
        kept, longer = (round(_BAR * n / most) for n in (min(is_, was), max(is_, was)))
        drawn = "█" * kept + ("▓" if is_ > was else "░") * (longer - kept)
        change = f" ({'+' if is_ > was else '-'}{human(abs(is_ - was))})" if is_ != was else ""
        return f"{kind:{width}}  {drawn} {human(is_)}{change}"

    return [bar(kind) for kind in kinds]


def append(verdict: Verdict, environment: Mapping[str, str] = os.environ) -> None:
    """Append the section to the file that $GITHUB_STEP_SUMMARY names, if it is set."""
    path = environment.get(VARIABLE)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(markdown(verdict) + "\n")
