"""The paper's tables and figures as cells to compute.

J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing and C. L. P. Chen, Multi-view Hybrid Embedding: A Divide-and-Conquer Approach,
IEEE Transactions on Cybernetics. Tables have the paper's numbers.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from crossview.embeddings import METHODS
from crossview.experiments.cells import Cell, Search, Split
from crossview.experiments.plans import Panel, Place, committee_name
from paper.data import COIL_CASES, PIE_CASES
from paper.tasks import PaperCell

Lacks: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
Planner: TypeAlias = "Callable[[str, Effort, Lacks], Experiment]"
PanelMaker: TypeAlias = "Callable[[str, str, Setting, Effort], PaperPanel]"

AS_PRINTED = "as printed in the paper"
"""Suffix of the rows with training times of the paper's algorithm."""

_N_SPLITS = 100
_N_FOLDS = 5
_SLOW = ("MULDA", "MCCA")  # they find directions one after another; their searches draw a third of the settings
_MULTI_VIEW = ("MCCA", "MvDLA", "GMA", "MULDA", "MvDA", "MvMDA", "MvDA-VC", "MvHE", "KMvHE")
_SUPERVISED = tuple(name for name in _MULTI_VIEW if name != "MCCA")

# The ranges in which the paper's section on parameters finds both methods at their best: "λ1 in [1e-4, 1e-1] and λ2 in
# [1e-2, 1e-1]", "λ1 in [1e-4, 5e-2] and λ2 in [1e-4, 1e-2]", a relatively large p2, and β of 0.1 and 1.1. Other kinds
# of data need other values, so the values of `crossview.tune` are wider.
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

_COUPLINGS = (0.0, 1.0, 4.0, 16.0)

# The paper's defaults, from which it varies one group of parameters at a time.
_DEFAULTS: dict[str, dict[str, float]] = {
    "MvHE": {"lambda_intra": 1e-2, "lambda_inter": 5e-2, "n_within": 1, "n_between": 15, "beta": 0.1},
    "KMvHE": {"lambda_intra": 5e-3, "lambda_inter": 1e-3, "n_within": 3, "n_between": 15, "beta": 1.1},
}
_PARTS = {"paired": "lambda_paired", "intra": "lambda_intra", "inter": "lambda_inter"}


@dataclass(frozen=True)
class PaperPanel(Panel):
    """A table or frame of the paper."""

    kind: str  # how results are combined: see `paper.report`
    x_label: str = ""  # meaning of columns that are numbers


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: its panels, and the reasons why parts of it cannot run."""

    name: str
    title: str
    panels: tuple[PaperPanel, ...]
    missing: tuple[str, ...] = ()

    @property
    def cells(self) -> list[Any]:
        """All cells; several may be equal."""
        return [place.cell for panel in self.panels for place in panel.places]


@dataclass(frozen=True)
class Effort:
    """How much of a protocol to run."""

    repeats: int = 10  # random splits, as many as in the paper
    n_iter: int | None = 48  # parameter combinations that each search draws at random; None tries all
    pca: Sequence[int] = (20, 40, 80, 120, 160)  # dimensions to traverse
    coarse: bool = False  # figures show only a few of the paper's points
    methods: Sequence[str] = tuple(METHODS)  # to run, where an experiment has a choice
    cases: Sequence[int] = ()  # to run in tables that have several; all if empty
    scoring: str = "accuracy_with_counterparts"  # of a fold; the paper does not name it
    n_members: int = 1  # if more, accuracy tables also show each method as a committee of its best settings
    coupled: bool = False  # also search for the coupling, which the paper lacks
    seed: int = 0  # of the splits


QUICK = Effort(repeats=2, n_iter=6, pca=(40, 160), coarse=True)
"""The same protocols with fewer repeats, coarser grids and fewer points."""


@dataclass(frozen=True)
class Setting:
    """Data and training size: a column of a table, or a panel of a figure."""

    data: str
    n_train: int
    n_views: int
    case: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options to load the data with."""
        return {} if self.case is None else {"case": self.case}

    @property
    def title(self) -> str:
        """Name of the data in the paper."""
        name = {"cmu-pie": "CMU PIE", "coil100": "COIL-100"}.get(self.data, self.data.upper())
        return name if self.case is None else f"{name}, case {self.case}"

    def __str__(self) -> str:
        return self.data if self.case is None else f"{self.data} case {self.case}"


@cache
def published() -> Mapping[str, Mapping[str, Any]]:
    """The paper's tables by name, as ``columns`` and ``rows``; an entry is mean, standard deviation, relative loss."""
    tables: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
    return tables


def plan(name: str, effort: Effort, lacks: Lacks) -> Experiment:
    """List the cells of a table or figure; ``lacks(data, options)`` returns why data cannot be loaded, or None."""
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}: use one of {', '.join(EXPERIMENTS)}.")
    experiment = EXPERIMENTS[name](name, effort, lacks)
    return replace(experiment, panels=tuple(panel for panel in experiment.panels if panel.places))


def _cmu_pie(case: int) -> Setting:
    return Setting("cmu-pie", 45, len(PIE_CASES[case]), case)


def _coil(case: int) -> Setting:
    return Setting("coil100", 70, len(COIL_CASES[case]), case)


def _cells(setting: Setting, method: str, effort: Effort, **changes: Any) -> Iterator[Cell]:
    """One cell for every repeat. As in the paper, galleries keep the counterparts of the probes."""
    n_iter = max(1, effort.n_iter // 3) if effort.n_iter is not None and method in _SLOW else effort.n_iter
    published = _SPACES.get(method, METHODS[method].search_space)
    grid = {name: values for name, values in published.items() if name not in ("coupling", "whitening")}
    if effort.coupled and "coupling" in METHODS[method].search_space:
        grid["coupling"] = _COUPLINGS
    elif method in _DEFAULTS:  # others are not coupled by default
        grid["coupling"] = [0.0]
    search = Search(pca=tuple(effort.pca), n_iter=n_iter, scoring=effort.scoring, n_folds=_N_FOLDS, grid=grid)
    changed = {
        # A fixed number of splits, so that adding repeats later reuses the cells already computed.
        "split": Split("classes", changes.pop("n_train", setting.n_train), max(effort.repeats, _N_SPLITS), effort.seed),
        "search": replace(search, **changes.pop("search", {})),
        **changes,
    }
    for k in range(effort.repeats):
        yield PaperCell(data=setting.data, method=method, options=setting.options, repeat=k, seed=k, **changed)


def _places(row: str, column: str, setting: Setting, method: str, effort: Effort, **changes: Any) -> list[Place]:
    """A method and, if there are members, its committee, both from the same searches."""
    cells = list(_cells(setting, method, effort, search={"n_members": effort.n_members}, **changes))
    places = [Place(row, column, cell) for cell in cells]
    if effort.n_members > 1:
        places += [Place(committee_name(row, effort.n_members), column, cell, "committee") for cell in cells]
    return places


def _available(
    settings: Sequence[Setting], lacks: Lacks, cases: Sequence[int] = ()
) -> tuple[list[Setting], tuple[str, ...]]:
    """Settings of these cases whose data are available, and the reasons why others cannot run."""
    wanted = [setting for setting in settings if not cases or setting.case in (None, *cases)]
    reasons = {setting: lacks(setting.data, setting.options) for setting in wanted}
    missing = tuple(f"{setting} cannot run: {reason}" for setting, reason in reasons.items() if reason)
    return [setting for setting in wanted if not reasons[setting]], missing


def _methods(setting: Setting, effort: Effort, among: Sequence[str] = tuple(METHODS)) -> list[str]:
    """The requested methods that support the setting's number of views."""
    wanted = [name for name in among if name in effort.methods]
    return [name for name in wanted if setting.n_views == 2 or not METHODS[name]._needs_two_views]


def _comparison(
    name: str, effort: Effort, lacks: Lacks, title: str, settings: Sequence[Setting], kind: str = "accuracy"
) -> Experiment:
    """All methods in several settings."""
    available, missing = _available(settings, lacks, effort.cases)
    places: list[Place] = []
    for method in METHODS:
        for setting in available:
            column = str(setting) if kind == "pairs" else f"case {setting.case}"
            if method in _methods(setting, effort):
                places += _places(method, column, setting, method, effort)
    places.sort(key=lambda place: bool(place.part))
    return Experiment(name, title, (PaperPanel(name, title, tuple(places), kind),), missing)


def _ablation(name: str, effort: Effort, lacks: Lacks, title: str, settings: Sequence[Setting]) -> Experiment:
    """MvHE with some of its three parts."""
    available, missing = _available(settings, lacks, effort.cases)
    places: list[Place] = []
    for row in ("paired", "intra", "inter", "paired+intra", "paired+inter", "intra+inter", "paired+intra+inter"):
        left_out = {weight: 0.0 for part, weight in _PARTS.items() if part not in row.split("+")}
        for setting in available:
            cells = _cells(setting, "MvHE", effort, parameters=left_out)
            places += [Place(row, f"case {setting.case}", cell) for cell in cells]
    return Experiment(name, title, (PaperPanel(name, title, tuple(places), "accuracy"),), missing)


def _outliers(
    name: str, effort: Effort, lacks: Lacks, title: str, setting: Setting, shares: Sequence[int]
) -> Experiment:
    """Accuracy with a share of the training labels permuted."""
    available, missing = _available([setting], lacks)
    places = [
        place
        for method in (_methods(setting, effort, _SUPERVISED) if available else ())
        for share in shares
        for place in _places(method, str(share), setting, method, effort, outliers=share / 100)
    ]
    panel = PaperPanel(name, title, tuple(places), "outliers", x_label="permuted labels, %")
    return Experiment(name, title, (panel,), missing)


def _times(name: str, effort: Effort, lacks: Lacks, title: str) -> Experiment:
    """Training times of this package's implementation, and of the algorithm as printed in the paper."""
    rows: list[tuple[str, str, Mapping[str, Any], str]] = []
    rows += [(method, method, _DEFAULTS.get(method, {}), "time") for method in _MULTI_VIEW]
    rows += [("MCCA, one constraint for all views", "MCCA", {"constraint": "joint"}, "time")]
    rows += [(f"{method} {AS_PRINTED}", method, fixed, "literal-time") for method, fixed in _DEFAULTS.items()]
    places = []
    for case in (1, 4, 7, 8):
        for row, method, fixed, task in rows:
            if method in effort.methods and (not effort.cases or case in effort.cases):
                options, parameters = {"n_views": len(PIE_CASES[case])}, {"n_components": 20, **fixed}
                if task == "time" and method in _DEFAULTS:
                    parameters["coupling"] = 0.0
                cell = PaperCell(data="paper-sizes", method=method, options=options, parameters=parameters, task=task)
                places.append(Place(row, f"case {case}", cell))
    return Experiment(name, title, (PaperPanel(name, title, tuple(places), "times"),))


def _figure(name: str, effort: Effort, lacks: Lacks, title: str, panel: PanelMaker, *, coil: bool = True) -> Experiment:
    """One panel per data set. CMU PIE case 4 replaces case 5 if poses are missing."""
    available, missing = _available([_cmu_pie(5), _coil(2)] if coil else [_cmu_pie(5)], lacks)
    if _cmu_pie(5) not in available and lacks("cmu-pie", {"case": 4}) is None:
        available.insert(0, _cmu_pie(4))
        missing += ("cmu-pie case 4 is shown instead of case 5",)
    panels = [panel(f"{name}-{one.data}", f"{title}: {one.title}", one, effort) for one in available]
    return Experiment(name, title, tuple(panels), missing)


def _by_pca_dimension(key: str, title: str, setting: Setting, effort: Effort) -> PaperPanel:
    # In the paper, 25 to 525 in steps of 25, and 20 to 600 in steps of 20.
    step, most = (25, 525) if setting.data == "cmu-pie" else (20, 600)
    dimensions = [2 * step, 4 * step, 12 * step] if effort.coarse else range(step, most + 1, step)
    columns = {str(k): {"search": {"pca": (k,)}} for k in dimensions}
    places = _grid(setting, effort, ("PCA", *_MULTI_VIEW), columns)
    return PaperPanel(key, title, places, "curve", x_label="PCA dimension")


def _by_train_size(key: str, title: str, setting: Setting, effort: Effort) -> PaperPanel:
    first = 20 if setting.data == "cmu-pie" else 30
    sizes = [*range(first, setting.n_train, 15 if effort.coarse else 5), setting.n_train]
    places = _grid(setting, effort, ("PCA", *_MULTI_VIEW), {str(n): {"n_train": n} for n in sizes})
    return PaperPanel(key, title, places, "curve", x_label="training classes")


def _by_latent_dimension(key: str, title: str, setting: Setting, effort: Effort) -> PaperPanel:
    places = _grid(setting, effort, tuple(_DEFAULTS), {"": {"task": "dimensions"}})
    return PaperPanel(key, title, places, "dimensions", x_label="dimension of the common space")


def _by_parameters(key: str, title: str, setting: Setting, effort: Effort) -> PaperPanel:
    places = [
        place
        for method, fixed in _DEFAULTS.items()
        for place in _grid(setting, effort, (method,), {"": {"task": "parameters", "parameters": fixed}})
    ]
    return PaperPanel(key, title, tuple(places), "parameters")


def _in_the_plane(key: str, title: str, setting: Setting, effort: Effort) -> PaperPanel:
    columns = {"": {"parameters": {"n_components": 2}}}
    return PaperPanel(key, title, _grid(setting, replace(effort, repeats=1), _MULTI_VIEW, columns), "embeddings")


def _grid(
    setting: Setting, effort: Effort, methods: Sequence[str], columns: Mapping[str, Mapping[str, Any]]
) -> tuple[Place, ...]:
    """Methods × columns, where each column changes the cells in its own way."""
    return tuple(
        Place(method, column, cell)
        for method in _methods(setting, effort, methods)
        for column, changes in columns.items()
        for cell in _cells(setting, method, effort, **changes)
    )


_PIE_CASES = [_cmu_pie(case) for case in PIE_CASES]
_COIL_CASES = [_coil(case) for case in COIL_CASES]
_TWO_SENSORS = [Setting("hfb", 60, 2), Setting("cufsf", 700, 2)]
_PIE_SHARES, _COIL_SHARES = (0, 5, 10, 15, 20), (0, 10, 20, 30, 40)

EXPERIMENTS: dict[str, Planner] = {
    "table-1": partial(_comparison, title="Accuracy on HFB and CUFSF", settings=_TWO_SENSORS, kind="pairs"),
    "table-2": partial(_ablation, title="Parts of MvHE on CMU PIE", settings=_PIE_CASES),
    "table-3": partial(_comparison, title="Accuracy on CMU PIE", settings=_PIE_CASES),
    "table-4": partial(_outliers, title="Permuted labels, CMU PIE case 5", setting=_cmu_pie(5), shares=_PIE_SHARES),
    "table-5": partial(_times, title="Training times at the sizes of CMU PIE"),
    "table-6": partial(_comparison, title="Accuracy on COIL-100", settings=_COIL_CASES),
    "table-7": partial(_outliers, title="Permuted labels, COIL-100 case 2", setting=_coil(2), shares=_COIL_SHARES),
    "figure-2d": partial(_figure, title="Embeddings in the plane", panel=_in_the_plane, coil=False),
    "figure-pca": partial(_figure, title="Accuracy by PCA dimension", panel=_by_pca_dimension),
    "figure-dims": partial(_figure, title="Accuracy by dimension of the common space", panel=_by_latent_dimension),
    "figure-train-size": partial(_figure, title="Accuracy by number of training classes", panel=_by_train_size),
    "figure-parameters": partial(_figure, title="Effect of the parameters", panel=_by_parameters, coil=False),
}
"""Name → planner, in the paper's order."""
