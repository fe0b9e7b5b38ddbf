"""How crossview computes: settings of a session, which no estimator stores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import EllipsisType
from typing import Any

_config: ContextVar[dict[str, Any] | None] = ContextVar("config", default=None)


def get_config() -> dict[str, Any]:
    """Return the configuration of this thread.

    Returns
    -------
    config : dict
        The values of `set_config`, by name.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.get_config()
    {'device': None, 'progress': False}
    """
    return dict(_config.get() or {"device": None, "progress": False})


def set_config(*, device: str | EllipsisType | None = ..., progress: bool | EllipsisType = ...) -> None:
    """Set the configuration of this thread. What is not given stays as it is.

    Parameters
    ----------
    device : str or None
        Device of PyTorch, such as ``"cuda"``, for the work that grows with the number of samples: arrays are copied
        there, and results come back as arrays. By default, None, NumPy does it. Tensors stay on the device where they
        are. Dask arrays need None.
    progress : bool
        Whether to show the progress of long work and the time left: as a bar on a terminal if rich is installed,
        otherwise as lines on stderr, at least every 30 seconds. False by default.

    See Also
    --------
    config_context : The same for a part of the code.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.set_config(progress=True)
    >>> cv.get_config()["progress"]
    True
    >>> cv.set_config(progress=False)
    """
    config = get_config()
    if device is not ...:
        _check_device(device)
        config["device"] = device
    if progress is not ...:
        if not isinstance(progress, bool):
            raise ValueError(f"progress must be True or False, got {progress!r}.")
        config["progress"] = progress
    _config.set(config)


@contextmanager
def config_context(*, device: str | EllipsisType | None = ..., progress: bool | EllipsisType = ...) -> Iterator[None]:
    """Set the configuration for the code inside a ``with`` statement. What is not given stays as it is.

    Parameters
    ----------
    device, progress
        As in `set_config`.

    Notes
    -----
    As in scikit-learn, every thread has its own configuration and starts with the defaults. Searches with `n_jobs` pass
    the device on to their workers; use this function inside what other threads and processes call.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> with cv.config_context(progress=True):
    ...     model = cv.MvHE(n_components=10).fit(data.views, data.y)
    """
    before = _config.get()
    set_config(device=device, progress=progress)
    try:
        yield
    finally:
        _config.set(before)


def for_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the device of this thread, for other threads and processes, which show no progress."""
    return partial(_call, function, get_config()["device"])


def _call(function: Callable[..., Any], device: str | None, *args: Any) -> Any:
    with config_context(device=device, progress=False):
        return function(*args)


def _check_device(device: object) -> None:
    """Refuse a device that PyTorch does not know or cannot use."""
    if device is None:
        return
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={device!r} needs PyTorch: pip install 'crossview[torch]'.") from error
    try:
        # Some devices know no float64, and tensors on one have no values.
        found = torch.zeros(1, dtype=torch.float64, device=device)  # type: ignore[call-overload]
        found.cpu()
        if found.device.type not in ("cpu", "cuda"):
            raise RuntimeError("crossview runs on the CPU and on CUDA")
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"device must be a device that PyTorch can use, got {device!r}: {reason}.") from error
