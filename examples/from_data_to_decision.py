"""From training data to decisions on the command line, and without crossview at the end.

The path is followed twice: with folders of images of objects that were not seen in training, and with tables of unlike
features of classes that were. The last step needs neither crossview nor scikit-learn: NumPy, Pillow and onnxruntime
give the same answers.

Install ``crossview[cli,onnx]``, and run ``python examples/from_data_to_decision.py FOLDER``. Everything is written to
FOLDER.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import crossview as cv


def main(folder: Path) -> None:
    """Follow the path with images, then with tables."""
    images, tables = folder / "images", folder / "tables"
    write_images(images)
    follow(images, "V1", "V2", "KMvHE")
    write_tables(tables)
    follow(tables, "pixels", "profiles", "MvHE")


def follow(data: Path, gallery: str, probes: str, method: str) -> None:
    """Compare, tune, evaluate, enrol, calibrate, match and export; then match without crossview."""
    train, test, model = data / "train", data / "test", data / "my.model"
    quick = ["--methods", f"CCA,MvDA,{method}", "--n-iter", 4, "--jobs", 1, "--no-static"]
    crossview(
        "compare",
        "--train-data",
        train,
        "--test-data",
        test,
        *quick,
        "-o",
        data / "comparison",
    )
    crossview("tune", train, "--method", method, "--n-iter", 8, "--overwrite", "-o", model)
    crossview("evaluate", model, test, "--bootstrap", 200, "-o", data / "evaluation")
    crossview("enroll", model, data / "gallery", "--view", gallery)
    crossview("calibrate", model, test, "--view", probes, "--max-fpir", 0.05)
    matches = crossview("match", model, data / "probes", "--view", probes, "-k", 1)["matches"]
    crossview(
        "export",
        model,
        "--view",
        probes,
        "-o",
        data / "probes.onnx",
        "--gallery",
        data / "gallery.npz",
    )
    answers = match_without_crossview(data, probes)
    expected = {
        row["probe"]: row["match_label"] if row["decision"] == "accepted" else "unknown"
        for row in matches
    }
    assert answers == expected
    strangers = sum(decision == "unknown" for decision in answers.values())
    print(
        f"The same {len(answers)} answers without crossview, {strangers} of them 'unknown'.\n"
    )


def crossview(*arguments: object) -> dict:
    """Run a command, show it, and return its JSON."""
    words = [str(argument) for argument in arguments]
    print("crossview", *words, flush=True)
    command = [sys.executable, "-m", "crossview", *words, "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def write_images(folder: Path) -> None:
    """Write images of objects on a turntable, different objects for every purpose."""
    data = cv.datasets.make_turntable(55, size=24, random_state=0)
    for view in ("V1", "V2"):
        for number, (pixels, label) in enumerate(zip(data.views[view], data.y, strict=True)):
            part = (
                "train"
                if label <= 30
                else "test"
                if label <= 40
                else "gallery"
                if view == "V1"
                else "probes"
            )
            if part == "gallery" and label > 50:
                continue  # objects 51 to 55 are strangers
            place = (
                folder / part
                if part == "probes"
                else folder / part / view / f"object-{label}"
            )
            place.mkdir(parents=True, exist_ok=True)
            image = (255 * pixels.reshape(data.image_shape)).round().astype(np.uint8)
            Image.fromarray(image).save(place / f"{number}.png")


def write_tables(folder: Path) -> None:
    """Write descriptors of handwritten digits; 8 and 9 are trained on, but not enrolled."""
    data = cv.datasets.load_descriptors()
    for part, rows in {
        "train": slice(0, 400),
        "test": slice(400, 700),
        "probes": slice(700, 900),
    }.items():
        for view in ("pixels", "profiles"):
            write_table(
                folder / part / f"{view}.csv",
                data.views[view][rows],
                data.y[rows],
                first=rows.start,
            )
    enrolled = data.y[:400] < 8
    write_table(
        folder / "gallery" / "pixels.csv",
        data.views["pixels"][:400][enrolled],
        data.y[:400][enrolled],
    )
    (folder / "probes" / "pixels.csv").unlink()


def write_table(path: Path, samples: np.ndarray, labels: np.ndarray, first: int = 0) -> None:
    """Write a table of one view with the columns id and label; the labels of probes are unknown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "label", *(f"x{column}" for column in range(samples.shape[1]))])
        for row, (sample, label) in enumerate(zip(samples, labels, strict=True), first):
            table.writerow(
                [row, "" if path.parent.name == "probes" else f"digit {label}", *sample]
            )


def match_without_crossview(data: Path, view: str) -> dict[str, str]:
    """Identify the probes with onnxruntime and NumPy, from the two files that ``export`` wrote."""
    session = onnxruntime.InferenceSession(data / "probes.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    names, samples = read_probes(data / "probes", view, facts)
    (probes,) = session.run(None, {"X": samples.astype(np.float32)})
    with np.load(data / "gallery.npz") as file:
        gallery, labels = file["latent"], file["label"]
    if facts["distance"] == "cosine":
        probes, gallery = (
            X / np.linalg.norm(X, axis=1, keepdims=True) for X in (probes, gallery)
        )
        distances = 1.0 - probes @ gallery.T
    else:
        distances = np.linalg.norm(probes[:, None] - gallery, axis=2)
    nearest = distances.argmin(axis=1)
    accepted = distances.min(axis=1) <= float(facts["threshold"])
    return dict(
        zip(names, np.where(accepted, labels[nearest], "unknown").tolist(), strict=True)
    )


def read_probes(
    folder: Path, view: str, facts: dict[str, str]
) -> tuple[list[str], np.ndarray]:
    """Names and samples of probes, as images of the size that the model was trained on, or from a table."""
    if "image_height" not in facts:
        with (folder / f"{view}.csv").open(newline="") as file:
            _, *rows = csv.reader(file)
        return [row[0] for row in rows], np.array([row[2:] for row in rows], dtype=float)
    paths = sorted(folder.glob("*.png"))
    size = int(facts["image_width"]), int(facts["image_height"])
    images = [
        Image.open(path).convert("L").resize(size, Image.Resampling.LANCZOS) for path in paths
    ]
    return [path.stem for path in paths], np.array(
        [np.asarray(image).ravel() / 255.0 for image in images]
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/from_data_to_decision.py FOLDER")
    main(Path(sys.argv[1]))
