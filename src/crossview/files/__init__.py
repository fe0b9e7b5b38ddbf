"""Models in files, and their maps as ONNX graphs."""

from crossview.files.models import ModelFileError, load, save
from crossview.files.onnx import export_onnx

__all__ = ["ModelFileError", "export_onnx", "load", "save"]
