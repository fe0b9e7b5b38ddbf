"""Commands that make and apply models: `datasets`, `fit`, `tune`, `embed` and `inspect`."""

import io
import json
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview._schema import OF_SESSION
from crossview._store import delete_store, write_atomically
from crossview._text import counted, settings_text
from crossview._transformer import map_view, unwrap
from crossview.cli import common
from crossview.cli.data import check_not_input, csv_text, describe_data, load_fitted, locked, open_for, open_labelled
from crossview.cli.matching import describe_gallery
from crossview.datasets.registry import SOURCES
from crossview.embeddings import ALL_METHODS
from crossview.files import ModelFileError
from crossview.matching.calibration import chosen_metric

_Scaling = StrEnum("_Scaling", ["feature", "view", "none"])


@common.app.command()
def datasets(as_json: common.Json = False) -> None:
    """List the data sets that can be loaded by name."""
    lines = [f"{name}: {source.what}" for name, source in SOURCES.items()]
    lines += ["You can also load an .npz or .mat file, or a folder of tables, .npy files or images."]
    found = [{"name": name, "what": source.what} for name, source in SOURCES.items()]
    common.print_facts(found, "\n".join(lines), as_json, common.out)


@common.app.command()
def fit(
    data: common.Data,
    output: common.Output,
    method: common.Method = "KMvHE",
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the method.")
    ] = None,
    scaling: Annotated[_Scaling, typer.Option(help="Scale every feature, whole views, or nothing.")] = _Scaling.feature,
    pca: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many principal components of every view.")
    ] = None,
    size: common.Size = None,
    pair_by: common.PairBy = None,
    overwrite: common.Overwrite = False,
    as_json: common.Json = False,
) -> None:
    """Fit a method with given parameters and save the model."""
    model = ALL_METHODS[method]().set_params(**_parameters(parameter or []))
    _check_replaceable(output, data, overwrite)
    loaded = open_labelled(data, size, pair_by, least_classes=1)
    common.err.tell(describe_data(loaded))
    scaler = cv.ViewScaler(None if scaling == "none" else scaling.value)
    reducer = [] if pca is None and method == "RawFeatures" else [cv.ViewPCA(pca)]
    pipeline = make_pipeline(scaler, *reducer, model).fit(loaded.views, loaded.y)
    with locked(output):
        cv.save(pipeline, output)
    facts = {**_describe(pipeline), "output": str(output), "samples": len(loaded.views)}
    common.print_facts(facts, f"{method} fitted on {counted(len(loaded.views), 'sample')}: {output}", as_json)


@common.app.command()
def tune(
    data: common.Data,
    output: common.Output,
    method: common.Method = "KMvHE",
    n_iter: Annotated[int, typer.Option(min=0, help="Settings to try, drawn at random; 0 tries all.")] = 50,
    n_folds: Annotated[
        int, typer.Option(min=2, help="Number of folds; fewer if there are too few classes or samples.")
    ] = 3,
    folds_of: Annotated[
        common.Unit,
        typer.Option(
            "--cv",
            help="What folds are made of: classes, to match classes that are not in DATA, or samples, to match further "
            "samples of the same classes. By default classes if there are at least four per fold.",
        ),
    ] = common.Unit.auto,
    n_members: Annotated[
        int, typer.Option(min=1, help="Size of the committee of best settings; 1 for the best setting alone.")
    ] = 1,
    scoring: common.Scoring = common.ScoringName.accuracy,
    n_jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of folds and draws.")] = 0,
    size: common.Size = None,
    pair_by: common.PairBy = None,
    overwrite: common.Overwrite = False,
    as_json: common.Json = False,
) -> None:
    """Choose a method's parameters by cross-validation and save the best model.

    If interrupted, run the same command again to resume: scores are kept in FILE.progress until the model is saved.
    """
    _check_replaceable(output, data, overwrite)
    loaded = open_labelled(data, size, pair_by)
    common.err.tell(describe_data(loaded))
    scores = output.with_name(f"{output.name}.progress")
    try:
        search = cv.tune(
            method,
            loaded.views,
            loaded.y,
            n_iter=n_iter or None,
            n_folds=n_folds,
            cv=folds_of.value,
            n_members=n_members,
            scoring=scoring.value,
            n_jobs=n_jobs,
            random_state=seed,
            resume=scores,
        )
    except KeyboardInterrupt:
        common.err.tell(f"Stopped. Scores are kept in {scores}; run the same command again to resume.")
        raise typer.Exit(130) from None
    except ValueError as error:
        raise ValueError(re.sub(r"cv='(\w+)'", r"--cv \1", str(error))) from error
    with locked(output):
        cv.save(search, output)
    delete_store(scores)
    facts = {
        "method": method,
        "score": search.best_score_,
        "folds_of": search.folds_of_,
        "metric": search.best_metric_,
        "parameters": search.best_params_,
        "extended": search.extended_,
        "members": [search.cv_results_["params"][row] for row in search.members_],
    }
    who = method if len(search.members_) == 1 else f"{method} × {len(search.members_)}"
    score = f"{scoring.value.replace('_', ' ')} {search.best_score_:.1%} in cross-validation"
    beyond = f"\nBeyond the values listed: {settings_text(search.extended_)}" if search.extended_ else ""
    told = (
        f"{who}: {score} over {search.n_splits_} folds of {search.folds_of_}, {search.best_metric_} distance. "
        f"Best setting: {settings_text(search.best_params_)}{beyond}\nsaved as {output}"
    )
    common.print_facts(facts, told, as_json)


@common.app.command()
def embed(
    model: common.Model,
    data: common.Data,
    output: Annotated[Path, common.file_option("An .npz or .csv file.", ".npz", ".csv")],
    size: common.Size = None,
    pair_by: common.PairBy = None,
    as_json: common.Json = False,
) -> None:
    """Map samples into the common space of a saved model. Labels are not needed."""
    check_not_input(output, model, data)
    fitted = load_fitted(model)
    loaded = open_for(fitted, data, size, pair_by)
    first = unwrap(fitted)[0]
    latents = {name: map_view(fitted, first._take(loaded.views, name), name) for name in loaded.view_names}
    labels = loaded.y if any(map(str, loaded.y)) else None  # they are empty where unknown
    if output.suffix == ".npz":
        stream = io.BytesIO()
        # In the format of `load_arrays`.
        arrays: dict[str, Any] = {**latents, "y": labels, "id": loaded.ids}
        np.savez(stream, **{name: values for name, values in arrays.items() if values is not None})
        write_atomically(output, stream.getvalue())
    else:
        ids = range(len(loaded.y)) if loaded.ids is None else loaded.ids.tolist()
        rows = [
            {"view": name, "id": ids[k]}
            | ({} if labels is None else {"label": labels[k].item()})
            | {f"z{c + 1}": value for c, value in enumerate(Z[k].tolist())}
            for name, Z in latents.items()
            for k in np.flatnonzero(~np.isnan(Z).any(axis=1))
        ]
        write_atomically(output, csv_text(rows).encode())
    components = next(iter(latents.values())).shape[1]
    facts = {"output": str(output), "samples": len(loaded.y), "views": list(latents), "components": components}
    common.print_facts(facts, f"{counted(len(loaded.y), 'sample')}, seen as {', '.join(latents)}: {output}", as_json)


@common.app.command()
def inspect(model: common.Model, as_json: common.Json = False) -> None:
    """Describe a saved model."""
    facts = _describe(load_fitted(model))
    steps = [(step["name"], step["parameters"]) for step in facts["steps"]]
    rows = [(name.replace("_", " "), value) for name, value in facts.items() if name != "steps" and value is not None]
    text = "\n".join(f"{name}: {_sentence(value)}" for name, value in [*rows, *steps])
    common.print_facts(facts, text, as_json, common.out)


def _check_replaceable(path: Path, data: str, overwrite: bool) -> None:
    """Refuse to lose the data, and a gallery."""
    check_not_input(path, data)
    if overwrite or not path.exists():
        return
    try:
        size = len(getattr(cv.load(path), "gallery_", ()))
    except ModelFileError:  # nothing that could be used any more
        return
    if size:
        fix = "choose another --output, or pass --overwrite to replace the model"
        raise ValueError(f"{path} holds a gallery of {counted(size, 'sample')}: {fix}.")


def _describe(model: Any) -> dict[str, Any]:
    """Facts about a fitted model."""
    transformers = unwrap(model)
    first, last = transformers[0], transformers[-1]
    committee = isinstance(last, cv.Committee)
    facts: dict[str, Any] = {
        "model": type(model).__name__,
        "steps": [
            {
                "name": type(step).__name__,
                "parameters": {name: one for name, one in step.get_params().items() if name not in OF_SESSION},
            }
            for step in (unwrap(last.members_[0]) if committee else transformers)
        ],
        "views": dict(zip(first.view_names_, first.n_features_, strict=True)),
        "image_shape": first.image_shape_,
        "components": getattr(last, "n_components_", None),
        "distance": chosen_metric(model),
        "members": len(last.members_) if committee else None,
    }
    search = getattr(model, "embedding_", model)
    if isinstance(search, cv.EmbeddingSearchCV):
        score = round(float(search.best_score_), 4)
        facts |= {"folds_of": search.folds_of_, "scoring": search.scoring, "score_in_cross_validation": score}
    if isinstance(model, cv.CrossViewClassifier):
        facts |= describe_gallery(model)
    return facts


def _parameters(given: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE, where the value is JSON or, failing that, text."""
    parameters = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--parameter must be NAME=VALUE, got {item!r}.")
        try:
            parameters[name] = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            parameters[name] = {"None": None, "True": True, "False": False, "inf": np.inf}.get(value, value)
    return parameters


def _sentence(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items()) or "empty"
    return " × ".join(map(str, value)) if isinstance(value, tuple) else str(value)
