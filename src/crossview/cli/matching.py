"""Commands that recognise samples with a saved model: `enroll`, `calibrate`, `match` and `export`."""

import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

import crossview as cv
from crossview._transformer import unwrap
from crossview.cli.app import (
    CaseOption,
    FolderOption,
    JsonOption,
    ModelArgument,
    UpdateOption,
    app,
    data_options,
    err,
)
from crossview.cli.files import check_suffix, csv_text, describe_gallery, jsonable, load_fitted, write_rows
from crossview.datasets import Dataset
from crossview.datasets._dataset import as_labels
from crossview.datasets.registry import SOURCES, open_probes
from crossview.persistence import write_atomically
from crossview.recognition.matcher import CrossViewClassifier, chosen_metric
from crossview.views import index_of_view

_MATCHES = 5

SamplesArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Samples of the view: an image; a folder of images, with or without folders of classes; a table; or any "
        "data with this view. Images are resized to the model's size.",
    ),
]
ViewOption = Annotated[str, typer.Option(help="The view that the samples are seen from.")]


@app.command()
def enroll(
    model: ModelArgument,
    data: SamplesArgument,
    view: ViewOption,
    replace: Annotated[bool, typer.Option("--replace", help="Empty the gallery first.")] = False,
    output: UpdateOption = None,
    folder: FolderOption = None,
    case: CaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add samples to the gallery of a model, in which `match` looks probes up.

    Samples keep their identities: the ids of tables, class/name of images, and otherwise running numbers. Classes need
    not be among those that the model was trained on; labels are optional.
    """
    matcher = _load_matcher(model, view)
    calibrated = getattr(matcher, "threshold_", None) is not None
    enrolled = _enroll(matcher, data, view, folder, case, replace)
    cv.save(matcher, output or model)
    facts = {"output": str(output or model), "enrolled": enrolled, **describe_gallery(matcher)}
    if as_json:
        print(json.dumps(facts))
        return
    hint = " The gallery has changed: run crossview calibrate again." if calibrated else ""
    total = f"{len(matcher.gallery_)} of {facts['classes']} classes"
    err.print(escape(f"{enrolled} samples enrolled, now {total}: {facts['output']}.{hint}"), soft_wrap=True)


@app.command()
def calibrate(
    model: ModelArgument,
    data: SamplesArgument,
    view: ViewOption,
    false_match_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of strangers that may be taken for someone in the gallery.")
    ] = 0.01,
    output: UpdateOption = None,
    folder: FolderOption = None,
    case: CaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the distance beyond which `match` calls a probe unknown.

    DATA are labelled samples that the model was not trained on, of enrolled classes or others.
    """
    matcher = _load_matcher(model, view)
    _check_gallery(matcher)
    loaded = open_samples(matcher, data, view, folder, case)
    known = loaded.y.astype(str) != ""
    X, y = loaded.views[known], comparable_labels(loaded.y[known], matcher)
    if not len(y):
        raise ValueError(f"{data} has no labels: calibrate with samples of known classes.")
    matcher.calibrate(X, y, view, false_match_rate).set_params(probe_view=view)
    cv.save(matcher, output or model)
    threshold, of_gallery = float(matcher.threshold_ or 0.0), np.isin(y, matcher.gallery_labels_)
    accepted = matcher.kneighbors(X, view, 1)[0][:, 0] <= threshold
    facts = {
        "output": str(output or model),
        "threshold": threshold,
        "temperature": matcher.temperature_,
        "false_match_rate": false_match_rate,
        "probes": len(y),
        "probes_of_gallery": int(of_gallery.sum()),
        "accepted": float(accepted[of_gallery].mean()) if of_gallery.any() else None,
    }
    if as_json:
        print(json.dumps(facts))
        return
    told = f"threshold {threshold:.6g} for a false match rate of {false_match_rate:.2%}, from {len(y)} probes"
    if of_gallery.any():
        told += f"; {facts['accepted']:.1%} of the {facts['probes_of_gallery']} probes of enrolled classes are accepted"
    err.print(escape(f"{told}: {facts['output']}"), soft_wrap=True)


@app.command()
def match(
    model: ModelArgument,
    probes: Annotated[str, typer.Argument(metavar="PROBES", help="Samples to look up, as DATA in `enroll`.")],
    view: ViewOption,
    gallery: Annotated[
        str | None, typer.Option(metavar="DATA", help="Samples to search instead of the model's gallery.")
    ] = None,
    gallery_view: Annotated[str | None, typer.Option(metavar="VIEW", help="The view of --gallery.")] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Matches per probe; by default 5.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file; by default, print CSV."),
    ] = None,
    folder: FolderOption = None,
    case: CaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look probes up in the gallery of a model.

    For every probe, the nearest samples of the gallery are listed. With a calibrated model, matches within the
    threshold are accepted, and others are unknown. Labels of probes are optional; where there are some, they are used
    to say how many probes were recognised.
    """
    if output is not None:
        check_suffix(output, (".csv", ".parquet"))
    if (gallery is None) != (gallery_view is None):
        raise ValueError("--gallery and --gallery-view belong together: pass both, or neither.")
    matcher = _load_matcher(model, view)
    if gallery is not None and gallery_view is not None:
        _enroll(matcher, gallery, gallery_view, folder, case, replace=True)
    _check_gallery(matcher)
    size = len(matcher.gallery_)
    if k is not None and k > size:
        raise ValueError(f"-k {k} is more than the {size} samples in the gallery: choose fewer.")
    loaded = open_samples(matcher, probes, view, folder, case)
    rows = _match_rows(matcher, loaded, view, min(k or _MATCHES, size))
    facts = _recognised(matcher, loaded, [row for row in rows if row["rank"] == 1])
    if output is not None:
        write_rows(rows, output)
    if as_json:
        plain = [{name: jsonable(value) for name, value in row.items()} for row in rows]
        print(json.dumps({**facts, **({"matches": plain} if output is None else {"output": str(output)})}))
        return
    if output is None:
        print(csv_text(rows), end="")
    err.print(escape(_told(facts)), soft_wrap=True)


@app.command()
def export(
    model: ModelArgument,
    view: Annotated[str, typer.Option(help="The view whose map is written.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="An .onnx file.")],
    gallery: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the gallery, too: an .npz file of plain arrays."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the map of one view as ONNX, and the gallery as arrays, for programs without crossview.

    The metadata of the ONNX file tell how images become numbers, which distance to take, and the threshold.
    """
    check_suffix(output, (".onnx",))
    fitted = load_fitted(model)
    if gallery is not None:
        check_suffix(gallery, (".npz",))
        _check_gallery(fitted)
    cv.export_onnx(fitted, view, output)
    if gallery is not None:
        write_atomically(gallery, _gallery_file(fitted))
    threshold = getattr(fitted, "threshold_", None)
    facts = {"output": str(output), "view": view, "gallery": None if gallery is None else str(gallery)}
    if as_json:
        print(json.dumps({**facts, "distance": chosen_metric(fitted), "threshold": threshold}))
        return
    told = f"view {view!r}: {output}"
    if gallery is not None:
        told += f"; gallery: {gallery}"
        told += "" if threshold is not None else ", not calibrated: run crossview calibrate first to reject strangers"
    err.print(escape(told), soft_wrap=True)


def _load_matcher(path: Path, view: str) -> CrossViewClassifier:
    """The matcher in a file; a new one around any other model."""
    fitted = load_fitted(path)
    names = unwrap(fitted)[0].view_names_
    index_of_view(view, names)
    if isinstance(fitted, CrossViewClassifier):
        return fitted
    other = next((name for name in names if name != view), view)
    return CrossViewClassifier(fitted, gallery_view=view, probe_view=other)


def _check_gallery(model: Any) -> None:
    if not hasattr(model, "gallery_"):
        raise ValueError("the gallery is empty: run crossview enroll first.")


def open_samples(matcher: Any, data: str, view: str, folder: Path | None, case: int | None) -> Dataset:
    """Samples of one view, with images in the size of the model's."""
    source, first = SOURCES.get(data), unwrap(matcher)[0]
    index_of_view(view, first.view_names_)
    if source is not None and source.folder is not None and folder is None:
        raise ValueError(f"{data} is not included: pass the folder that contains {source.folder}/ with --data.")
    return open_probes(data, view, image_shape=first.image_shape_, folder=folder, **data_options(data, case, None))


def _enroll(
    matcher: CrossViewClassifier, data: str, view: str, folder: Path | None, case: int | None, replace: bool
) -> int:
    """Enrol samples, and return their number."""
    loaded = open_samples(matcher, data, view, folder, case)
    held = not replace and hasattr(matcher, "gallery_")
    ids = None if loaded.ids is None or loaded.ids.dtype.kind != "U" else loaded.ids  # others are numbers of rows
    if held and ids is not None:
        taken = set(matcher.gallery_ids_[matcher.gallery_views_ == view].tolist())
        for name in ids.tolist():
            if name in taken:
                fix = "pass --replace to empty the gallery first, or leave it out"
                raise ValueError(f"{name!r} of view {view!r} is already in the gallery: {fix}.")
    y = comparable_labels(loaded.y, matcher) if held else loaded.y
    matcher.enroll(loaded.views, y, view, ids=ids, replace=replace)
    return len(y)


def comparable_labels(y: NDArray[Any], matcher: CrossViewClassifier) -> NDArray[Any]:
    """Labels of the kind of the gallery's: class folders that are all called by numbers have numbers for labels."""
    if matcher.gallery_labels_.dtype.kind == "U":
        return y.astype(str)
    if y.dtype.kind != "U":
        return y
    numbers = as_labels(y.tolist())
    if numbers.dtype.kind == "U":
        raise ValueError("the gallery's labels are numbers, but some of these are text or missing: use one kind.")
    return numbers


def _match_rows(matcher: CrossViewClassifier, probes: Dataset, view: str, k: int) -> list[dict[str, Any]]:
    """A row for each of the k nearest gallery samples of every probe."""
    distances, indices = matcher.kneighbors(probes.views, view, k)
    ids = np.arange(len(probes.y)) if probes.ids is None else probes.ids
    labels, gallery_labels = probes.y.astype(str), matcher.gallery_labels_
    rows = []
    for probe, (gaps, matches) in enumerate(zip(distances.tolist(), indices, strict=True)):
        for rank, (distance, g) in enumerate(zip(gaps, matches, strict=True), 1):
            row = {"probe": ids[probe], "probe_label": probes.y[probe], "rank": rank, "match": matcher.gallery_ids_[g]}
            row |= {"match_label": gallery_labels[g], "match_view": matcher.gallery_views_[g], "distance": distance}
            if matcher.threshold_ is not None:
                row["decision"] = "accepted" if distance <= matcher.threshold_ else "unknown"
            rows.append({name: jsonable(value) for name, value in row.items()})
    absent = [
        name for name, some in (("probe_label", labels), ("match_label", gallery_labels)) if not any(map(str, some))
    ]
    return [{name: value for name, value in row.items() if name not in absent} for row in rows]


def _recognised(matcher: CrossViewClassifier, probes: Dataset, first: list[dict[str, Any]]) -> dict[str, Any]:
    """How many probes the first matches recognise; those without a label do not count."""
    labels = probes.y.astype(str)
    there = np.isin(labels, matcher.gallery_labels_.astype(str)) & (labels != "")
    strangers = (labels != "") & ~there
    accepted = np.array([row.get("decision", "accepted") == "accepted" for row in first])
    right = accepted & [str(row.get("match_label", "")) == label for row, label in zip(first, labels, strict=True)]
    calibrated = matcher.threshold_ is not None
    return {
        "probes": len(labels),
        "threshold": matcher.threshold_,
        "of_gallery": int(there.sum()),
        "right": int(right[there].sum()),
        "rejected": int((~accepted & there).sum()) if calibrated else None,
        "strangers": int(strangers.sum()),
        "strangers_rejected": int((~accepted & strangers).sum()) if calibrated else None,
        "unlabelled": int((labels == "").sum()),
    }


def _told(facts: dict[str, Any]) -> str:
    """What `match` says in the end."""
    told = [f"{facts['probes']} probe{'' if facts['probes'] == 1 else 's'}"]
    if facts["of_gallery"]:
        told.append(f"first match right for {facts['right'] / facts['of_gallery']:.1%} of {facts['of_gallery']}")
        if facts["rejected"] is not None:
            told[-1] += f" ({facts['rejected']} rejected)"
    if facts["strangers"]:
        rejected = facts["strangers_rejected"]
        told.append(f"{facts['strangers']} of classes that are not in the gallery")
        told[-1] += "" if rejected is None else f", {rejected} of them rejected"
    if facts["unlabelled"] and facts["unlabelled"] < facts["probes"]:
        told.append(f"{facts['unlabelled']} without a label")
    return "; ".join(told)


def _gallery_file(matcher: CrossViewClassifier) -> bytes:
    """A gallery and what deciding takes as plain arrays; without calibration, the threshold accepts everything."""
    stream = io.BytesIO()
    np.savez(
        stream,
        latent=matcher.gallery_,
        label=matcher.gallery_labels_,
        id=matcher.gallery_ids_,
        view=matcher.gallery_views_,
        distance=np.array(chosen_metric(matcher)),
        threshold=np.array(np.inf if matcher.threshold_ is None else matcher.threshold_),
        temperature=np.array(np.nan if matcher.temperature_ is None else matcher.temperature_),
    )
    return stream.getvalue()
