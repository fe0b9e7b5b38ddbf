"""The tables and figures of the paper's experiments, as cells to compute.

J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing and C. L. P. Chen, Multi-view Hybrid Embedding: A Divide-and-Conquer Approach,
IEEE Transactions on Cybernetics. Tables are numbered as there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from crossview.datasets import cmu_pie, coil100
from crossview.embeddings.methods import METHODS
from crossview.experiments.cells import Cell, Search, Split
from crossview.experiments.plans import Panel, Place, committee_name
from crossview.paper.timing import PAPER_CASES

__all__ = ["EXPERIMENTS", "LETTER", "QUICK", "Effort", "Experiment", "Setting", "plan", "published"]

Lacks: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
Maker: TypeAlias = "Callable[[Effort, Lacks], Experiment]"
Draw: TypeAlias = "Callable[[str, str, Setting, Effort], Panel]"

LETTER = "by the letter of the paper"
"""What rows end in that time the paper's algorithm as it is printed."""

_REPEATS, _SPLITS = 10, 100
_FEWER = ("MULDA", "MCCA")  # their directions are found one after another, which takes its time: a third of the draws
_MULTI_VIEW = ("MCCA", "MvDLA", "GMA", "MULDA", "MvDA", "MvMDA", "MvDA-VC", "MvHE", "KMvHE")
_ROBUST = tuple(name for name in _MULTI_VIEW if name != "MCCA")  # MCCA does without labels

# Where the paper's section on parameters finds both methods at their best: "λ1 in [1e-4, 1e-1] and λ2 in [1e-2, 1e-1]",
# "λ1 in [1e-4, 5e-2] and λ2 in [1e-4, 1e-2]", a relatively large p2, and β of 0.1 and 1.1. Data of other kinds want
# other values, for which `crossview.SEARCH_SPACES` is wider.
_DIMENSIONS = (5, 10, 20, 30, 40, 60)
_SPACES: dict[str, dict[str, Sequence[float]]] = {
    "MvHE": {
        "n_components": _DIMENSIONS,
        "lambda_intra": (1e-4, 1e-3, 1e-2, 1e-1),
        "lambda_inter": (1e-2, 5e-2, 1e-1),
        "beta": (0.05, 0.1, 0.2),
        "n_within": (1, 3),
        "n_between": (15, 30),
    },
    "KMvHE": {
        "n_components": _DIMENSIONS,
        "lambda_intra": (1e-4, 1e-3, 5e-3, 5e-2),
        "lambda_inter": (1e-4, 1e-3, 1e-2),
        "beta": (0.5, 1.1),
        "n_within": (1, 3),
        "n_between": (15, 30),
        "gamma_scale": (0.1, 0.3, 1.0, 3.0),
    },
}

# The paper's default values, of which it varies one group after another.
_DEFAULTS: dict[str, dict[str, float]] = {
    "MvHE": {"lambda_intra": 1e-2, "lambda_inter": 5e-2, "n_within": 1, "n_between": 15, "beta": 0.1},
    "KMvHE": {"lambda_intra": 5e-3, "lambda_inter": 1e-3, "n_within": 3, "n_between": 15, "beta": 1.1},
}
_PARTS = {"paired": "lambda_paired", "intra": "lambda_intra", "inter": "lambda_inter"}


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: its panels, and why some of it cannot be run."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    missing: tuple[str, ...] = ()

    @property
    def cells(self) -> list[Cell]:
        """All cells, of which several may be equal."""
        return [place.cell for panel in self.panels for place in panel.places]


@dataclass(frozen=True)
class Effort:
    """How much of a protocol is run.

    Parameters
    ----------
    repeats : int
        How many random splits; the paper has 10.
    draws : int, optional
        How many combinations of parameters each search tries, drawn at random; None tries all.
    pca : sequence of int
        Dimensions of the PCA that are traversed.
    coarse : bool
        Whether figures have a few points only, in the place of the paper's.
    methods : sequence of str
        The methods that are run, where there is a choice.
    cases : sequence of int
        The cases of tables that have several; all when empty.
    scoring : {"accuracy", "average_precision"}
        What folds are scored by; the paper does not say.
    members : int
        With more than 1, tables of accuracy show every method as a committee of the best settings of its search, too.
    seed : int
        Seed of the splits.
    """

    repeats: int = _REPEATS
    draws: int | None = 48
    pca: Sequence[int] = (20, 40, 80, 120, 160)
    coarse: bool = False
    methods: Sequence[str] = tuple(METHODS)
    cases: Sequence[int] = ()
    scoring: str = "accuracy"
    members: int = 1
    seed: int = 0


QUICK = Effort(repeats=2, draws=6, pca=(40, 160), coarse=True)
"""The same protocols with fewer repeats, coarser grids and fewer points."""


@dataclass(frozen=True)
class Setting:
    """Data and how they are split: a column of a table, or a panel of a figure."""

    data: str
    n_train: int
    n_views: int
    case: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What the data are loaded with."""
        return {} if self.case is None else {"case": self.case}

    @property
    def title(self) -> str:
        """What the data are called in the paper."""
        name = {"cmu-pie": "CMU PIE", "coil100": "COIL-100"}.get(self.data, self.data.upper())
        return name if self.case is None else f"{name}, case {self.case}"

    def __str__(self) -> str:
        return self.data if self.case is None else f"{self.data} case {self.case}"


@cache
def published() -> Mapping[str, Mapping[str, Any]]:
    """The paper's tables: name → ``columns`` and ``rows``; an entry is mean, standard deviation and relative loss."""
    text = (files("crossview.paper") / "published.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = json.loads(text)
    return tables


def plan(name: str, effort: Effort, lacks: Lacks) -> Experiment:
    """What has to be computed for a table or figure.

    Parameters
    ----------
    name : str
        A key of `EXPERIMENTS`.
    effort : Effort
        How much of it.
    lacks : callable
        ``lacks(data, options)`` says why data cannot be loaded; None if they can.

    Returns
    -------
    experiment : Experiment
        What can be computed with the data that are there, and what cannot.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}: use one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name](effort, lacks)


def _cmu_pie(case: int) -> Setting:
    return Setting("cmu-pie", 45, len(cmu_pie.CASES[case]), case)


def _coil(case: int) -> Setting:
    return Setting("coil100", 70, len(coil100.CASES[case]), case)


def _cells(setting: Setting, method: str, effort: Effort, **changes: Any) -> Iterator[Cell]:
    """One cell for every repeat."""
    draws = effort.draws
    if draws is not None and method in _FEWER:
        draws = max(1, draws // 3)
    how: dict[str, Any] = {
        "pca": tuple(effort.pca),
        "n_iter": draws,
        "scoring": effort.scoring,
        "grid": _SPACES.get(method),
        **changes.pop("search", {}),
    }
    n_train = changes.pop("n_train", setting.n_train)
    for repeat in range(effort.repeats):
        yield Cell(
            data=setting.data,
            method=method,
            options=setting.options,
            # More splits than there are repeats: repeats that are added later find those before them computed.
            split=Split("classes", n_train, max(effort.repeats, _SPLITS), effort.seed),
            repeat=repeat,
            search=Search(**how),
            seed=repeat,
            **changes,
        )


def _places(row: str, column: str, setting: Setting, method: str, effort: Effort, **changes: Any) -> list[Place]:
    """A method by itself and, where there are members, as a committee, both from the same searches."""
    search = {**changes.pop("search", {}), "members": effort.members}
    cells = list(_cells(setting, method, effort, search=search, **changes))
    places = [Place(row, column, cell) for cell in cells]
    if effort.members > 1:
        places += [Place(committee_name(row, effort.members), column, cell, "committee") for cell in cells]
    return places


def _there(settings: Sequence[Setting], lacks: Lacks) -> tuple[list[Setting], tuple[str, ...]]:
    """The settings whose data are there, and what is said of the others."""
    reasons = {setting: lacks(setting.data, setting.options) for setting in settings}
    alike: dict[tuple[str, str], list[Setting]] = {}
    for setting, reason in reasons.items():
        if reason:
            alike.setdefault((setting.data, reason), []).append(setting)
    missing = tuple(f"{_together(found)} cannot run: {reason}" for (_, reason), found in alike.items())
    return [setting for setting in settings if not reasons[setting]], missing


def _together(settings: Sequence[Setting]) -> str:
    """Settings of one data set."""
    if len(settings) == 1:
        return str(settings[0])
    return f"{settings[0].data} cases {', '.join(str(setting.case) for setting in settings)}"


def _cases(settings: Sequence[Setting], effort: Effort) -> list[Setting]:
    """Those that are wanted."""
    return [setting for setting in settings if not effort.cases or setting.case in (None, *effort.cases)]


def _methods(setting: Setting, effort: Effort, among: Sequence[str] = tuple(METHODS)) -> list[str]:
    """Those wanted that can do with so many views."""
    return [
        name
        for name in among
        if name in effort.methods and (setting.n_views == 2 or not METHODS[name]._needs_two_views)
    ]


def _comparison(name: str, title: str, settings: Sequence[Setting], kind: str = "accuracy") -> Maker:
    """All methods in several settings."""

    def make(effort: Effort, lacks: Lacks) -> Experiment:
        there, missing = _there(_cases(settings, effort), lacks)
        rows: dict[str, tuple[str, dict[str, Any]]] = {method: (method, {}) for method in METHODS}
        # The paper does not say how it applied these to several views.
        rows |= {f"{method} per view": (method, {"pooled": False}) for method in ("LDA", "DLA")}
        places = [
            place
            for row, (method, fixed) in rows.items()
            for setting in there
            if method in _methods(setting, effort)
            for place in _places(
                row,
                str(setting) if kind == "pairs" else f"case {setting.case}",
                setting,
                method,
                effort,
                parameters=fixed,
            )
        ]
        places.sort(key=lambda place: bool(place.part))
        return Experiment(name, title, _panels(Panel(name, title, kind, tuple(places))), missing)

    return make


def _ablation(name: str, title: str, settings: Sequence[Setting]) -> Maker:
    """MvHE with some of its three parts."""
    rows = ("paired", "intra", "inter", "paired+intra", "paired+inter", "intra+inter", "paired+intra+inter")

    def make(effort: Effort, lacks: Lacks) -> Experiment:
        there, missing = _there(_cases(settings, effort), lacks)
        places = []
        for row in rows:
            left_out = {weight: 0.0 for part, weight in _PARTS.items() if part not in row.split("+")}
            places += [
                Place(row, f"case {setting.case}", cell)
                for setting in there
                for cell in _cells(setting, "MvHE", effort, parameters=left_out)
            ]
        return Experiment(name, title, _panels(Panel(name, title, "accuracy", tuple(places))), missing)

    return make


def _outliers(name: str, title: str, setting: Setting, shares: Sequence[int]) -> Maker:
    """Accuracy after some of the training labels were permuted."""

    def make(effort: Effort, lacks: Lacks) -> Experiment:
        there, missing = _there([setting], lacks)
        places = [
            place
            for one in there
            for method in _methods(one, effort, _ROBUST)
            for share in shares
            for place in _places(method, str(share), one, method, effort, outliers=share / 100)
        ]
        panel = Panel(name, title, "outliers", tuple(places), x_label="labels permuted, %")
        return Experiment(name, title, _panels(panel), missing)

    return make


def _times(name: str, title: str) -> Maker:
    """Seconds that a fit takes, by this package and by the paper's algorithm to the letter."""

    def make(effort: Effort, lacks: Lacks) -> Experiment:
        places = []
        wanted = {case: n for case, n in PAPER_CASES.items() if not effort.cases or case in effort.cases}
        for case, n_views in wanted.items():
            column, options = f"case {case}", {"n_views": n_views}
            for method in [name for name in _MULTI_VIEW if name in effort.methods]:
                fixed = {"n_components": 20, **_DEFAULTS.get(method, {})}
                cell = Cell(data="paper-sizes", method=method, options=options, parameters=fixed, task="time")
                places.append(Place(method, column, cell))
            if "MCCA" in effort.methods:
                joint = {"constraint": "joint", "n_components": 20}
                cell = Cell(data="paper-sizes", method="MCCA", options=options, parameters=joint, task="time")
                places.append(Place("MCCA, one constraint for all views", column, cell))
            for method in [name for name in ("MvHE", "KMvHE") if name in effort.methods]:
                fixed = {"n_components": 20, **_DEFAULTS[method]}
                cell = Cell(data="paper-sizes", method=method, options=options, parameters=fixed, task="literal-time")
                places.append(Place(f"{method} {LETTER}", column, cell))
        return Experiment(name, title, _panels(Panel(name, title, "times", tuple(places))))

    return make


def _figure(name: str, title: str, draw: Draw, cmu_pie: bool = True, coil: bool = True) -> Maker:
    """A figure of one panel for each data set; case 4 of CMU PIE takes the place of case 5, which needs more poses."""

    def make(effort: Effort, lacks: Lacks) -> Experiment:
        there, missing = _there([*([_cmu_pie(5)] if cmu_pie else []), *([_coil(2)] if coil else [])], lacks)
        if cmu_pie and _cmu_pie(5) not in there and lacks("cmu-pie", {"case": 4}) is None:
            there.insert(0, _cmu_pie(4))
            missing += ("case 4 of cmu-pie is shown in the place of case 5",)
        panels = [draw(f"{name}-{setting.data}", f"{title}: {setting.title}", setting, effort) for setting in there]
        return Experiment(name, title, _panels(*panels), missing)

    return make


def _pca(key: str, title: str, setting: Setting, effort: Effort) -> Panel:
    # 25 to 525 at an interval of 25, and 20 to 600 at one of 20, in the paper.
    step, most = (25, 525) if setting.data == "cmu-pie" else (20, 600)
    dimensions = [2 * step, 4 * step, 12 * step] if effort.coarse else list(range(step, most + 1, step))
    places = [
        Place(method, str(k), cell)
        for method in _methods(setting, effort, ("PCA", *_MULTI_VIEW))
        for k in dimensions
        for cell in _cells(setting, method, effort, search={"pca": (k,)})
    ]
    return Panel(key, title, "curve", tuple(places), x_label="PCA dimension")


def _train_size(key: str, title: str, setting: Setting, effort: Effort) -> Panel:
    first = 20 if setting.data == "cmu-pie" else 30
    sizes = [*range(first, setting.n_train, 15 if effort.coarse else 5), setting.n_train]
    places = [
        Place(method, str(n), cell)
        for method in _methods(setting, effort, ("PCA", *_MULTI_VIEW))
        for n in sizes
        for cell in _cells(setting, method, effort, n_train=n)
    ]
    return Panel(key, title, "curve", tuple(places), x_label="classes to train with")


def _latent(key: str, title: str, setting: Setting, effort: Effort) -> Panel:
    places = [
        Place(method, "", cell)
        for method in _methods(setting, effort, ("MvHE", "KMvHE"))
        for cell in _cells(setting, method, effort, task="dimensions")
    ]
    return Panel(key, title, "dimensions", tuple(places), x_label="dimension of the common space")


def _parameters(key: str, title: str, setting: Setting, effort: Effort) -> Panel:
    places = [
        Place(method, "", cell)
        for method in _methods(setting, effort, ("MvHE", "KMvHE"))
        for cell in _cells(setting, method, effort, task="parameters", parameters=_DEFAULTS[method])
    ]
    return Panel(key, title, "parameters", tuple(places))


def _plane(key: str, title: str, setting: Setting, effort: Effort) -> Panel:
    places = [
        Place(method, "", next(_cells(setting, method, effort, parameters={"n_components": 2})))
        for method in _methods(setting, effort, _MULTI_VIEW)
    ]
    return Panel(key, title, "embeddings", tuple(places))


def _panels(*panels: Panel) -> tuple[Panel, ...]:
    """Those in which there is something."""
    return tuple(panel for panel in panels if panel.places)


_PIE_CASES = [_cmu_pie(case) for case in cmu_pie.CASES]
_COIL_CASES = [_coil(case) for case in coil100.CASES]
_TWO_SENSORS = [Setting("hfb", 60, 2), Setting("cufsf", 700, 2)]

EXPERIMENTS: dict[str, Maker] = {
    "table-1": _comparison("table-1", "Accuracy on HFB and CUFSF", _TWO_SENSORS, "pairs"),
    "table-2": _ablation("table-2", "Parts of MvHE on CMU PIE", _PIE_CASES),
    "table-3": _comparison("table-3", "Accuracy on CMU PIE", _PIE_CASES),
    "table-4": _outliers("table-4", "Permuted labels, CMU PIE case 5", _cmu_pie(5), (0, 5, 10, 15, 20)),
    "table-5": _times("table-5", "Training times at the sizes of CMU PIE"),
    "table-6": _comparison("table-6", "Accuracy on COIL-100", _COIL_CASES),
    "table-7": _outliers("table-7", "Permuted labels, COIL-100 case 2", _coil(2), (0, 10, 20, 30, 40)),
    "figure-2d": _figure("figure-2d", "Embeddings in the plane", _plane, coil=False),
    "figure-pca": _figure("figure-pca", "Accuracy against the PCA dimension", _pca),
    "figure-dims": _figure("figure-dims", "Accuracy against the dimension of the common space", _latent),
    "figure-train-size": _figure("figure-train-size", "Accuracy against the number of classes", _train_size),
    "figure-parameters": _figure("figure-parameters", "Effect of the parameters", _parameters, coil=False),
}
"""Name → what makes its plan, in the paper's order."""
