"""The application, its consoles, and errors in one line."""

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import ENOSPC
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import crossview as cv
from crossview._progress import CONTROL


def printable(text: str) -> str:
    """Text without control characters."""
    return text.translate(CONTROL)


class _Console(Console):
    """A console that shows control characters instead of sending them to the terminal."""

    def render_str(self, text: str, **options: Any) -> Any:
        return super().render_str(printable(text), **options)


out, err = _Console(highlight=False), _Console(stderr=True, highlight=False)

_ORDER = ["datasets", "compare", "tune", "fit", "evaluate", "enroll", "calibrate", "match"]
_ORDER += ["embed", "export", "inspect"]


@contextmanager
def told_in_lines() -> Iterator[None]:
    """Report progress, warnings, and errors that a user can fix, each in a line; the exit status of errors is 1."""
    try:
        with warnings.catch_warnings(), cv.config_context(progress=True):
            warnings.showwarning = lambda message, *_, **__: warn(str(message))
            yield
            out.file.flush()
    except BrokenPipeError:  # typer ends quietly when a reader of the output has seen enough
        raise
    except (ValueError, TypeError, OSError, ImportError, KeyError) as error:
        text = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())
        if isinstance(error, OSError) and error.errno == ENOSPC:
            text = f"cannot write {error.filename or 'the output'} ({error.strerror}): free some space."
        err.print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)
        raise typer.Exit(1) from error


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of their use."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def invoke(self, ctx: Any) -> None:
        with told_in_lines():
            super().invoke(ctx)


def warn(text: str) -> None:
    """Print a warning in one line."""
    err.print(f"[bold yellow]warning:[/] {escape(' '.join(text.split()))}", soft_wrap=True)


app = typer.Typer(
    cls=_Commands,
    help="Match across views: the gallery was recorded by one sensor, pose or modality, the probe by another.\n\n"
    "With training and test data: `compare` methods, `tune` the best and `evaluate` it. Then `enroll` a gallery, "
    "`calibrate` when to reject strangers, and `match` probes.",
    invoke_without_command=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # in which lines of a paragraph flow
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(cv.__version__)
        raise typer.Exit


def print_json(facts: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(jsonable(facts)))


def print_facts(facts: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print what a command has done: as JSON, or in a sentence that does not mix with what it writes to stdout."""
    if as_json:
        print_json(facts)
    else:
        err.print(text, markup=False, soft_wrap=True)


def jsonable(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity; the text of what it lacks otherwise."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): jsonable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else "inf" if value > 0 else None
    return value if value is None or isinstance(value, int | str) else repr(value)
