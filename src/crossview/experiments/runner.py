"""Compute the cells that a store lacks: in this process, in local processes, or on a cluster.

Results return to this process, the only one that writes the store, so a kill loses at most the cells in flight.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import platform
import re
import signal
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeAlias

from threadpoolctl import threadpool_limits

from crossview._progress import watcher
from crossview._validation import check_count
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.embeddings import ALL_METHODS
from crossview.experiments.cells import Cell, Record, Store, fingerprint, key, training_size
from crossview.experiments.tasks import run_cell

if TYPE_CHECKING:
    from distributed import Client

Load: TypeAlias = Callable[[str, dict[str, Any]], Dataset]
Compute: TypeAlias = Callable[[Any, Dataset], Mapping[str, Any]]
Watch: TypeAlias = Callable[[str, Cell, Any], object]
Loaded: TypeAlias = dict[tuple[str, str], tuple[Dataset, str]]

_CONNECT_TIMEOUT = 10.0  # seconds
_log = logging.getLogger(__name__)
_KILLED = {
    "type": "KilledWorker",
    "message": "workers were killed while they computed this, perhaps for lack of memory: try fewer jobs.",
    "traceback": "",
}
_loaded: Loaded = {}  # by this process, if it is a worker
_busy = threading.Lock()  # workers may have several threads, but the limit on those of linear algebra is the process's


def run(
    cells: Iterable[Cell],
    load: Load,
    store: Store | str | os.PathLike[str],
    *,
    n_jobs: int = 1,
    scheduler: str | None = None,
    watch: Watch = lambda event, cell, about: None,
    retry_failed: bool = False,
    compute: Compute = run_cell,
) -> list[Record]:
    """Compute the cells that a store lacks, and return the records of all, in the order of the cells.

    If interrupted or killed, run the same again to resume. A cell that fails, or whose workers keep dying, does not
    stop the others: its record has an error instead of a result. Linear algebra uses one thread per process, so results
    are the same to the last digit wherever they are computed.

    Every process calls ``load(data, options)`` once per data set; it must return the same `Dataset` each time.
    ``compute(cell, dataset)`` returns a result that JSON can hold. ``watch(event, cell, about)`` is called, perhaps by
    another thread, for every cell that ``"waits"``, as the store lacks it, when it ``"starts"``, meanwhile with the
    number of ``"fits"`` done and that of all, and when it ``"ends"``, with its record. With several workers, which
    `dask.distributed` starts, a script must run under ``if __name__ == "__main__":``. The workers of a scheduler, at an
    address such as ``"tcp://192.0.2.7:8786"``, need the same crossview, access to the data, and preferably one thread
    each.
    """
    check_count(n_jobs, "n_jobs", least=1)
    if scheduler is not None and not re.fullmatch(r"\w+://.+:\d+", scheduler):
        raise ValueError(f"scheduler must be an address such as tcp://192.0.2.7:8786, got {scheduler!r}.")
    with contextlib.ExitStack() as stack:
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        loaded: Loaded = {}
        planned = [_task(cell, *_data(cell, load, loaded)) for cell in cells]
        tasks = {task.key: task for task in planned}
        records = {record.key: record for record in map(store.get, tasks) if record is not None}
        if retry_failed:
            records = {name: record for name, record in records.items() if record.status == "done"}
        # The slow ones first, so that no worker idles while another computes the last.
        slow = sorted(tasks.items(), key=lambda named: named[1].cost, reverse=True)
        left = {name: task for name, task in slow if name not in records}
        n_jobs = min(n_jobs, len(left))

        for task in left.values():
            watch("waits", task.cell, None)

        def begin(name: str, *fits: int) -> None:
            watch("fits" if fits else "starts", tasks[name].cell, fits or None)

        if left and (n_jobs > 1 or scheduler is not None):
            loaded.clear()  # workers load data themselves
            call = partial(_attempt_on_worker, load=load, compute=compute)
            computed = _calls_on_cluster(call, left, n_jobs, scheduler, begin)
        else:
            computed = _calls_here(partial(_attempt, load=load, compute=compute, loaded=loaded), left, begin)
        for name, found in stack.enter_context(contextlib.closing(computed)):
            records[name] = record = found or tasks[name].record(None, _KILLED, 0.0)
            store.put(record)
            watch("ends", tasks[name].cell, record)
    return [records[task.key] for task in planned]


def environment() -> dict[str, str]:
    """Versions of Python and of packages, and the platform."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **packages, "platform": platform.platform()}


@dataclass(frozen=True)
class _Task:
    """A cell, its key, the fingerprint of its data, and what orders cells by the time that they take."""

    key: str
    cell: Cell
    data: str
    cost: tuple[int, ...]

    def record(self, result: Any, error: dict[str, str] | None, seconds: float) -> Record:
        status = "done" if error is None else "failed"
        when = (seconds, time.time(), __version__, environment())
        return Record(self.key, self.cell.to_dict(), status, result, error, *when)


def _data(cell: Cell, load: Load, loaded: Loaded, expected: str | None = None) -> tuple[Dataset, str]:
    """The data of a cell and their fingerprint, loaded anew unless they are known and as expected."""
    name = (cell.data, repr(cell.options))
    if name not in loaded or expected not in (None, loaded[name][1]):
        data = load(cell.data, dict(cell.options))
        loaded[name] = (data, fingerprint(data))
    return loaded[name]


def _task(cell: Cell, data: Dataset, found: str) -> _Task:
    method, size = ALL_METHODS[cell.method], training_size(cell, data.y)
    cost = size[0], not method._nested_components, len(method.search_space), len(data.y)  # kernel methods are slowest
    return _Task(key(cell, found, data.views.n_features, size), cell, found, cost)


def _attempt(task: _Task, load: Load, compute: Compute, loaded: Loaded) -> Record:
    """Compute a cell. An error becomes part of its record."""
    start, result, failure = time.perf_counter(), None, None
    try:
        data, found = _data(task.cell, load, loaded, task.data)
        if found != task.data:
            fix = "leave files alone during a run, give every worker the same, and load with a fixed seed"
            raise ValueError(f"{task.cell.data} was loaded twice, with different content: {fix}.")
        if _task(task.cell, data, found) != task:
            raise ValueError(f"a worker runs another crossview, version {__version__}: install the same everywhere.")
        with threadpool_limits(1):
            result = json.loads(json.dumps(compute(task.cell, data), allow_nan=False))
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        failure = {"type": type(error).__name__, "message": str(error), "traceback": trace}
    return task.record(result, failure, time.perf_counter() - start)


def _attempt_on_worker(task: _Task, load: Load, compute: Compute) -> Record:
    with _busy:
        watcher.set(_tell_client)
        return _attempt(task, load, compute, _loaded)


def _calls_here(call: Any, tasks: dict[str, _Task], begin: Callable[..., object]) -> Generator[tuple[str, Record]]:
    for name, task in tasks.items():
        begin(name)
        context = copy_context()
        context.run(watcher.set, partial(begin, name))
        yield name, context.run(call, task)


def _calls_on_cluster(
    function: Callable[[Any], Any],
    arguments: Mapping[str, Any],
    n_jobs: int,
    scheduler: str | None,
    begin: Callable[..., object],
) -> Generator[tuple[str, Any]]:
    """Each name with what the function returns for its argument, or None if its workers kept dying.

    ``begin(name)`` is called when a worker is given the call, and ``begin(name, done, total)`` when it calls
    `_tell_client`.
    """
    prefix = f"crossview-{uuid.uuid4().hex}-"
    waiting, running = deque(arguments), 0
    with _client(n_jobs, scheduler) as client:
        from distributed import KilledWorker, as_completed

        client.subscribe_topic(prefix, lambda event: begin(*event[1]))
        finished = as_completed(loop=client.loop)
        while waiting or running:
            try:
                # One per worker: when a worker dies, Dask blames all calls that it was given, not only the running one.
                while waiting and running < max(1, len(client.nthreads())):
                    name = waiting.popleft()
                    begin(name)
                    finished.add(client.submit(function, arguments[name], key=prefix + name))
                    running += 1
                future = next(finished)
                running -= 1
                result = future.result()
                future.release()  # or Dask would call again if the worker that holds the result dies
            except KilledWorker:
                result = None
            except (CancelledError, OSError) as error:
                fix = "start it again, and run the same to resume; finished cells are stored"
                raise ConnectionError(f"lost the connection to the scheduler at {scheduler}: {fix}.") from error
            except Exception as error:
                fix = "load and compute must be functions that workers can import; or use one process"
                raise ValueError(f"cells cannot be sent to workers: {fix} ({error}).") from error
            yield future.key.removeprefix(prefix), result


def _tell_client(done: int, total: int) -> None:
    """Say how far the call is that runs in this thread of a worker."""
    from distributed import get_worker

    key: Any = (worker := get_worker()).get_current_task()
    worker.log_event(key[: -len(name := key.rpartition("-")[2])], (name, done, total))


@contextlib.contextmanager
def _client(n_jobs: int, scheduler: str | None) -> Iterator[Client]:
    """Connect to a cluster, or start one on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster, Security

        # Who can connect can run code: only who has the keys of this run, which are in memory alone.
        security = Security.temporary() if scheduler is None else None
    except ImportError:
        fix = "pip install 'crossview[dask]', or use one process"
        raise ImportError(f"computing in other processes needs distributed and cryptography: {fix}.") from None
    with contextlib.ExitStack() as stack:
        logger = logging.getLogger("distributed.client")  # the traceback of a lost connection is one line here
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        # Local workers that die are started again. Dask gives up those that are not there 15 seconds after a death.
        settings: dict[str, object] = {"distributed.deploy.lost-worker-timeout": "1 day"}
        # HTTP servers cannot be left out, but their pages can.
        settings |= {f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")}
        stack.enter_context(dask.config.set(settings))
        options = {"threads_per_worker": 1, "silence_logs": logging.CRITICAL, "security": security}
        options |= {"dashboard_address": "localhost:0", "scheduler_kwargs": {"dashboard": False}}
        options |= {"memory_limit": 0}  # no limit: a cell may need more than a worker's share
        try:
            target: Any = scheduler
            if scheduler is None:
                with _interrupts_deferred():
                    target = stack.enter_context(LocalCluster(n_workers=n_jobs, preload=[__name__], **options))
            client = stack.enter_context(Client(target, timeout=_CONNECT_TIMEOUT, set_as_default=False))
        except RuntimeError as error:
            fix = "keep what the script does under if __name__ == '__main__':, or use one process"
            raise ValueError(f"workers cannot start: {fix} ({error}).") from error
        except (OSError, ValueError) as error:
            fix = "check the address, or start one with 'dask scheduler'"
            raise ConnectionError(f"no scheduler answers at {scheduler}: {fix} ({error}).") from error
        if scheduler is not None and not client.nthreads():
            _log.info("The cluster has no workers yet. Start them with: dask worker %s --nthreads 1", scheduler)
        if scheduler and "dashboard" in client.scheduler_info()["services"] and importlib.util.find_spec("bokeh"):
            _log.info("Dashboard: %s", client.dashboard_link)
        yield client


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Have what ends a run wait until its workers have started, and Ctrl-C never reach processes started meanwhile.

    A terminal sends it to all processes. Threads that start here inherit the mask, as do processes that these start.
    """
    received: list[int] = []
    stack = contextlib.ExitStack()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.signal(number, lambda number, _: received.append(number))
            stack.callback(signal.signal, number, handler)
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        resource_tracker.ensure_running()  # which would unblock Ctrl-C
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, blocked)
    with stack:
        yield
    for one in received:
        signal.raise_signal(one)


def dask_setup(worker: object) -> None:
    """Have a local worker ignore Ctrl-C, which a terminal sends to all processes: the client stops workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
