"""Compute the cells that a store lacks, in several processes.

A process claims a cell when it begins with it, and stores the result itself: what is lost when any process is killed is
the cell it was at, and a worker whose parent was killed still stores what it was about to. Every worker has a pipe of
its own to the parent, and hears at its end that the parent is gone. Queues with locks that workers share, as executors
have them, would be left locked by a worker killed at the wrong moment, and leave workers behind that wait for ever.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from typing import Any, TypeAlias

from joblib import cpu_count
from threadpoolctl import threadpool_limits

from crossview._validation import check_count
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, fingerprint, key
from crossview.experiments.owners import Owner
from crossview.experiments.store import PathLike, Record, Store, StoreError
from crossview.experiments.tasks import run_cell

__all__ = ["run"]

Load: TypeAlias = Callable[[str, dict[str, Any]], Dataset]
Compute: TypeAlias = Callable[[Cell, Dataset], Mapping[str, Any]]
Attempts: TypeAlias = "Callable[[Sequence[_Task]], Iterator[_Task]]"  # tells of each task once it has been tried
Progress: TypeAlias = Callable[[int, int, Cell, Record], object]

_BEAT = 15.0  # seconds between two signs of life
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two looks at what other runs are at
_LAST_WORDS = 5.0  # seconds that a worker has to end when asked to

_log = logging.getLogger(__name__)


def run(
    cells: Iterable[Cell],
    load: Load,
    store: Store | PathLike,
    *,
    workers: int = 1,
    threads: int = 1,
    progress: Progress | None = None,
    retry_failed: bool = False,
    compute: Compute = run_cell,
) -> list[Record]:
    """Compute what a store does not have yet, and give all that was asked for.

    Killed at any time, by whatever means, the same call goes on where it was. Several may run on one store: none
    computes what another is at, and each waits at its end for the others to finish what it wants as well.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted.
    load : callable
        ``load(data, options)`` gives the `Dataset` of a cell's ``data`` and ``options``, the latter as a dict. It is
        called once for every data set in every process, and must give the same every time.
    store : Store, str or path
        Where results are kept.
    workers : int
        How many processes compute. One computes here. More are started anew, so that `load` and `compute` must be
        functions of a module, and a script has to keep what it does under ``if __name__ == "__main__":``.
    threads : int
        How many threads the linear algebra of every worker may use; fewer if there are not as many cores. With one,
        results are the same to the last digit however many workers there are.
    progress : callable, optional
        Told ``(done, total, cell, record)`` whenever a cell is done or has failed that was not so when the run began;
        ``done`` counts those that were, too.
    retry_failed : bool
        Compute again what failed before.
    compute : callable
        ``compute(cell, dataset)`` gives a result that is ready for JSON.

    Returns
    -------
    records : list of Record
        One for every cell, in their order. One that failed has its error in the place of a result, and did not stop
        the others; so has one whose worker was killed.

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
    wanted = list(cells)
    check_count(workers, "workers", least=1)
    check_count(threads, "threads", least=1)
    since = time.time() if retry_failed else None
    threads = min(threads, max(1, cpu_count() // workers))
    with contextlib.ExitStack() as stack:
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        bench = _Bench(load, compute, threads, since)
        planned = [bench.task(cell) for cell in wanted]
        tasks = {task.key: task for task in planned}
        records = {key: record for key in tasks if (record := _settled(store, key, since)) is not None}
        left = [task for task in tasks.values() if task.key not in records]
        if workers > 1:
            bench.loaded.clear()  # for workers to load on their own
        if left:
            team = _alone(bench, store) if workers == 1 else _team(bench, store, min(workers, len(left)))
            attempts = stack.enter_context(team)
            for task, record in _all(attempts, store, left, since):
                records[task.key] = record
                if progress is not None:
                    progress(len(records), len(tasks), task.cell, record)
    return [records[task.key] for task in planned]


@dataclass(frozen=True)
class _Task:
    """A cell, what it is stored under, and the fingerprint of its data."""

    key: str
    cell: Cell
    data: str


@dataclass
class _Bench:
    """What a process computes cells with."""

    load: Load
    compute: Compute
    threads: int
    since: float | None
    loaded: dict[tuple[str, Any], tuple[Dataset, str]] = field(default_factory=dict)

    def data(self, cell: Cell) -> tuple[Dataset, str]:
        """A cell's data, and their fingerprint."""
        name = (cell.data, repr(cell.options))
        if name not in self.loaded:
            data = self.load(cell.data, dict(cell.options))
            self.loaded[name] = (data, fingerprint(data))
        return self.loaded[name]

    def task(self, cell: Cell) -> _Task:
        found = self.data(cell)[1]
        return _Task(key(cell, found, __version__), cell, found)

    def attempt(self, task: _Task, store: Store, owner: Owner) -> None:
        """Compute a cell and store what becomes of it, unless another has claimed it, or has been faster."""
        try:
            if not store.claim([task.key], owner, retry_before=self.since):
                return
            start = time.perf_counter()
            try:
                data, found = self.data(task.cell)
                if found != task.data:
                    raise ValueError(
                        f"{task.cell.data} was loaded twice, with different content: leave files alone during a run, "
                        "and give load a fixed seed."
                    )
                with threadpool_limits(self.threads):
                    result = self.compute(task.cell, data)
                store.put(task.key, task.cell.to_dict(), result, time.perf_counter() - start)
            except StoreError:
                raise
            except Exception as error:
                store.fail(task.key, task.cell.to_dict(), error, time.perf_counter() - start)
        except BaseException:
            store.release([task.key], owner)
            raise


def _settled(store: Store, key: str, since: float | None) -> Record | None:
    """What became of a cell, unless it is to be computed, or computed again."""
    record = store.get(key)
    again = record is not None and record.status == "failed" and since is not None and record.created < since
    return None if again else record


def _all(
    attempts: Attempts, store: Store, tasks: Sequence[_Task], since: float | None
) -> Iterator[tuple[_Task, Record]]:
    """Every task with what became of it, be it here or in another run."""
    pause = _FIRST_PAUSE
    while tasks:
        held = []
        for task in attempts(tasks):
            record = _settled(store, task.key, since)
            if record is None:
                held.append(task)
            else:
                yield task, record
        if held:
            if pause == _FIRST_PAUSE:
                _log.info("waiting for another run that computes %d of the cells", len(held))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        tasks = held


@contextlib.contextmanager
def _alone(bench: _Bench, store: Store) -> Iterator[Attempts]:
    """Have this process compute."""
    owner = Owner.current()

    def attempts(tasks: Sequence[_Task]) -> Iterator[_Task]:
        for task in tasks:
            bench.attempt(task, store, owner)
            yield task

    with _renewed(store, owner):
        yield attempts


@contextlib.contextmanager
def _team(bench: _Bench, store: Store, size: int) -> Iterator[Attempts]:
    """Have several processes compute."""
    team = _Team(bench, store, size)
    try:
        yield team.attempts
    except BaseException:
        team.dismiss(at_once=True)
        raise
    team.dismiss(at_once=False)


@dataclass(eq=False)
class _Worker:
    """A process that computes, as the parent sees it."""

    process: BaseProcess
    pipe: Connection
    owner: Owner | None = None  # until it has said that it is ready
    task: _Task | None = None


class _Team:
    """Processes that compute, as many as there is work for."""

    def __init__(self, bench: _Bench, store: Store, size: int) -> None:
        self.bench, self.store, self.size = bench, store, size
        self.workers: list[_Worker] = []

    def dismiss(self, *, at_once: bool) -> None:
        """End all workers, and give back what they were at."""
        for worker in self.workers:
            if at_once or worker.owner is None:
                worker.process.terminate()
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join(_LAST_WORDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
            if worker.owner is not None and worker.task is not None:
                self.store.release([worker.task.key], worker.owner)

    def attempts(self, tasks: Sequence[_Task]) -> Iterator[_Task]:
        """Have all tried, as many at a time as there are workers, and tell of each."""
        queue = deque(tasks)
        while queue or any(worker.task for worker in self.workers):
            while len(self.workers) < min(self.size, len(queue)):
                self.workers.append(self._hire())
            for worker in self.workers:
                if queue and worker.owner is not None and worker.task is None:
                    self._give(worker, queue.popleft())
            busy = {worker.pipe: worker for worker in self.workers if worker.task or worker.owner is None}
            for pipe in wait(list(busy)):
                if (tried := self._hear(busy[pipe])) is not None:  # type: ignore[index]
                    yield tried

    def _hire(self) -> _Worker:
        # Not a fork: that copies the locks of threads, those of the linear algebra too, but not the threads.
        context = multiprocessing.get_context("spawn")
        pipe, end = context.Pipe()
        work = (end, self.bench, self.store.path.absolute(), self.store.busy_timeout, self.store.claim_timeout)
        process = context.Process(target=_work, args=work, name="crossview-worker", daemon=True)
        try:
            process.start()
        except (PicklingError, AttributeError, TypeError) as error:
            pipe.close()
            fix = "use functions of a module, or workers=1"
            raise ValueError(f"load and compute cannot be sent to another process: {fix} ({error}).") from error
        finally:
            end.close()  # so that the pipe ends when the worker does
        return _Worker(process, pipe)

    def _give(self, worker: _Worker, task: _Task) -> None:
        worker.task = task
        with contextlib.suppress(_PipeError):  # it has ended, as its pipe is about to say
            _tell(worker.pipe, task)

    def _hear(self, worker: _Worker) -> _Task | None:
        """The task that a worker has tried, if that is what it says."""
        task = worker.task
        try:
            message = _hear(worker.pipe)
        except _PipeError:
            return self._bury(worker)
        if isinstance(message, Owner):
            worker.owner = message
            return None
        worker.task = None
        if isinstance(message, Exception):
            raise message
        return task

    def _bury(self, worker: _Worker) -> _Task | None:
        """Tell of a worker's end: what it was at has failed."""
        worker.process.join()
        code, task, owner = worker.process.exitcode, worker.task, worker.owner
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.close()
        if owner is None:
            raise RuntimeError(
                "a worker ended before it could begin: keep what the script does under if __name__ == '__main__':, "
                "and load and compute in a module; or use workers=1."
            )
        if task is not None and self.store.claims().get(task.key) == owner:
            cause = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            message = f"the worker ended {cause}, which may mean that memory ran out: try fewer workers."
            error = {"type": "WorkerEnded", "message": message, "traceback": ""}
            self.store.fail(task.key, task.cell.to_dict(), error, 0.0)
        return task


def _work(pipe: Connection, bench: _Bench, path: PathLike, busy_timeout: float, claim_timeout: float) -> None:
    """What a worker does: try what it is given, until there is nobody to give it anything."""
    # An interrupt from the keyboard goes to all processes; the parent is the one to decide what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    owner = Owner.current()
    with (
        threadpool_limits(bench.threads),
        Store(path, busy_timeout=busy_timeout, claim_timeout=claim_timeout) as store,
        _renewed(store, owner),
        contextlib.suppress(_PipeError),
    ):
        _tell(pipe, owner)
        while True:
            task = _hear(pipe)
            try:
                bench.attempt(task, store, owner)
            except Exception as error:
                _tell(pipe, error)
            else:
                _tell(pipe, None)


class _PipeError(Exception):
    """There is nobody at the other end of a pipe."""


def _tell(pipe: Connection, message: object) -> None:
    try:
        pipe.send(message)
    except OSError:
        raise _PipeError from None


def _hear(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        raise _PipeError from None


@contextlib.contextmanager
def _renewed(store: Store, owner: Owner) -> Iterator[None]:
    """Have a thread renew an owner's claims for as long as this lasts."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(_BEAT):
            with contextlib.suppress(StoreError):  # whoever computes will run into the same, and tell
                store.renew(owner)

    thread = threading.Thread(target=renew, name="crossview-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
