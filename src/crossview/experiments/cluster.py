"""Call a function on the processes of `dask.distributed`."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import signal
import threading
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_TIMEOUT = 10.0  # seconds

_log = logging.getLogger(__name__)


def calls_on_cluster(
    function: Callable[[Any], Any],
    arguments: Mapping[str, Any],
    n_jobs: int,
    scheduler: str | None,
    begin: Callable[..., object],
) -> Generator[tuple[str, Any]]:
    """Each name with what the function returns for its argument, or None if its workers kept dying.

    ``begin(name)`` is called when a worker is given the call, and ``begin(name, done, total)`` when it calls
    `tell_client`.
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


def tell_client(done: int, total: int) -> None:
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
