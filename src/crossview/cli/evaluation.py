"""The command that measures how good a saved model is: `evaluate`."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

import crossview as cv
from crossview.cli import options as opt
from crossview.cli import reports
from crossview.cli.app import app, jsonable, print_json
from crossview.cli.data import DataOptions, load_fitted
from crossview.cli.matching import labels_like_gallery
from crossview.experiments.cells import fingerprint
from crossview.files import MALFORMED, check_target, write_atomically
from crossview.report.evaluation import evaluation_notes, evaluation_report, evaluation_summary, evaluation_tables
from crossview.report.tables import listed

_RECORD = "evaluation.json"


@app.command()
def evaluate(
    context: typer.Context,
    model: opt.Model,
    data: opt.Data,
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
        opt.Unit,
        typer.Option(help="What the bootstrap draws. By default classes if there are 20 or more, otherwise samples."),
    ] = opt.Unit.auto,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a report on another model or other data.")
    ] = False,
    static: opt.Static = True,
    size: opt.Size = None,
    pair_by: opt.PairBy = None,
    as_json: opt.Json = False,
) -> None:
    """Measure how good a saved model is on labelled test data, and write a report.

    Use data that the model was not trained on. Samples without a label are left out.
    """
    output = output or Path("crossview-evaluate") / reports.folder_name(model)
    reports.check_folder(output)
    fitted = load_fitted(model)
    how = DataOptions(size, pair_by)
    if view is None:
        loaded = how.open_for(fitted, data)
    else:
        if size or pair_by:
            raise ValueError("--view takes samples one by one, in the model's size: leave out --size and --pair-by.")
        if not hasattr(fitted, "gallery_"):
            raise ValueError("the model has no gallery: run crossview enroll first, or leave out --view.")
        loaded = how.open_view(fitted, data, view)
    subject = {
        "model": model.name,
        "model_sha256": sha256(model.read_bytes()).hexdigest(),
        "data": data,
        "data_sha256": fingerprint(loaded),
        "view": view,
    }
    if not overwrite and (what := _other_report(output, subject)):
        reports.confirm_replacing(output, what, as_json)
    options: dict[str, Any] = {
        "n_bootstrap": bootstrap,
        "confidence": confidence,
        "resample": resample.value,
        "random_state": seed,
    }
    if view is None:
        found = cv.evaluate(fitted, loaded.views, loaded.y, **options)
    else:
        found = cv.evaluate_probes(fitted, loaded.views[view], labels_like_gallery(loaded.y, fitted), view, **options)
    facts = {"model": f"{model.name}, SHA-256 {subject['model_sha256']}", "data": f"{data}: {loaded.views!r}"}
    report = evaluation_report(found, loaded, model.name, facts, reports.command_line(context))
    summary = evaluation_summary(found)
    result = jsonable({**subject, "report": str(output / "report.html"), "summary": summary, **found.to_dict()})
    write_atomically(reports.output_folder(output) / _RECORD, json.dumps(result, indent=1).encode())
    page = reports.write_page(report, output, static)  # last: what a killed command leaves is known for its own
    if as_json:
        print_json(result)
        return
    reports.print_results(evaluation_tables(found), [*evaluation_notes(found), summary], page)


def _other_report(folder: Path, subject: dict[str, Any]) -> str:
    """What the report in a folder is on, if there is one on something else."""
    if not reports.holds_report(folder, _RECORD):
        return ""
    try:
        earlier = json.loads(check_target(folder / _RECORD).read_text(encoding="utf-8"))
        changed = {name for name, value in subject.items() if earlier.get(name) != value}
    except (OSError, *MALFORMED):
        return "another report"
    found = []
    if "model_sha256" in changed:
        found.append("another model" if "model" in changed else "an earlier version of this model")
    if "data_sha256" in changed and ("data" in changed or "view" not in changed):  # a view alone has another digest
        found.append("other data" if "data" in changed else "an earlier version of these data")
    if "view" in changed:
        found.append("another view")
    return f"a report on {listed(found)}" if found else ""
