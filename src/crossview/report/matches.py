"""Probes and their matches: a browser on the page, and a sheet of the first probes for print and files."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crossview._text import counted
from crossview.report.document import MatchBrowser, Probe
from crossview.report.drawing import Drawing, Figure, clip
from crossview.report.formatting import decimals, number

_PROBES, _MATCHES = 6, 8  # of a sheet
_CARD = 66.0  # width of a picture in a sheet


def png(image: np.ndarray) -> bytes:
    """A grey picture as PNG."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("pictures in reports need Pillow: pip install 'crossview[cli]'.") from error
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def match_browser(item: MatchBrowser) -> Figure:
    """All probes as data for the page's script, and a sheet of the first ones."""
    images = np.asarray(item.images, dtype=np.uint8)
    used = sorted({k for some in item.probes.values() for p in some for k in (p.image, *(m.image for m in p.matches))})
    digits = decimals(m.distance for probes in item.probes.values() for probe in probes for m in probe.matches)
    size = images.shape[2], images.shape[1]
    probes = [
        [[p.image, str(p.label), [[m.image, str(m.label), float(m.distance)] for m in p.matches]] for p in some]
        for some in item.probes.values()
    ]
    return Figure(
        item,
        "matches",
        [_sheet(item.key, name, some, size, digits) for name, some in first_probes(item).probes.items()],
        pictures={k: "data:image/png;base64," + base64.b64encode(png(images[k])).decode() for k in used},
        data={"size": size, "key": item.key, "digits": digits, "probes": probes},
    )


def first_probes(item: MatchBrowser) -> MatchBrowser:
    """The first few probes of each method and pair of views."""
    n = max(1, _PROBES // max(len(item.probes), 1))
    probes = {name: [replace(p, matches=p.matches[:_MATCHES]) for p in some[:n]] for name, some in item.probes.items()}
    return replace(item, probes=probes)


def _sheet(key: str, name: str, probes: Sequence[Probe], size: tuple[int, int], digits: int) -> Drawing:
    """A row of pictures for each probe."""
    height = _CARD * size[1] / max(size[0], 1)
    rows = [
        {
            "y": 3 + n * (height + 48),
            "probe": (probe.image, clip(str(probe.label), 11)),
            "matches": [
                {
                    "x": _CARD + 21 + rank * (_CARD + 8),
                    "image": match.image,
                    "right": match.label == probe.label,
                    "label": clip(str(match.label), 9),
                    "sign": -3.2 * min(len(str(match.label)), 9) - 6,  # to the left of the label
                    "distance": number(match.distance, digits),
                }
                for rank, match in enumerate(probe.matches)
            ],
        }
        for n, probe in enumerate(probes)
    ]
    whole = _CARD + 16 + _MATCHES * (_CARD + 8), max(len(rows), 1) * (height + 48)
    shapes = {"rows": rows, "size": size, "card": (_CARD, height), "key": key}
    return Drawing("sheet", whole, shapes, f"{counted(len(rows), 'probe')} and the nearest matches.", name)
