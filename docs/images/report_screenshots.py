"""Take the pictures of the page on reports: python docs/images/report_screenshots.py.

Needs playwright and Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import crossview as cv

HERE = Path(__file__).parent
ANGLES = {"front": (0, 5, 10, 15), "side": (25, 30, 35, 40)}
WIDTH = 1040  # of the window


def main() -> None:
    """Compare methods and evaluate a model on renderings, and photograph parts of both reports."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        write_images(folder)
        compare = [
            "--methods",
            "PCA,CCA,MvDA,MvHE",
            "--n-iter",
            "6",
            "--jobs",
            "1",
            "-o",
            "comparison",
        ]
        crossview(folder, "compare", "shapes", *compare)
        crossview(
            folder,
            "fit",
            "shapes",
            "--method",
            "MvHE",
            "-p",
            "n_components=10",
            "-o",
            "shapes.model",
        )
        crossview(folder, "evaluate", "shapes.model", "test", "-o", "evaluation")
        chromium = next(
            filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
        )
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 800}, color_scheme="light"
        )
        page.goto((folder / "comparison" / "report.html").as_uri())
        take(page, "comparison", "report-accuracy.png")
        take(page, "embeddings", "report-spaces.png", height=600)
        take(page, "matches", "report-matches.png")
        page.goto((folder / "evaluation" / "report.html").as_uri())
        take(page, "open-set", "report-open-set.png")
        browser.close()


def write_images(folder: Path) -> None:
    """Write renderings of 60 objects to train with, and of 30 others to test with."""
    data = cv.datasets.make_turntable(90, ANGLES, size=24, random_state=0)
    for view in ANGLES:
        for k, (pixels, label) in enumerate(zip(data.views[view], data.y, strict=True)):
            part = "shapes" if label <= 60 else "test"
            path = folder / part / view / f"object-{label:03d}" / f"{k % 4}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((255 * pixels.reshape(data.image_shape)).astype(np.uint8)).save(
                path
            )


def crossview(folder: Path, *words: str) -> None:
    """Run a command in a folder."""
    subprocess.run([sys.executable, "-m", "crossview", *words], cwd=folder, check=True)


def take(page: Page, key: str, name: str, height: float | None = None) -> None:
    """Photograph one item of a report, or its upper part."""
    item = page.locator(f"#{key}")
    item.scroll_into_view_if_needed()
    box = item.bounding_box()
    assert box is not None
    top = box["y"] + page.evaluate("window.scrollY")
    clip = {
        "x": box["x"] - 12,
        "y": top - 12,
        "width": box["width"] + 24,
        "height": (height or box["height"]) + 24,
    }
    page.screenshot(path=HERE / name, clip=clip, full_page=True)


if __name__ == "__main__":
    main()
