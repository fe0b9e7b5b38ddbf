"""Commands that recognise samples with a saved model: `enroll`, `calibrate`, `match` and `export`."""

import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import crossview as cv
from crossview._store import write_atomically
from crossview._text import counted
from crossview._transformer import unwrap
from crossview._types import Array
from crossview.cli import common
from crossview.cli.data import (
    check_not_input,
    csv_text,
    labels_like_gallery,
    load_fitted,
    locked,
    open_all,
    open_view,
)
from crossview.datasets import Dataset
from crossview.matching.calibration import chosen_metric
from crossview.matching.classifier import CrossViewClassifier
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
UpdateOption = Annotated[Path | None, common.file_option("Where to write the model; by default MODEL.")]


@common.app.command()
def enroll(
    model: common.Model,
    data: SamplesArgument,
    view: ViewOption,
    replace: Annotated[bool, typer.Option("--replace", help="Empty the gallery first.")] = False,
    output: UpdateOption = None,
    as_json: common.Json = False,
) -> None:
    """Add samples to the gallery of a model, in which `match` looks probes up.

    Samples keep their identities: the ids of tables, class/name of images, and otherwise running numbers. Classes need
    not be among those that the model was trained on; labels are optional.
    """
    check_not_input(output, data)
    path = output or model
    with locked(path):
        matcher = _load_matcher(model, view)
        loaded = open_view(matcher, data, view)
        ids = None if loaded.ids is None or loaded.ids.dtype.kind != "U" else loaded.ids  # others are numbers of rows
        held = not replace and hasattr(matcher, "gallery_")
        earlier = matcher.gallery_[matcher.gallery_views_ == view] if held and ids is None else None
        y = labels_like_gallery(loaded.y, matcher) if held else loaded.y
        cv.save(matcher.enroll(loaded.views, y, view, ids=ids, replace=replace), path)
    if earlier is not None and (n_equal := _count_equal(matcher.gallery_[-len(y) :], earlier)):
        what = f"{n_equal} of the {counted(len(y), 'sample')} are equal to enrolled ones"
        common.warn(f"{what}: pass --replace to empty the gallery first if they should not be there twice.")
    facts = {"output": str(path), "enrolled": len(y), **describe_gallery(matcher)}
    total = f"{len(matcher.gallery_)} of {counted(facts['classes'], 'class')}, not calibrated"
    common.print_facts(facts, f"{counted(len(y), 'sample')} enrolled, now {total}: {path}", as_json)


@common.app.command()
def calibrate(
    model: common.Model,
    data: SamplesArgument,
    view: ViewOption,
    max_fpir: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of strangers that may be accepted.")] = 0.01,
    output: UpdateOption = None,
    as_json: common.Json = False,
) -> None:
    """Set the distance beyond which `match` calls a probe unknown.

    DATA are labelled samples that the model was not trained on, of enrolled classes or others.
    """
    check_not_input(output, data)
    path = output or model
    with locked(path):
        matcher = _load_matcher(model, view)
        _check_gallery(matcher)
        loaded = open_view(matcher, data, view)
        known = loaded.y.astype(str) != ""
        X, y = loaded.views[known], labels_like_gallery(loaded.y[known], matcher)
        if not len(y):
            raise ValueError(f"{data} has no labels: calibrate with samples of known classes.")
        matcher.calibrate(X, y, view, max_fpir).set_params(probe_view=view)
        _warn_of_same_view(matcher, view)
        cv.save(matcher, path)
    facts = {"output": str(path), "max_fpir": max_fpir, "probes": len(y), **describe_gallery(matcher)}
    told = f"threshold {facts['threshold']:.6g} for a false positive identification rate of {max_fpir:.2%}"
    probes = f"{counted(len(y), 'probe')} of {counted(len(np.unique(y)), 'class')}"
    common.print_facts(facts, f"{told}, from {probes}: {path}", as_json)


@common.app.command()
def match(
    model: common.Model,
    probes: Annotated[
        list[str], typer.Argument(metavar="PROBES…", help="Samples to look up, each as DATA in `enroll`.")
    ],
    view: ViewOption,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Matches per probe; by default 5.")] = None,
    output: Annotated[Path | None, common.file_option("A .csv file; by default, print it.", ".csv")] = None,
    as_json: common.Json = False,
) -> None:
    """Look probes up in the gallery of a model.

    For every probe, the nearest samples of the gallery are listed. With a calibrated model, matches within the
    threshold are accepted; a probe whose first match is beyond it is unknown. Labels of probes are optional; where
    there are some, they are used to say how many probes were recognised. Images that cannot be read are named and left
    out; the exit status is then 1.
    """
    check_not_input(output, model, *probes)
    matcher = _load_matcher(model, view)
    _check_gallery(matcher)
    matcher._gallery.threshold.check(chosen_metric(matcher), view)
    size = len(matcher.gallery_)
    if k is not None and k > size:
        raise ValueError(f"-k {k} is more than the {counted(size, 'sample')} in the gallery: choose fewer.")
    loaded, damaged = open_all(matcher, probes, view)
    for message in damaged:
        common.warn(message)
    rows = _match_rows(matcher, loaded, view, min(k or _MATCHES, size))
    _warn_of_same_view(matcher, view)
    facts = _recognised(matcher, loaded, [row for row in rows if row["rank"] == 1])
    if output is not None:
        write_atomically(output, csv_text(rows).encode())
    elif not as_json:
        print(common.printable(csv_text(rows)) if common.out.is_terminal else csv_text(rows), end="")
    written = {"matches": rows} if output is None else {"output": str(output)}
    common.print_facts({**facts, **written}, _told(facts), as_json)
    if damaged:
        raise typer.Exit(1)


@common.app.command()
def export(
    model: common.Model,
    view: Annotated[str, typer.Option(help="The view whose map is written.")],
    output: Annotated[Path, common.file_option("An .onnx file.", ".onnx")],
    gallery: Annotated[
        Path | None,
        common.file_option("Write the gallery, too: an .npz file of plain arrays.", ".npz", names=("--gallery",)),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Write the map of one view as ONNX, and the gallery as arrays, for programs without crossview.

    The metadata of the ONNX file tell how images become numbers, which distance to take, and the threshold.
    """
    fitted = load_fitted(model)
    for path in (output, gallery):
        check_not_input(path, model)
    if gallery is not None:
        _check_gallery(fitted)
    cv.export_onnx(fitted, view, output)
    threshold = getattr(fitted, "threshold_", None)
    told = f"view {view!r}: {output}"
    if gallery is not None:
        write_atomically(gallery, _gallery_file(fitted))
        told += f"; gallery: {gallery}"
        told += "" if threshold is not None else ", not calibrated: run crossview calibrate first to reject strangers"
    facts = {"output": str(output), "view": view, "gallery": None if gallery is None else str(gallery)}
    common.print_facts({**facts, "distance": chosen_metric(fitted), "threshold": threshold}, told, as_json)


def describe_gallery(matcher: Any) -> dict[str, Any]:
    """The gallery and threshold of a matcher."""
    views, counts = np.unique(getattr(matcher, "gallery_views_", []), return_counts=True)
    return {
        "gallery": dict(zip(views.tolist(), counts.tolist(), strict=True)),
        "classes": len(matcher.classes_) if len(views) else 0,
        "threshold": getattr(matcher, "threshold_", None),
        "threshold_view": getattr(matcher, "threshold_view_", None),
        "temperature": getattr(matcher, "temperature_", None),
    }


def _warn_of_same_view(matcher: CrossViewClassifier, view: str) -> None:
    if (matcher.gallery_views_ == view).all():
        common.warn(f"the gallery, too, is of view {view!r} only: samples of one view are compared. Check --view.")


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


def _count_equal(new: Array, held: Array) -> int:
    """Number of new samples that are equal to enrolled ones, up to rounding."""
    unit = 1e-9 * np.abs(held).max(initial=0.0) or 1.0
    rows, known = ([hash(row.tobytes()) for row in np.round(X / unit) + 0.0] for X in (new, held))  # no -0
    return int(np.isin(rows, known).sum())


def _match_rows(matcher: CrossViewClassifier, probes: Dataset, view: str, k: int) -> list[dict[str, Any]]:
    """A row for each of the k nearest gallery samples of every probe."""
    distances, indices = matcher.kneighbors(probes.views, view, k)
    nearest, labels = indices.ravel(), matcher.gallery_labels_
    ids = np.arange(len(probes.y)) if probes.ids is None else probes.ids
    columns = {
        "probe": np.repeat(ids, k),
        "probe_label": np.repeat(probes.y, k),
        "rank": np.tile(np.arange(1, k + 1), len(probes.y)),
        "match": matcher.gallery_ids_[nearest],
        "match_label": labels[nearest],
        "match_view": matcher.gallery_views_[nearest],
        "distance": distances.ravel(),
    }
    if matcher.threshold_ is not None:
        columns["decision"] = np.where(distances.ravel() <= matcher.threshold_, "accepted", "unknown")
    for name, known in (("probe_label", probes.y), ("match_label", matcher.classes_)):
        if not any(map(str, known)):
            del columns[name]
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]


def _recognised(matcher: CrossViewClassifier, probes: Dataset, first: list[dict[str, Any]]) -> dict[str, Any]:
    """How many probes the first matches recognise; those without a label do not count."""
    labels, calibrated = probes.y.astype(str), matcher.threshold_ is not None
    known = np.isin(labels, matcher.classes_.astype(str)) & (labels != "")
    strangers = (labels != "") & ~known
    accepted = np.array([row.get("decision") != "unknown" for row in first])
    right = np.array([str(row.get("match_label", "")) == label for row, label in zip(first, labels, strict=True)])
    decided = {
        "accepted": accepted,
        "accepted_right": accepted & right & known,
        "accepted_wrong": accepted & ~right & known,
        "rejected": ~accepted & known,
        "strangers_rejected": ~accepted & strangers,
    }
    return {
        "probes": len(labels),
        "threshold": matcher.threshold_,
        "of_gallery": int(known.sum()),
        "first_match_right": int(right[known].sum()),
        "strangers": int(strangers.sum()),
        **{name: int(which.sum()) if calibrated else None for name, which in decided.items()},
    }


def _told(facts: dict[str, Any]) -> str:
    """What `match` says in the end."""
    told = counted(facts["probes"], "probe")
    if facts["of_gallery"]:
        told += "; first match right for {first_match_right} of {of_gallery} of enrolled classes"
        told += ", {accepted_right} accepted and right, {accepted_wrong} accepted and wrong, {rejected} rejected" * (
            facts["threshold"] is not None
        )
    if facts["strangers"]:
        told += "; {strangers} of other classes" + ", {strangers_rejected} rejected" * (facts["threshold"] is not None)
    if facts["threshold"] is not None and not facts["of_gallery"] and not facts["strangers"]:
        told += "; {accepted} accepted"
    return told.format(**facts)


def _gallery_file(matcher: CrossViewClassifier) -> bytes:
    """A gallery and what deciding takes as plain arrays; without calibration, the threshold accepts everything."""
    stream, threshold = io.BytesIO(), matcher._gallery.threshold.check(chosen_metric(matcher))
    np.savez(
        stream,
        latent=matcher.gallery_,
        label=matcher.gallery_labels_,
        id=matcher.gallery_ids_,
        view=matcher.gallery_views_,
        distance=np.array(chosen_metric(matcher)),
        threshold=np.array(np.inf if threshold is None else threshold),
        temperature=np.array(np.nan if matcher.temperature_ is None else matcher.temperature_),
    )
    return stream.getvalue()
