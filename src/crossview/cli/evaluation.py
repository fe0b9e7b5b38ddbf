"""The command that measures how good a saved model is: `evaluate`."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

import crossview as cv
from crossview.cli.app import (
    CaseOption,
    DataArgument,
    FolderOption,
    JsonOption,
    ModelArgument,
    PairByOption,
    SizeOption,
    Unit,
    app,
    open_data,
    out,
)
from crossview.cli.experiments import StaticOption, command_line, output_folder, write_page
from crossview.cli.files import load_fitted, model_size
from crossview.cli.matching import comparable_labels, open_samples
from crossview.persistence import write_atomically
from crossview.report import ResultTable
from crossview.report.evaluation import evaluation_report, evaluation_summary, evaluation_tables
from crossview.report.formatting import measured

_RECORD = "evaluation.json"


@app.command()
def evaluate(
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW",
            help="Look up the samples of this view in the model's own gallery. By default, every view of DATA is "
            "looked up in every other.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder for the report; by default crossview-evaluate/MODEL."
        ),
    ] = None,
    bootstrap: Annotated[int, typer.Option(min=100, help="Draws for the confidence intervals.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    resample: Annotated[
        Unit,
        typer.Option(help="What the bootstrap draws. By default classes if there are 20 or more, otherwise samples."),
    ] = Unit.auto,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a report on another model or other data.")
    ] = False,
    static: StaticOption = True,
    folder: FolderOption = None,
    case: CaseOption = None,
    size: SizeOption = None,
    pair_by: PairByOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how good a saved model is on labelled test data, and write a report.

    Use data that the model was not trained on. Samples without a label are left out.
    """
    fitted = load_fitted(model)
    if view is None:
        loaded = open_data(data, folder, case, size or model_size(fitted, data), labelled=False, pair_by=pair_by)
    else:
        if size or pair_by:
            raise ValueError("--view takes samples one by one, in the model's size: leave out --size and --pair-by.")
        if not hasattr(fitted, "gallery_"):
            raise ValueError("the model has no gallery: run crossview enroll first, or leave out --view.")
        loaded = open_samples(fitted, data, view, folder, case)
    output = output or Path("crossview-evaluate") / model.stem
    subject = {
        "model": model.name,
        "model_sha256": sha256(model.read_bytes()).hexdigest(),
        "data": data,
        "data_sha256": _digest(loaded),
        "view": view,
    }
    _check_free(output, subject, overwrite)
    options: dict[str, Any] = {
        "n_bootstrap": bootstrap,
        "confidence": confidence,
        "resample": resample.value,
        "random_state": seed,
        "progress": True,
    }
    if view is None:
        found = cv.evaluate(fitted, loaded.views, loaded.y, **options)
    else:
        found = cv.evaluate_probes(fitted, loaded.views[view], comparable_labels(loaded.y, fitted), view, **options)
    facts = {"model": f"{model.name}, SHA-256 {subject['model_sha256']}", "data": f"{data}: {loaded.views!r}"}
    report = evaluation_report(found, loaded, model.name, facts, command_line(context))
    page = write_page(report, output_folder(output), static)
    result = {**subject, "report": str(page), "summary": evaluation_summary(found), **found.to_dict()}
    write_atomically(output / _RECORD, json.dumps(result, indent=1).encode())
    if as_json:
        print(json.dumps(result))
        return
    tables = evaluation_tables(found)
    for table in tables:
        out.print(_console_table(table))
    for note in dict.fromkeys(entry.note for table in tables for entry in table.entries if entry.note):
        out.print(escape(note), soft_wrap=True)
    out.print(escape(evaluation_summary(found)), soft_wrap=True)
    out.print(f"report: {page}", markup=False, soft_wrap=True)


def _digest(data: cv.datasets.Dataset) -> str:
    """A digest of the samples and labels."""
    found = sha256(repr((data.view_names, data.views.n_features)).encode())
    for array in data.views.arrays:
        found.update(np.ascontiguousarray(array).data)
    found.update("\n".join(map(str, data.y.tolist())).encode())
    return found.hexdigest()


def _check_free(folder: Path, subject: dict[str, Any], overwrite: bool) -> None:
    """Refuse a folder with a report on something else."""
    if overwrite or not (folder / "report.html").exists():
        return
    try:
        earlier = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        changed = [name for name, value in subject.items() if earlier.get(name) != value]
    except (OSError, ValueError, AttributeError):
        what = "another report"
    else:
        if not changed:
            return
        parts = {"model": "another model", "data": "other data", "view": "another view"}
        kinds = dict.fromkeys(parts[name.removesuffix("_sha256")] for name in changed)
        what = f"a report on {' and '.join(kinds)}"
    raise ValueError(f"{folder} holds {what}: choose another --output, or pass --overwrite to replace it.")


def _console_table(table: ResultTable) -> Table:
    shown = Table(title=escape(f"{table.title}, {table.unit}"), box=SIMPLE)
    shown.add_column(table.row_head)
    for column in table.columns:
        shown.add_column(escape(column), justify="right")
    for row, entries in table.rows.items():
        shown.add_row(escape(row), *(escape(measured(entry, table.digits)) for entry in entries))
    return shown
