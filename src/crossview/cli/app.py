"""The application, its consoles, shared options, and errors in one line."""

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import crossview as cv
from crossview.datasets.registry import SOURCES, loader_options, open_dataset
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


def _check_output(path: Path | None) -> Path | None:
    """Refuse an output file that cannot be written, before any work is done."""
    if path is not None and not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"output folder {path.parent} does not exist: create it first.")
    return path


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
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", callback=_check_output, help="Where to write the model.")
]
UpdateOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", callback=_check_output, help="Where to write the model; by default MODEL."
    ),
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `crossview fit` or `tune`.")]


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(cv.__version__)
        raise typer.Exit


def data_options(data: str, case: int | None, size: str | None, pair_by: str | None = None) -> dict[str, Any]:
    """Options for the loader of a command's data."""
    source, accepted = SOURCES.get(data), loader_options(data)
    options: dict[str, Any] = {}
    if case is not None:
        if source is None or not source.cases:
            raise ValueError(f"{data} has no cases: leave out --case.")
        options["case"] = case
    if size is not None:
        if "size" not in accepted:
            raise ValueError(f"{data} is not a folder of images: leave out --size.")
        sides = size.lower().split("x")
        if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
            raise ValueError(f"--size must be HEIGHTxWIDTH, for example 48x48, got {size!r}.")
        options["size"] = [int(sides[0]), int(sides[-1])]
    if pair_by is not None:
        if "pair_by" not in accepted:
            raise ValueError(f"the samples of {data} are paired already: leave out --pair-by.")
        options["pair_by"] = pair_by
    return options


def open_data(
    data: str,
    folder: Path | None,
    case: int | None = None,
    size: str | None = None,
    labelled: bool = True,
    pair_by: str | None = None,
) -> cv.datasets.Dataset:
    """Load a command's data; training data must have labels."""
    source = SOURCES.get(data)
    if source is not None and source.folder is not None and folder is None:
        raise ValueError(f"{data} is not included: pass the folder that contains {source.folder}/ with --data.")
    return open_dataset(data, folder, labelled=labelled, **data_options(data, case, size, pair_by))
