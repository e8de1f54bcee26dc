"""A running Dask cluster as an executor. Imports distributed: only to be imported where a cluster is asked for."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Client, WorkerPlugin

from coopsim.base.types import CoopsimError
from coopsim.study.sweep.worker import hold, let_go
from coopsim.trace import Trace
from coopsim.version import __version__

_PATIENCE = 30  # seconds for a scheduler to answer, and for its first worker
_NAME = "coopsim-traces"


class Traces(WorkerPlugin):
    """Puts the traces into a worker when it hears of them, or starts."""

    def __init__(self, traces: Mapping[str, Trace]) -> None:
        self.traces = dict(traces)
        self.name = f"{_NAME}-{'-'.join(sorted(name[-8:] for name in self.traces))[:60]}"

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Called by Dask on the worker."""
        hold(self.traces)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002
        """Called when the plugin is taken back."""
        let_go(list(self.traces))


def start(address: str, traces: Mapping[str, Trace]) -> Executor:
    """An executor on the cluster at `HOST:PORT`. CoopsimError if there is none, or it has no workers."""
    for name in ("distributed", "distributed.client", "tornado.application"):  # we say ourselves what is lost
        logging.getLogger(name).setLevel(logging.CRITICAL)
    connect: Any = Client
    try:
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as e:
        raise CoopsimError(f"no Dask scheduler answers at {address} ({str(e).splitlines()[0]})") from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
        plugin = Traces(traces)
        client.register_plugin(plugin)
    except TimeoutError:
        client.close()
        raise CoopsimError(f"the Dask scheduler at {address} has no workers") from None
    except Exception as e:  # whatever unpacking it on a worker raises
        client.close()
        said = (str(e).splitlines() or [""])[0]
        raise CoopsimError(
            f"the workers of {address} take no traces ({type(e).__name__}: {said}); do they have coopsim {__version__}?"
        ) from None
    return _Cluster(client, plugin.name)


class _Cluster(Executor):
    """A client as an executor. Dask's own leaves a future undone for ever if the scheduler goes while it is fetched."""

    def __init__(self, client: Any, plugin: str) -> None:
        self.client, self.plugin = client, plugin
        self.remote: dict[Future[Any], Any] = {}  # a result stays on the cluster as long as this is held

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As any executor's."""
        ours: Future[Any] = Future()
        remote = self.client.submit(fn, *args, **kwargs, pure=False)
        self.remote[ours] = remote
        remote.add_done_callback(partial(self._hand_on, ours))
        return ours

    def _hand_on(self, ours: Future[Any], remote: Any) -> None:
        """Called in a thread of the client when a replay is done, or never will be."""
        self.remote.pop(ours, None)
        if not ours.set_running_or_notify_cancel():
            return
        try:
            ours.set_result(remote.result())
        except (CancelledError, OSError) as e:  # what a lost connection comes out as
            ours.set_exception(BrokenExecutor(str(e)))
        except BaseException as e:
            ours.set_exception(e)


def stop(executor: Any) -> None:
    """Cancel what is not done, take the traces back, leave. A cluster that has gone is none of our business."""
    client = executor.client
    with suppress(Exception):
        client.cancel(list(executor.remote.values()))
        if client.status == "running":
            client.unregister_worker_plugin(executor.plugin)
    client.close(timeout=5)
