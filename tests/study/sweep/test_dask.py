"""A sweep on a Dask cluster: two worker processes that share no files with us, one of which is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from coopsim.base.types import CoopsimError
from coopsim.study.sweep import Dask, Grid, Scan, feasibility_map, sweep
from coopsim.trace import save
from coopsim.trace.synth import make
from tests.study.sweep.tables import table, when

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'coopsim[dask]'")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler in this process and two workers in their own."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.worker-ttl": None}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as found,
    ):
        yield found


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    """A grid on a trace whose file is gone once it is read."""
    file = tmp_path / "trace.parquet"
    save(make("synth:unet:3"), file)
    grid = Grid((str(file), "synth:chain:12"), ("lru", "coop"), budgets=("100%", "60%"), band=15, options={"steps": 2})
    assert len(grid.points()) == 120
    file.unlink()
    return grid


def pids(cluster: Any) -> list[int]:
    """The workers' processes."""
    return [worker.pid for worker in cluster.workers.values()]


def test_a_killed_worker_is_not_missed(cluster: Any, grid: Grid, tmp_path: Path) -> None:
    sweep(grid, tmp_path / "alone.parquet")
    before = pids(cluster)
    assert len(set(before)) == 2

    def kill() -> None:
        os.kill(pids(cluster)[0], signal.SIGKILL)

    sweep(grid, tmp_path / "cluster.parquet", Dask(cluster.scheduler_address), when((10,), kill))
    pd.testing.assert_frame_equal(table(tmp_path / "alone.parquet"), table(tmp_path / "cluster.parquet"))
    cluster.wait_for_workers(2, timeout=60)
    assert pids(cluster) != before


def test_a_map_goes_on_where_it_was_cut_off(cluster: Any, grid: Grid, tmp_path: Path) -> None:
    class CutOffError(Exception):
        """Somebody pulled the plug."""

    def pull() -> None:
        raise CutOffError

    scan, output = Scan(bottom="50%", step="5%"), tmp_path / "cluster.parquet"
    where = Dask(f"dask://{cluster.scheduler_address.removeprefix('tcp://')}")
    feasibility_map(grid, scan, tmp_path / "alone.parquet")
    with pytest.raises(CutOffError):
        feasibility_map(grid, scan, output, where, when((20,), pull))
    seen: list[int] = []
    feasibility_map(grid, scan, output, where, lambda done, _total: seen.append(done))
    assert seen[0] >= 20
    pd.testing.assert_frame_equal(table(tmp_path / "alone.parquet"), table(output))


def test_workers_get_each_trace_once_and_forget_it(cluster: Any, grid: Grid, tmp_path: Path) -> None:
    def held(dask_worker: Any = None) -> list[str]:
        from coopsim.study.sweep.worker import _held

        return sorted(_held)

    during: list[dict[str, list[str]]] = []
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        look = when((10,), lambda: during.append(client.run(held)))
        sweep(grid, tmp_path / "r.parquet", Dask(cluster.scheduler_address), look)
        assert list(during[0].values()) == [sorted(grid.by_hash)] * 2
        assert list(client.run(held).values()) == [[], []]


def test_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    from coopsim.study.sweep import cluster as of_dask

    monkeypatch.setattr(of_dask, "_PATIENCE", 1)
    with pytest.raises(CoopsimError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9"):
        Dask("dask://127.0.0.1:9").start({})
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty,
        pytest.raises(CoopsimError, match="has no workers"),
    ):
        Dask(empty.scheduler_address).start({})
