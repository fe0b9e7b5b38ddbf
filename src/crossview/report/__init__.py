"""Reports: results as one self-contained page, with tables and figures for papers next to it."""

from crossview.report.document import (
    Bars,
    Curve,
    Curves,
    Embedding2D,
    Embeddings,
    Entry,
    Facts,
    HeatMap,
    HeatMaps,
    Item,
    Match,
    MatchBrowser,
    Probe,
    Report,
    ResultTable,
    Section,
)
from crossview.report.folder import write_report

__all__ = [
    "Bars",
    "Curve",
    "Curves",
    "Embedding2D",
    "Embeddings",
    "Entry",
    "Facts",
    "HeatMap",
    "HeatMaps",
    "Item",
    "Match",
    "MatchBrowser",
    "Probe",
    "Report",
    "ResultTable",
    "Section",
    "write_report",
]
