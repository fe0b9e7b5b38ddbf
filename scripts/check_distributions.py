"""Check that the sdist and the wheel in a folder contain what they should, and nothing else.

Usage: python scripts/check_distributions.py FOLDER
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_DISTRIBUTED = (".ci/",)


def main(folder: str) -> None:
    """Print what was found, or stop with what is wrong."""
    (sdist,) = Path(folder).glob("*.tar.gz")
    (wheel,) = Path(folder).glob("*.whl")
    tracked = {name for name in tracked_files() if not name.startswith(NOT_DISTRIBUTED)}
    in_sdist = names_in_sdist(sdist)
    compare(sdist.name, in_sdist, tracked | {"PKG-INFO"})

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    about = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    compare(wheel.name, names, package | about)
    if "crossview/py.typed" not in names:
        sys.exit(f"error: {wheel.name} has no py.typed.")
    check_readme(metadata)
    print(f"{sdist.name}: {len(in_sdist)} files; {wheel.name}: {len(names)} files; as they should be")


def tracked_files() -> list[str]:
    """The files under version control."""
    output = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return output.rstrip("\0").split("\0")


def names_in_sdist(path: Path) -> set[str]:
    """The files of an sdist, without the folder that contains them all."""
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def compare(archive: str, found: Iterable[str], expected: Iterable[str]) -> None:
    """Stop if an archive has other files than expected."""
    unwanted, missing = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    if unwanted:
        sys.exit(f"error: {archive} contains files that are not under version control: {', '.join(unwanted)}.")
    if missing:
        sys.exit(f"error: {archive} lacks {', '.join(missing)}.")


def check_readme(metadata: Message) -> None:
    """Stop if the page on a package index would be empty or have links that lead nowhere."""
    text = metadata.get_payload()
    if not isinstance(text, str) or "# crossview" not in text:
        sys.exit("error: the wheel has no readme.")
    relative = re.findall(r"\]\((?![a-z]+:|#)([^)]+)\)", text)
    if relative:
        sys.exit(f"error: links of the README would be broken on a package index: {', '.join(relative)}.")
    if not any(url.startswith("Repository,") for url in metadata.get_all("Project-URL", [])):
        print("note: pyproject.toml has no Repository in [project.urls]: package indexes show relative links as text.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
