"""Compute the cells that a store lacks: here, in local processes, or on a cluster.

`dask.distributed` runs the other processes. Results return to the client, the only process that writes the store, so a
kill loses at most the cells in flight.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import re
import signal
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from threadpoolctl import threadpool_limits

from crossview._validation import check_count
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, fingerprint, key
from crossview.experiments.environment import environment
from crossview.experiments.store import PathLike, Record, Store
from crossview.experiments.tasks import run_cell

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["run"]

Load: TypeAlias = Callable[[str, dict[str, Any]], Dataset]
Compute: TypeAlias = Callable[[Cell, Dataset], Mapping[str, Any]]
Progress: TypeAlias = Callable[[int, int, Cell, Record], object]
Loaded: TypeAlias = dict[tuple[str, str], tuple[Dataset, str]]

_CONNECT_TIMEOUT = 10.0  # seconds

_log = logging.getLogger(__name__)
_loaded: Loaded = {}  # by this process, if it is a worker
_busy = threading.Lock()  # a worker may have several threads, but the limit on those of linear algebra is the process's


def run(
    cells: Iterable[Cell],
    load: Load,
    store: Store | PathLike,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    retry_failed: bool = False,
    compute: Compute = run_cell,
) -> list[Record]:
    """Compute the cells that a store lacks, and return the records of all.

    If interrupted or killed, run the same again to resume. Linear algebra uses one thread per process, so results are
    the same to the last digit wherever they are computed.

    Parameters
    ----------
    cells : iterable of Cell
        The cells.
    load : callable
        ``load(data, options)`` returns the `Dataset` that a cell names by its ``data`` and ``options``, the latter as a
        dict. Every process calls it once per data set, and it must return the same each time.
    store : Store, str or path
        Where to keep results.
    workers : int
        Number of processes. With 1, cells are computed in this process. More are started by `dask.distributed`; a
        script must then run under ``if __name__ == "__main__":``.
    scheduler : str, optional
        Address of a `dask.distributed` scheduler, such as ``"tcp://192.0.2.7:8786"``, whose workers to use instead.
        They need the same crossview, access to the data, and preferably one thread each.
    progress : callable, optional
        Called with ``(done, total, cell, record)`` after each computed cell; ``done`` includes cells that were in the
        store.
    retry_failed : bool
        Whether to compute cells that failed in an earlier run once more.
    compute : callable
        ``compute(cell, dataset)`` returns a result that JSON can hold.

    Returns
    -------
    records : list of Record
        One for each cell, in the same order. A cell that fails, or whose worker is killed four times, does not stop the
        others: its record has an error instead of a result.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import crossview as cv
    >>> from crossview.experiments import Cell, Search, Split, run
    >>> def load(data, options):
    ...     return cv.datasets.make_turntable(12, size=12, **options)
    >>> search = Search(pca=[10], n_folds=2, grid={"n_components": [2, 4]})
    >>> cells = [Cell(data="turntable", method=name, split=Split(n_train=8), search=search) for name in ("PCA", "MvDA")]
    >>> with TemporaryDirectory() as folder:
    ...     records = run(cells, load, f"{folder}/results.db")
    >>> [record.status for record in records]
    ['done', 'done']
    """
    check_count(workers, "workers", least=1)
    if scheduler is not None and not re.fullmatch(r"\w+://.+:\d+", scheduler):
        raise ValueError(f"scheduler must be an address such as tcp://192.0.2.7:8786, got {scheduler!r}.")
    with contextlib.ExitStack() as stack:
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        loaded: Loaded = {}
        planned = [_task(cell, *_data(cell, load, loaded)) for cell in cells]
        tasks = {task.key: task for task in planned}
        known = {name: record for name in tasks if (record := store.get(name)) is not None}
        records = {name: record for name, record in known.items() if not (retry_failed and record.status == "failed")}
        left = [task for name, task in tasks.items() if name not in records]
        workers = min(workers, len(left))
        if left and (workers > 1 or scheduler is not None):
            loaded.clear()  # workers load data themselves
            computed = _distributed(left, load, compute, workers, scheduler)
        else:
            computed = (_attempt(task, load, compute, loaded) for task in left)
        for record in stack.enter_context(contextlib.closing(computed)):
            store.put(record)
            records[record.key] = record
            if progress is not None:
                progress(len(records), len(tasks), tasks[record.key].cell, record)
    return [records[task.key] for task in planned]


@dataclass(frozen=True)
class _Task:
    """A cell, its key, and the fingerprint of its data."""

    key: str
    cell: Cell
    data: str

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
    return _Task(key(cell, found, data.views.n_features), cell, found)


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
        return _attempt(task, load, compute, _loaded)


def _distributed(
    tasks: Sequence[_Task], load: Load, compute: Compute, workers: int, scheduler: str | None
) -> Generator[Record]:
    """Compute cells on a cluster."""
    waiting, running, prefix = deque(tasks), dict[str, _Task](), f"crossview-{uuid.uuid4().hex}"
    with _client(workers, scheduler) as client:
        from distributed import KilledWorker, as_completed

        finished = as_completed(loop=client.loop)
        while waiting or running:
            try:
                # One per worker: when a worker dies, Dask blames all cells that it was given, not only the running one.
                while waiting and len(running) < max(1, len(client.nthreads())):
                    name = f"{prefix}-{waiting[0].key}"
                    finished.add(client.submit(_attempt_on_worker, waiting[0], load, compute, key=name))
                    running[name] = waiting.popleft()
                future = next(finished)
                task = running.pop(future.key)
                record: Record = future.result()
                future.release()  # or Dask would compute it again if the worker that has it dies
            except KilledWorker:
                message = "workers were killed while they computed this, perhaps for lack of memory: try fewer workers."
                record = task.record(None, {"type": "KilledWorker", "message": message, "traceback": ""}, 0.0)
            except (CancelledError, OSError) as error:
                fix = "start it again, and run the same to resume; finished cells are stored"
                raise ConnectionError(f"lost the connection to the scheduler at {scheduler}: {fix}.") from error
            except Exception as error:
                fix = "load and compute must be functions that workers can import; or use one worker"
                raise ValueError(f"cells cannot be sent to workers: {fix} ({error}).") from error
            yield record


@contextlib.contextmanager
def _client(workers: int, scheduler: str | None) -> Iterator[Client]:
    """Connect to a cluster, or start one on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        fix = "install crossview with its extra 'cluster', or use one worker"
        raise ImportError(f"computing in other processes needs the package distributed: {fix}.") from None
    with contextlib.ExitStack() as stack:
        logger = logging.getLogger("distributed.client")  # its traceback of a lost connection becomes one line here
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        # A killed worker is started again; by default Dask gives it up if that happens twice in 15 seconds.
        stack.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}))
        try:
            cluster = scheduler or stack.enter_context(
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=0,  # one cell may need more than its share
                    dashboard_address="localhost:0",
                    silence_logs=logging.CRITICAL,
                    preload=[__name__],
                )
            )
            client = stack.enter_context(Client(cluster, timeout=_CONNECT_TIMEOUT, set_as_default=False))
        except RuntimeError as error:
            fix = "keep what the script does under if __name__ == '__main__':, or use one worker"
            raise ValueError(f"workers cannot start: {fix} ({error}).") from error
        except (OSError, ValueError) as error:
            fix = "check the address, or start one with 'dask scheduler'"
            raise ConnectionError(f"no scheduler answers at {scheduler}: {fix} ({error}).") from error
        if scheduler is not None and not client.nthreads():
            _log.info("The cluster has no workers yet. Start them with: dask worker %s --nthreads 1", scheduler)
        if "dashboard" in client.scheduler_info()["services"] and importlib.util.find_spec("bokeh"):
            _log.info("Dashboard: %s", client.dashboard_link)
        yield client


def dask_setup(worker: object) -> None:
    """Have a local worker ignore Ctrl-C, which its terminal sends to all processes: the client stops workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
