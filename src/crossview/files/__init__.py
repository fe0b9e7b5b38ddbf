"""Models in files, and their maps as ONNX graphs."""

from crossview._schema import OF_SESSION, register
from crossview._store import PathLike, check_target, write_atomically
from crossview.files.models import MALFORMED, ModelFileError, load, save
from crossview.files.onnx import export_onnx

__all__ = [
    "MALFORMED",
    "OF_SESSION",
    "ModelFileError",
    "PathLike",
    "check_target",
    "export_onnx",
    "load",
    "register",
    "save",
    "write_atomically",
]
