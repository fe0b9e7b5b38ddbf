"""Match across views: learn one map per view into a common space, and match there.

>>> import crossview as cv
>>> data = cv.datasets.load_digits()
>>> model = cv.KMvHE(n_components=10).fit(data.views[:300], data.y[:300])
>>> bool(model.score(data.views[300:600], data.y[300:600]) > 0.5)
True
"""

from crossview import datasets, exceptions, metrics, plot
from crossview._config import config_context, get_config, set_config
from crossview._schema import register
from crossview._transformer import transform_view
from crossview._version import __version__
from crossview.embeddings import BASELINES, METHODS
from crossview.embeddings.baselines import RawFeatures, SemanticMatching
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.correlation import CCA, MCCA, PCA, PLS
from crossview.embeddings.discriminant import GMA, LDA, MULDA, MvDA, MvDAVC, MvMDA
from crossview.embeddings.hybrid import MvHE
from crossview.embeddings.kernel import KCCA, KMvHE
from crossview.embeddings.locality import DLA, LPP, NCA, MvDLA
from crossview.feature_maps import ViewKernel
from crossview.files import export_onnx, load, save
from crossview.matching.classifier import CrossViewClassifier
from crossview.matching.evaluation import Evaluation, evaluate, evaluate_probes
from crossview.model_selection.committee import Committee
from crossview.model_selection.search import EmbeddingSearchCV
from crossview.model_selection.splits import ClassSplit, SampleSplit
from crossview.model_selection.tuning import tune
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.views import Views

__all__ = [
    "BASELINES",
    "CCA",
    "DLA",
    "GMA",
    "KCCA",
    "LDA",
    "LPP",
    "MCCA",
    "METHODS",
    "MULDA",
    "NCA",
    "PCA",
    "PLS",
    "ClassSplit",
    "Committee",
    "Contrastive",
    "CrossViewClassifier",
    "EmbeddingSearchCV",
    "Evaluation",
    "KMvHE",
    "MvDA",
    "MvDAVC",
    "MvDLA",
    "MvHE",
    "MvMDA",
    "RawFeatures",
    "SampleSplit",
    "SemanticMatching",
    "ViewKernel",
    "ViewPCA",
    "ViewScaler",
    "Views",
    "__version__",
    "config_context",
    "datasets",
    "evaluate",
    "evaluate_probes",
    "exceptions",
    "export_onnx",
    "get_config",
    "load",
    "metrics",
    "plot",
    "register",
    "save",
    "set_config",
    "transform_view",
    "tune",
]
