"""Compare MvHE and KMvHE with a contrastive network, from results of `recommendation.py`.

python benchmarks/opponents.py RESULTS... > table.md
"""

import sys
from pathlib import Path

import numpy as np

from recommendation import GROUPS, load

OURS, OPPONENT = ("MvHE × 8", "KMvHE × 8"), "Contrastive"
ROWS = (*OURS, "MvDA", "MCCA", OPPONENT)


def main(paths: list[Path]) -> None:
    found: dict[tuple[str, str], dict[int, float]] = {}
    for record in (record for path in paths for record in load(path) if "error" not in record):
        found.setdefault((record["data"], record["method"]), {})[record["split"]] = 100 * record["accuracy"]
    print(f"| | splits | {' | '.join(ROWS)} | ours | difference | splits won |")
    print(f"| --- |{' ---: |' * (len(ROWS) + 1)} --- | ---: | ---: |")
    for name in (name for group in GROUPS for name in group):
        splits = sorted(set.intersection(*(set(found[name, row]) for row in ROWS)))
        scores = {row: np.array([found[name, row][k] for k in splits]) for row in ROWS}
        ours = max(OURS, key=lambda row: scores[row].mean())
        gaps = scores[ours] - scores[OPPONENT]
        cells = [name, len(splits), *(f"{scores[row].mean():.1f}" for row in ROWS), ours]
        cells += [f"{gaps.mean():+.1f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):.1f}", f"{(gaps > 0).sum()}"]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main([*map(Path, sys.argv[1:])])
