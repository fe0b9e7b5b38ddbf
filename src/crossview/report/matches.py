"""A browser of probes and their matches, with all pictures in one."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from math import ceil, sqrt

import numpy as np

from crossview.report.document import MatchBrowser, Probe
from crossview.report.figure import figure
from crossview.report.markup import Markup, el, json_script
from crossview.report.words import decimals, number

__all__ = ["match_browser", "png"]


def png(image: np.ndarray) -> bytes:
    r"""A grey picture as PNG.

    Parameters
    ----------
    image : ndarray of shape (height, width), uint8
        The picture.

    Examples
    --------
    >>> import numpy as np
    >>> png(np.zeros((2, 3), dtype=np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = image.shape
    rows = np.full((height, width + 1), 2, dtype=np.uint8)  # each row less the one above it: filter 2
    rows[:, 1:] = image
    rows[1:, 1:] -= image[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def match_browser(item: MatchBrowser) -> Markup:
    """A choice of methods, of probes, and of those that were matched rightly or wrongly."""
    used = sorted({k for probes in item.probes.values() for probe in probes for k in _images(probe)})
    place = {image: k for k, image in enumerate(used)}
    images = np.asarray(item.images, dtype=np.uint8)[used] if used else np.zeros((1, 1, 1), dtype=np.uint8)
    sheet, columns = _sheet(images)
    size = images.shape[2], images.shape[1]
    digits = decimals(m.distance for probes in item.probes.values() for probe in probes for m in probe.matches)
    data = {
        "size": size,
        "columns": columns,
        "sheet": f"{item.key}.sheet",
        "digits": digits,
        "probes": [[_plain(probe, place) for probe in probes] for probes in item.probes.values()],
    }
    uri = "data:image/png;base64," + base64.b64encode(png(sheet)).decode()
    whole = el("image", id=f"{item.key}.sheet", href=uri, width=sheet.shape[1], height=sheet.shape[0])
    firsts = [
        el("div", el("h4", name), *_first(probes, item.key, place, size, columns, digits), class_="first")
        for name, probes in item.probes.items()
    ]
    return figure(
        item.key,
        item.title,
        item.caption,
        el("svg", el("defs", whole), class_="store", aria_hidden="true"),
        _browser(item),
        el("div", *firsts, class_="firsts"),
        json_script(data),
        class_="matches",
    )


def _images(probe: Probe) -> list[int]:
    return [probe.image, *(match.image for match in probe.matches)]


def _plain(probe: Probe, place: Mapping[int, int]) -> list[object]:
    matches = [[place[match.image], str(match.label), float(match.distance)] for match in probe.matches]
    return [place[probe.image], str(probe.label), matches]


def _sheet(images: np.ndarray) -> tuple[np.ndarray, int]:
    """All pictures in one, each with a rim of its own, so that none shows at the edge of its neighbour."""
    rimmed = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="edge")
    columns = ceil(sqrt(len(rimmed)))
    lines = ceil(len(rimmed) / columns)
    _, height, width = rimmed.shape
    sheet = np.zeros((lines * columns, height, width), dtype=np.uint8)
    sheet[: len(rimmed)] = rimmed
    return sheet.reshape(lines, columns, height, width).swapaxes(1, 2).reshape(lines * height, columns * width), columns


def _browser(item: MatchBrowser) -> Markup:
    """Controls and room for a probe, filled by the page's script."""
    methods = [el("option", name, value=k) for k, name in enumerate(item.probes)]
    filters = [
        el("option", text, value=value)
        for value, text in (("", "all"), ("wrong", "wrong only"), ("right", "right only"))
    ]
    bar = el(
        "div",
        el("label", el("span", "method"), el("select", *methods, class_="method")),
        el("label", el("span", "probes"), el("select", *filters, class_="filter")),
        el(
            "div",
            el("button", "←", type="button", class_="previous", aria_label="previous probe"),
            el("button", "→", type="button", class_="next", aria_label="next probe"),
            class_="steps",
        ),
        el("p", class_="place", aria_live="polite"),
        class_="controls",
    )
    return el("div", bar, el("div", class_="cards"), class_="browser", tabindex=0, role="group", aria_label=item.title)


def _first(
    probes: Sequence[Probe], key: str, place: Mapping[int, int], size: tuple[int, int], columns: int, digits: int
) -> list[Markup]:
    """The first probe, for those without a script and for print."""
    if not probes:
        return [el("p", "no probes")]
    probe = probes[0]
    first = _card(key, place[probe.image], size, columns, "probe", str(probe.label), "probe")
    ranked = []
    for match in probe.matches:
        right = match.label == probe.label
        text = f"{'✓' if right else '✗'} {match.label}"
        below = number(match.distance, digits)
        ranked.append(_card(key, place[match.image], size, columns, text, below, "right" if right else "wrong"))
    return [el("div", first, el("div", *ranked, class_="ranked"), class_="cards")]


def _card(key: str, image: int, size: tuple[int, int], columns: int, head: str, below: str, kind: str) -> Markup:
    width, height = size
    row, column = divmod(image, columns)
    use = el("use", href=f"#{key}.sheet", x=-(column * (width + 2) + 1), y=-(row * (height + 2) + 1))
    picture = el("svg", use, viewBox=f"0 0 {width} {height}", class_="picture", aria_hidden="true")
    return el("div", picture, el("div", head, class_="head"), el("div", below, class_="below"), class_=f"card {kind}")
