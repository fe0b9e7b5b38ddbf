"""The code blocks of Markdown pages. As a script, run the Python blocks of pages, with what is installed."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"(<!-- long -->\n)?```(python|sh)\n(.*?)```(?:\n\n```text\n(.*?)```)?", flags=re.DOTALL)


def code_blocks(page):
    """Whether it is marked as long, language, code, and the output that is shown, of every block."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def main(pages):
    for page in [Path(page).resolve() for page in pages]:
        blocks = [code for _, language, code, _ in code_blocks(page) if language == "python"]
        if not blocks:
            sys.exit(f"error: {page.name} has no Python code.")
        names: dict[str, object] = {"__name__": "__main__"}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for code in blocks:
                exec(compile(code, page.name, "exec"), names)
        print(f"{page.name}: {len(blocks)} Python block(s) run with {names['cv'].__file__}")


if __name__ == "__main__":
    main(sys.argv[1:])
