"""Commands that make and apply models: `datasets`, `fit`, `tune`, `embed`, `match` and `inspect`."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import crossview as cv
from crossview._transformer import transform_view, unwrap
from crossview._validation import spreadsheet_safe
from crossview.cli.app import (
    CaseOption,
    DataArgument,
    FolderOption,
    JsonOption,
    MethodOption,
    ModelArgument,
    OutputOption,
    PairByOption,
    SizeOption,
    Unit,
    app,
    err,
    open_data,
    out,
)
from crossview.datasets.registry import SOURCES
from crossview.distances import distances_in_chunks, nearest
from crossview.persistence import write_atomically
from crossview.recognition.matcher import chosen_metric

_Scaling = StrEnum("_Scaling", ["feature", "view", "none"])


@app.command()
def datasets(data: FolderOption = None, as_json: JsonOption = False) -> None:
    """List the data sets that can be loaded by name."""
    if data is not None and not data.is_dir():
        raise NotADirectoryError(f"{data} is not a folder: pass the one that contains coil-100/ and so on with --data.")
    rows, table = [], Table("name", "description", "read from", "available")
    for name, source in SOURCES.items():
        here = source.folder is None or (data is not None and (data / source.folder).is_dir())
        rows.append(
            {"name": name, "what": source.what, "folder": source.folder, "present": here, "cases": source.cases}
        )
        place = "–" if source.folder is None else f"DIR/{source.folder}"
        table.add_row(name, source.what, place, "yes" if here else "no")
    if as_json:
        print(json.dumps(rows))
        return
    out.print(table)
    if data is None:
        out.print("Pass DIR with --data. You can also load an .npz file, a folder of tables, or a folder of images.")


@app.command()
def fit(
    data: DataArgument,
    output: OutputOption,
    method: MethodOption = "KMvHE",
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the method.")
    ] = None,
    scaling: Annotated[_Scaling, typer.Option(help="Scale every feature, whole views, or nothing.")] = _Scaling.feature,
    pca: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many principal components of every view.")
    ] = None,
    folder: FolderOption = None,
    case: CaseOption = None,
    size: SizeOption = None,
    pair_by: PairByOption = None,
) -> None:
    """Fit a method with given parameters and save the model."""
    loaded = open_data(data, folder, case, size, pair_by=pair_by)
    model = cv.METHODS[method]().set_params(**_parameters(parameter or []))
    scaler = cv.ViewScaler(None if scaling == "none" else scaling.value)
    pipeline = make_pipeline(scaler, cv.ViewPCA(pca), model).fit(loaded.views, loaded.y)
    cv.save(pipeline, output)
    err.print(f"{method} fitted on {escape(f'{loaded.views!r}: {output}')}")


@app.command()
def tune(
    data: DataArgument,
    output: OutputOption,
    method: MethodOption = "KMvHE",
    draws: Annotated[int, typer.Option(min=0, help="Settings to try, drawn at random; 0 tries all.")] = 50,
    folds: Annotated[
        int, typer.Option(min=2, help="Number of folds; fewer if there are too few classes or samples.")
    ] = 5,
    folds_of: Annotated[
        Unit,
        typer.Option(
            help="What folds are made of: classes, to match classes that are not in DATA, or samples, to match further "
            "samples of the same classes. By default classes if there are at least four per fold.",
        ),
    ] = Unit.auto,
    members: Annotated[
        int, typer.Option(min=1, help="Size of the committee of best settings; 1 for the best setting alone.")
    ] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of folds and draws.")] = 0,
    folder: FolderOption = None,
    case: CaseOption = None,
    size: SizeOption = None,
    pair_by: PairByOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose a method's parameters by cross-validation and save the best model.

    If interrupted, run the same command again to resume: scores are kept in FILE.progress until the model is saved.
    """
    loaded = open_data(data, folder, case, size, pair_by=pair_by)
    scores = output.with_name(f"{output.name}.progress")
    try:
        search = cv.tune(
            method,
            loaded.views,
            loaded.y,
            n_iter=draws or None,
            n_folds=folds,
            cv=folds_of.value,
            members=members,
            n_jobs=workers,
            random_state=seed,
            progress=True,
            resume=scores,
        )
    except KeyboardInterrupt:
        kept = escape(str(scores))
        err.print(f"Stopped. Scores are kept in {kept}; run the same command again to resume.", soft_wrap=True)
        raise typer.Exit(130) from None
    cv.save(search.set_params(progress=False), output)
    scores.unlink(missing_ok=True)
    found = {
        "method": method,
        "score": search.best_score_,
        "folds_of": search.folds_of_,
        "metric": search.best_metric_,
        "parameters": search.best_params_,
        "members": [search.cv_results_["params"][row] for row in search.members_],
    }
    if as_json:
        print(json.dumps(found, default=float))
    else:
        chosen = ", ".join(f"{name}={value}" for name, value in search.best_params_.items())
        who = method if members == 1 else f"{method} × {len(search.members_)}"
        out.print(
            f"{who}: accuracy {search.best_score_:.1%} in cross-validation over {search.n_splits_} folds of "
            f"{search.folds_of_}, {search.best_metric_} distance. Best setting: {escape(chosen)}\n"
            f"saved as {escape(str(output))}"
        )


@app.command()
def embed(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="An .npz, .csv or .parquet file.")],
    folder: FolderOption = None,
    case: CaseOption = None,
    size: SizeOption = None,
    pair_by: PairByOption = None,
) -> None:
    """Map samples into the common space of a saved model. Labels are not needed."""
    _check_suffix(output, (".npz", ".csv", ".parquet"))
    fitted, loaded = cv.load(model), open_data(data, folder, case, size, labelled=False, pair_by=pair_by)
    latents = {name: transform_view(fitted, loaded.views[name], name) for name in loaded.view_names}
    if output.suffix == ".npz":
        stream = io.BytesIO()
        # In the format of `load_arrays`.
        arrays: dict[str, Any] = {**latents, "y": loaded.y if _labelled(loaded) else None, "id": loaded.ids}
        np.savez(stream, **{name: values for name, values in arrays.items() if values is not None})
        write_atomically(output, stream.getvalue())
    else:
        described = _described(loaded, "id", "label")
        rows = [
            {"view": name, **described[k], **{f"z{c + 1}": value for c, value in enumerate(z)}}
            for name, Z in latents.items()
            for k, z in enumerate(Z)
            if not np.isnan(z).any()
        ]
        _write_rows(rows, output)
    err.print(f"{len(loaded.y)} samples, seen as {escape(', '.join(latents) + f': {output}')}")


@app.command()
def match(
    model: ModelArgument,
    gallery: Annotated[str, typer.Argument(metavar="GALLERY", help="Data to search.")],
    probes: Annotated[str, typer.Argument(metavar="PROBES", help="Data to look up; may be the same.")],
    gallery_view: Annotated[str, typer.Option(help="The view of the gallery.")],
    probe_view: Annotated[str, typer.Option(help="The view of the probes.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file; by default, print CSV."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Matches per probe.")] = 5,
    folder: FolderOption = None,
    case: CaseOption = None,
    size: SizeOption = None,
) -> None:
    """Rank the samples of a gallery, seen from one view, for probes seen from another.

    Samples are identified by the ids of tables, by class/name of images, and otherwise by their row, starting at 0.
    Labels are optional.
    """
    if output is not None:
        _check_suffix(output, (".csv", ".parquet"))
    fitted = cv.load(model)
    known, new = (open_data(data, folder, case, size, labelled=False) for data in (gallery, probes))
    known_rows, G = _seen(fitted, known, gallery_view)
    new_rows, P = _seen(fitted, new, probe_view)
    if k > len(G):
        raise ValueError(f"-k {k} is more than the {len(G)} samples in the gallery: choose fewer.")
    names, found = _described(new, "probe", "probe_label"), _described(known, "match", "match_label")
    distances, columns = nearest(distances_in_chunks(G, P, chosen_metric(fitted)), k)
    rows = [
        {**names[probe], "rank": rank + 1, **found[known_rows[g]], "distance": float(distances[row, rank])}
        for row, probe in enumerate(new_rows)
        for rank, g in enumerate(columns[row])
    ]
    if output is None:
        print(_csv(rows), end="")
    else:
        _write_rows(rows, output)
    first = [row for row in rows if row["rank"] == 1]
    labels = [(str(row.get("probe_label", "")), str(row.get("match_label", ""))) for row in first]
    right = [probe == found for probe, found in labels if probe and found]
    sentence = f", first match of the probe's class: {np.mean(right):.1%}" if right else ""
    err.print(f"{len(first)} probes{sentence}")


@app.command()
def inspect(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Describe a saved model."""
    loaded = cv.load(model)
    try:
        best = unwrap(loaded)
        for step in best:
            check_is_fitted(step)
    except NotFittedError:
        what = f"{model} holds a {type(loaded).__name__} that is not fitted"
        raise ValueError(f"{what}: fit it, then save it again.") from None
    steps = unwrap(best[-1].members_[0]) if isinstance(best[-1], cv.Committee) else best
    search = getattr(loaded, "embedding_", loaded)
    facts: dict[str, Any] = {
        "model": type(loaded).__name__,
        "steps": [type(step).__name__ for step in steps],
        "views": dict(zip(best[0].view_names_, best[0].n_features_, strict=True)),
        "components": getattr(best[-1], "n_components_", None),
        "parameters": {name: _jsonable(value) for name, value in steps[-1].get_params().items()},
    }
    if isinstance(best[-1], cv.Committee):
        facts["members"] = len(best[-1].members_)
    if isinstance(search, cv.EmbeddingSearchCV):
        facts |= {"metric": search.best_metric_, "folds_of": search.folds_of_}
        facts[search.scoring] = round(float(search.best_score_), 4)
    if isinstance(loaded, cv.CrossViewClassifier):
        facts |= {"gallery": len(getattr(loaded, "gallery_", ())), "threshold": _jsonable(loaded.threshold_)}
    if as_json:
        print(json.dumps(facts))
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, escape(_sentence(value)))
    out.print(table)


def _parameters(given: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE, where the value is JSON or, failing that, text."""
    parameters = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--parameter must be NAME=VALUE, got {item!r}.")
        try:
            parameters[name] = json.loads(value)
        except json.JSONDecodeError:
            parameters[name] = {"None": None, "True": True, "False": False}.get(value, value)
    return parameters


def _labelled(data: cv.datasets.Dataset) -> bool:
    """Whether any sample has a label; it is empty where unknown."""
    return any(map(str, data.y.tolist()))


def _described(data: cv.datasets.Dataset, identity: str, label: str) -> list[dict[str, Any]]:
    """The id of every sample, or its row, and its label if any has one, by the given names."""
    columns = {identity: list(range(len(data.y))) if data.ids is None else data.ids.tolist()}
    if _labelled(data):
        columns[label] = data.y.tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _seen(model: Any, data: cv.datasets.Dataset, view: str) -> tuple[Any, Any]:
    """Rows that a view has seen, and their latent samples."""
    if view not in data.view_names:
        raise ValueError(f"unknown view {view!r}: the data have {', '.join(map(repr, data.view_names))}.")
    latents = transform_view(model, data.views[view], view)
    rows = np.flatnonzero(~np.isnan(latents).any(axis=1))
    return rows, latents[rows]


def _check_suffix(path: Path, allowed: Sequence[str]) -> None:
    if path.suffix not in allowed:
        raise ValueError(f"{path} must end in {', '.join(allowed)}.")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_safe(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def _write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    if path.suffix == ".csv":
        write_atomically(path, _csv(rows).encode())
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("writing parquet needs pyarrow: pip install 'crossview[parquet]'.") from error
    columns = {name: [_jsonable(row[name]) for row in rows] for name in rows[0]}
    stream = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    write_atomically(path, stream.getvalue().to_pybytes())


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else repr(value)


def _sentence(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return " → ".join(map(str, value)) if isinstance(value, list) else str(value)
