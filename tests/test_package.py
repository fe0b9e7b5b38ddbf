from __future__ import annotations

import subprocess
import sys

import crossview as cv


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_public_names_exist():
    assert all(hasattr(cv, name) for name in cv.__all__)


def test_import_needs_nothing_but_the_core():
    code = """
import sys
EXTRAS = 'jinja2 matplotlib pandas polars pyarrow typer rich torch PIL onnx onnxruntime'.split()
EXTRAS += ['dask', 'distributed', 'faiss', 'triton', 'zarr']
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in EXTRAS:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import crossview
print(crossview.__version__)
"""
    assert run(code).strip() == cv.__version__
