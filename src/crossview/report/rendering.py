"""Templates and assets, and the functions that templates call."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from crossview.report.formatting import (
    absent,
    best_two,
    compare,
    finite,
    interval,
    latex,
    markdown,
    measured,
    number,
    spread,
)

if TYPE_CHECKING:
    from jinja2 import Environment


def render_template(name: str, **context: Any) -> str:
    """A template filled in; in HTML, everything but markup is escaped."""
    return _environment().get_template(name).render(**context)


def asset(name: str) -> str:
    """A style sheet or script."""
    return (files("crossview.report") / "assets" / name).read_text(encoding="utf-8")


def png(image: np.ndarray) -> bytes:
    """A grey picture as PNG."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("pictures in reports need Pillow: pip install 'crossview[cli]'.") from error
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", optimize=True)
    return stream.getvalue()


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install 'crossview[cli]'.") from error
    environment = Environment(
        loader=PackageLoader("crossview.report"),
        autoescape=lambda name: name is None or name.endswith(".html"),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    functions = (absent, best_two, compare, finite, interval, measured, number, spread)
    environment.globals |= {function.__name__: function for function in functions}
    environment.tests["finite"] = finite
    environment.filters |= {
        "base64": lambda text: base64.b64encode(text.encode(errors="replace")).decode(),
        "digest": lambda text: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
        "md": markdown,
        "paragraphs": lambda text: [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()],
        "tex": latex,
        "words": lambda text: [part for part in re.split(r"(\s+)", text) if part],
    }
    return environment
