"""Models in files: written whole or not at all, and read without executing anything that a file contains.

A file is in the safetensors format: arrays, and a header in JSON. The header's metadata describe the model, again in
JSON, with the format's number, the version of crossview that wrote it, and a digest of the whole file, which detects
damage.

A digest does not stop an attacker. What does: classes, their attributes and the attributes' shapes come from a fixed
table (`_table.py`), never from the file; sizes are compared with the file before memory is allocated, and with each
other before a model is returned.
"""

from crossview.persistence._files import MALFORMED, ModelFileError, PathLike, check_target, write_atomically
from crossview.persistence._models import load, save
from crossview.persistence._table import OF_SESSION

__all__ = ["MALFORMED", "OF_SESSION", "ModelFileError", "PathLike", "check_target", "load", "save", "write_atomically"]
