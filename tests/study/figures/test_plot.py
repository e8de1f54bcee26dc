"""`coopsim.plot` and `coopsim plot`: pyplot's axes or one's own, what is chosen of policies, any size, and its data."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import coopsim
from coopsim.base.types import CoopsimError
from coopsim.study.figures import feasibility, lines, memory_map, style
from tests.study.figures.drawn import SQUEEZED, TRACE, mapped, row, table, texts_are_inside_and_apart

SIZE = (6.8, 2.2)
EIGHT = ("bert-large", "bilstm", "gpt3-2.7b", "inception-v3", "resnet-50", "spos", "swin-t", "unet")


@pytest.fixture
def plt() -> Any:
    mpl.use("agg")
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


def several(*traces: str) -> pd.DataFrame:
    return pd.concat([table().assign(trace=name, card="a100-80gb") for name in traces], ignore_index=True)


def test_it_is_a_figure_of_pyplots_and_gives_its_axes(plt: Any) -> None:
    ax = coopsim.plot(TRACE)
    assert plt.get_fignums() == [ax.figure.number], "so that a notebook shows it, in a loop, too"
    panels = coopsim.plot(table())
    assert isinstance(panels, np.ndarray)
    assert next(a.get_ylabel() for a in panels) == "overhead (%)"
    assert coopsim.plot(mapped("toy")).get_title(loc="left") == "toy, budget in KiB"
    assert coopsim.plot(SQUEEZED["coop"], TRACE).get_ylabel() == "address (KiB)"
    assert len(coopsim.plot(list(SQUEEZED.values()), TRACE)) == 3
    assert len(plt.get_fignums()) == 5


def test_a_backend_that_is_interactive_stays_so() -> None:
    """As a notebook's: a figure is shown in the cells after the first, too."""
    lines = (
        "from IPython.core.interactiveshell import InteractiveShell; InteractiveShell.instance()",
        "import matplotlib, coopsim",
        "coopsim.plot(coopsim.load('synth:unet:4'))",
        "assert matplotlib.is_interactive(), 'taken back'",
    )
    place = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, env=place)


def test_it_draws_into_axes_of_ones_own(plt: Any) -> None:
    figure, axes = plt.subplots(2, 2)
    with mpl.rc_context({"font.size": 10}):
        assert coopsim.plot(table(), ax=axes[0, 0]) is axes[0, 0]
        coopsim.plot(mapped("toy"), ax=axes[0, 1])
        coopsim.plot(SQUEEZED["coop"], TRACE, ax=axes[1, 0])
        coopsim.plot(TRACE, ax=axes[1, 1])
    assert plt.get_fignums() == [figure.number]
    assert axes[0, 0].get_ylabel() == "overhead (%)"
    assert axes[0, 0].get_legend()
    two = several("a", "b")
    assert [ax.get_title() for ax in coopsim.plot(two, ax=plt.subplots(1, 2)[1], quantity="search")] == ["a", "b"]
    with pytest.raises(CoopsimError, match="1 axes are given for a panel per trace: a, b"):
        coopsim.plot(two, ax=axes[0, 0])


def test_policies_are_chosen_ordered_called_and_coloured(plt: Any) -> None:
    def legend(**chosen: Any) -> dict[str, str]:
        panels = coopsim.plot(table(), **chosen)
        return {
            h.get_label(): h.get_color()
            for h in panels[0].figure.legends[0].legend_handles[:3]
            if hasattr(h, "get_color")
        }

    every = legend()
    assert list(every) == ["DTR", "Coop", "mine"]
    assert legend(policies=["mine", "coop"], labels={"coop": "Ours"}) == {"mine": every["mine"], "Ours": every["Coop"]}
    assert list(legend(order=["mine"])) == ["mine", "DTR", "Coop"]
    assert legend(colors={"mine": "#123456"}) == every | {"mine": "#123456"}
    named = coopsim.plot(mapped("toy"), policies=["coop"], labels={"coop": "Ours"})
    assert [t.get_text() for t in named.get_yticklabels()] == ["Ours"]
    maps = coopsim.plot(list(SQUEEZED.values()), TRACE, policies=["dtr-oneflow", "coop"], labels={"coop": "Ours"})
    assert [ax.get_title(loc="left").split(":")[0] for ax in maps] == ["DTR", "Ours"]
    for wrong, said in (
        ({"policies": ["cop"]}, "unknown policy 'cop'; did you mean coop"),
        ({"colors": {"coop": "reddish"}}, "'reddish', for coop, is no colour"),
        ({"size": (0, 2)}, "not a width and a height"),
        ({"size": "6.8.1x2"}, "not WIDTHxHEIGHT"),
        ({"size": (2, 0.7)}, "do not fit into 2 x 0.7 inches"),
        ({"quantity": "speed"}, "unknown figure 'speed'"),
    ):
        with pytest.raises(CoopsimError, match=said):
            coopsim.plot(table(), **wrong)


@pytest.mark.parametrize("traces", [EIGHT[:1], EIGHT[:2], EIGHT])
def test_in_a_papers_width_nothing_overlaps(traces: tuple[str, ...]) -> None:
    figure = lines.draw(several(*traces), "overhead", size=SIZE)
    assert tuple(figure.get_size_inches()) == SIZE
    texts_are_inside_and_apart(figure)
    assert [ax.get_title() for ax in figure.axes if ax.axison] == list(traces)
    if len(traces) == 1:
        for one in (
            lines.overview(several(*traces), size="6.8x2.2"),
            feasibility.draw(mapped("toy"), size=SIZE),
            memory_map.draw(SQUEEZED["coop"], TRACE, size=SIZE),
        ):
            assert tuple(one.get_size_inches()) == SIZE
            texts_are_inside_and_apart(one)


def test_eight_models_wrap_into_a_grid() -> None:
    figure = lines.overview(several(*EIGHT))
    texts_are_inside_and_apart(figure)
    grid = figure.axes[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == (6, 4)


def test_counts_of_what_fits_do_not_overprint() -> None:
    """Six policies whose bands fit in part, at nearly the same overhead."""
    rows = [
        row(f"p{p}", c, k, overhead=1.2 + 0.002 * p, **({"outcome": "oom"} if k == 1 else {}))
        for p in range(6)
        for c in (0.4, 0.42, 0.5)
        for k in (-1, 0, 1)
    ]
    figure = lines.draw(pd.DataFrame(rows), "overhead")
    (ax,) = figure.axes
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) > 3
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_many_variants_of_one_policy_differ_in_colour() -> None:
    df = pd.concat([table()[lambda t: t.policy == "coop"].assign(steps=n) for n in range(1, 9)], ignore_index=True)
    (legend,) = lines.draw(df, "overhead").legends
    handles = legend.legend_handles[:8]
    assert [h.get_label() for h in handles] == [f"Coop · steps {n}" for n in range(1, 9)]
    assert len({(h.get_color(), h.get_marker()) for h in handles}) == 8
    assert handles[0].get_color() == style.policies(["coop"])["coop"].color


def test_each_figure_writes_its_data(tmp_path: Path, plt: Any, coopsim: Any) -> None:
    import coopsim as api

    for what, trace, columns in (
        (
            table().assign(fragmentation_rate_incl=0.1, searches=1, evictions=1, recomputes=1),
            None,
            {"policy", "band_center", "fits", "overhead"},
        ),
        (mapped("toy"), None, {"policy", "memory_ratio", "outcome"}),
        (TRACE, None, {"end_ms", "activation"}),
        (SQUEEZED["coop"], TRACE, {"address", "bytes", "begin_ns", "end_ns", "role"}),
    ):
        api.plot(what, trace, data=tmp_path / "f.csv")
        assert columns <= set(pd.read_csv(tmp_path / "f.csv").columns)
    swept = tmp_path / "r.parquet"
    assert coopsim("sweep", "synth:unet:4", "--policy", "coop,lru", "--budget", "90%,60%", "-o", swept).code == 0
    flags = ("--policies", "lru", "--labels", "lru=Old", "--size", "6.8x2.2", "--data", tmp_path / "c.csv")
    code, _, err = coopsim("plot", swept, "-o", tmp_path / "o.png", *flags)
    assert code == 0, err
    assert pd.read_csv(tmp_path / "c.csv").policy.tolist() == ["lru", "lru"]
    from PIL import Image

    assert Image.open(tmp_path / "o.png").size == (1360, 440)
    for wrong, said in (
        (("--labels", "lru"), "'lru' is not POLICY=LABEL"),
        (("--size", "big"), "unknown figure size"),
        (("--data", tmp_path / "c.txt"), "written as CSV"),
        (("--policies", "coopp"), "did you mean coop"),
    ):
        code, _, err = coopsim("plot", swept, "-o", tmp_path / "o.png", *wrong)
        assert (code, err.count("\n")) == (2, 1)
        assert said in err
    code, _, err = coopsim("plot", swept, "synth:unet:4", "-o", tmp_path, "--data", tmp_path / "d.csv")
    assert (code, "--data writes one table" in err) == (2, True)
