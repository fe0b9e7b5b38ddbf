"""Options and arguments that several commands take."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from joblib import cpu_count

from crossview.datasets.arrays import ARRAY_SUFFIXES
from crossview.datasets.images import IMAGE_SUFFIXES
from crossview.datasets.registry import SOURCES
from crossview.embeddings.methods import ALL_METHODS, method_name
from crossview.files import check_target

CORES = int(cpu_count())


def file_option(help_text: str, *suffixes: str, names: tuple[str, ...] = ("--output", "-o")) -> Any:
    """An option for a file to write, which is checked before any work is done."""

    def check(path: Path | None) -> Path | None:
        if path is not None and suffixes and path.suffix not in suffixes:
            raise ValueError(f"{path} must end in {', '.join(suffixes)}.")
        if path is not None:
            check_writable(check_target(path).resolve().parent)
        return path

    return typer.Option(*names, metavar="FILE", callback=check, help=help_text)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be created; permissions alone do not tell."""
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        fix = "choose another one, or make it writable"
        raise OSError(f"cannot write to folder {folder} ({error.strerror or error}): {fix}.") from error


def check_not_input(output: Path | None, *inputs: object) -> None:
    """Refuse to write over what is read: a file, or one of the data in a folder."""
    target = None if output is None or not output.exists() else output.resolve()
    for source in (Path(str(one)).resolve() for one in inputs if one is not None and str(one) not in SOURCES):
        is_data = target is not None and target.suffix.lower() in (*ARRAY_SUFFIXES, *IMAGE_SUFFIXES)
        if target == source or (target is not None and is_data and source in target.parents):
            raise ValueError(f"{output} is part of the input: choose another name for the output.")


def report_option(default: str) -> Any:
    """An option for the folder of a report."""
    return typer.Option(
        "--output", "-o", metavar="FOLDER", help=f"Folder for results and the report; by default {default}."
    )


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
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path, file_option("Where to write the model.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `crossview fit` or `tune`.")]
Static = Annotated[bool, typer.Option("--static/--no-static", help="Write figures as SVG, PNG and PDF, too.")]
