"""The application, its consoles, errors in one line, and the options that several commands take."""

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from errno import ENOSPC
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from joblib import cpu_count
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import crossview as cv
from crossview._progress import CONTROL
from crossview._store import check_target
from crossview.cli.data import check_writable
from crossview.embeddings import ALL_METHODS, method_name

_ORDER = [
    "datasets",
    "compare",
    "tune",
    "fit",
    "evaluate",
    "enroll",
    "calibrate",
    "match",
    "embed",
    "export",
    "inspect",
]


def printable(text: str) -> str:
    """Text without control characters."""
    return text.translate(CONTROL)


class _Console(Console):
    """A console that shows control characters instead of sending them to the terminal."""

    def render_str(self, text: str, **options: Any) -> Any:
        return super().render_str(printable(text), **options)

    def tell(self, text: str) -> None:
        """Print text as it is, in lines of any length."""
        self.print(text, markup=False, soft_wrap=True)


out, err = _Console(highlight=False), _Console(stderr=True, highlight=False)


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


def warn(text: str) -> None:
    """Print a warning in one line."""
    err.print(f"[bold yellow]warning:[/] {escape(' '.join(text.split()))}", soft_wrap=True)


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of their use."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def invoke(self, ctx: Any) -> None:
        with told_in_lines():
            super().invoke(ctx)


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


def print_facts(facts: Any, text: str, as_json: bool, console: _Console = err) -> None:
    """Print what a command has done: as one JSON document, or in words, which do not mix with what it writes."""
    if as_json:
        print(json.dumps(jsonable(facts)))
    else:
        console.tell(text)


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


def file_option(help_text: str, *suffixes: str, names: tuple[str, ...] = ("--output", "-o")) -> Any:
    """An option for a file to write, which is checked before any work is done."""

    def check(path: Path | None) -> Path | None:
        if path is not None and suffixes and path.suffix not in suffixes:
            raise ValueError(f"{path} must end in {', '.join(suffixes)}.")
        if path is not None:
            check_writable(check_target(path).resolve().parent)
        return path

    return typer.Option(*names, metavar="FILE", callback=check, help=help_text)


def report_option(default: str) -> Any:
    """An option for the folder of a report."""
    return typer.Option("--output", "-o", metavar="FOLDER", help=f"Folder for the report; by default {default}.")


def method_names(given: str | None, option: str, default: Iterable[str] = ()) -> list[str]:
    """Names of methods separated by commas, however they are written."""
    chosen = list(default) if given is None else dict.fromkeys(map(method_name, parts(given)))
    if not chosen:
        raise ValueError(f"{option} is empty: use one or more of {', '.join(ALL_METHODS)}.")
    return list(chosen)


def numbers(given: str, option: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(map(int, given.split(",")))
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {given!r}.") from None


def parts(given: str) -> list[str]:
    """What commas separate."""
    return [part.strip() for part in given.split(",") if part.strip()]


CORES = int(cpu_count())
Unit = StrEnum("Unit", ["auto", "classes", "samples"])
ScoringName = StrEnum(
    "ScoringName", ["accuracy", "one_shot_accuracy", "average_precision", "accuracy_with_counterparts"]
)
Scoring = Annotated[
    ScoringName,
    typer.Option(
        help="Score used to choose parameters: accuracy, without the probe's own counterpart in the gallery; accuracy "
        "with one enrolled sample per class; mean average precision; or the paper's accuracy, with the counterpart."
    ),
]
Method = Annotated[str, typer.Option("--method", callback=method_name, help=f"{', '.join(ALL_METHODS)}.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data set's name (see `crossview datasets`); an .npz or .mat file with a matrix per view and the labels "
        "as y; a folder of tables (.csv, .parquet), one per view, with columns id and label; a folder of .npy files, "
        "one per view and y.npy; or a folder of images, view/class/sample.png.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(metavar="HEIGHTxWIDTH", help="Resize the images of a folder, for example to 64x48; 48 means 48x48."),
]
PairBy = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Pair files of a class, or ids of tables, whose names differ: those in which this regular expression "
        r"finds the same text in its parentheses, for example '(\d+)$' for the number at the end.",
    ),
]
Members = Annotated[int, typer.Option(min=1, help="Size of the committees of best settings; 1 for no committees.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Processes, each with one thread; 1 starts no others.")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Compute on the Dask cluster with this scheduler instead.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Retry what failed before.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output, also a report on other data, or a model's gallery.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path, file_option("Where to write the model.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `crossview fit` or `tune`.")]
Static = Annotated[bool, typer.Option("--static/--no-static", help="Write figures as SVG, PNG and PDF, too.")]
