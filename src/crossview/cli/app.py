"""The application, its consoles, shared options, and errors in one line."""

import json
import math
import warnings
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import crossview as cv
from crossview.embeddings.methods import method_name

out, err = Console(highlight=False), Console(stderr=True, highlight=False)

_ORDER = ["datasets", "compare", "tune", "fit", "evaluate", "enroll", "calibrate", "match"]
_ORDER += ["embed", "export", "inspect", "reproduce"]


class _Commands(TyperGroup):
    """Reports warnings, and errors that a user can fix, in one line; the exit status of errors is 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of their use."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except BrokenPipeError:  # typer ends quietly when a reader of the output has seen enough
            raise
        except (ValueError, TypeError, OSError, ImportError, KeyError) as error:
            text = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())
            err.print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)
            raise typer.Exit(1) from error


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"[bold yellow]warning:[/] {escape(' '.join(str(message).split()))}", soft_wrap=True)


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


def file_option(help_text: str, *suffixes: str, names: tuple[str, ...] = ("--output", "-o")) -> Any:
    """An option for a file to write, which is checked before any work is done."""

    def check(path: Path | None) -> Path | None:
        if path is not None and suffixes and path.suffix not in suffixes:
            raise ValueError(f"{path} must end in {', '.join(suffixes)}.")
        if path is not None and not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"output folder {path.parent} does not exist: create it first.")
        if path is not None and path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: add the name of a file.")
        return path

    return typer.Option(*names, metavar="FILE", callback=check, help=help_text)


Unit = StrEnum("Unit", ["auto", "classes", "samples"])
MethodOption = Annotated[str, typer.Option("--method", callback=method_name, help=f"{', '.join(cv.METHODS)}.")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data set's name (see `crossview datasets`); an .npz or .mat file with a matrix per view and the labels "
        "as y; a folder of tables (.csv, .parquet), one per view, with columns id and label; a folder of .npy files, "
        "one per view and y.npy; or a folder of images, view/class/sample.png.",
    ),
]
FolderOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder that contains coil-100/, cmu-pie/ and so on.")
]
SizeOption = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Resize the images of a folder, for example to 48x48.")
]
PairByOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Pair files of a class, or ids of tables, whose names differ: those in which this regular expression "
        r"finds the same text in its parentheses, for example '(\d+)$' for the number at the end.",
    ),
]
CaseOption = Annotated[int | None, typer.Option(help="The paper's case, for coil100 and cmu-pie.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputOption = Annotated[Path, file_option("Where to write the model.")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `crossview fit` or `tune`.")]


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


def tell(facts: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print what a command has done: as JSON, or in a sentence that does not mix with what it writes to stdout."""
    if as_json:
        print_json(facts)
    else:
        err.print(text, markup=False, soft_wrap=True)


def jsonable(value: Any) -> Any:
    """A value for JSON, which has no NaN; the text of what it lacks otherwise."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): jsonable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else repr(value)
