"""Reports: results as one self-contained page, with tables and figures for papers next to it.

The items that a report can show are in `crossview.report.document`.
"""

from crossview.report.document import Entry, Report, ResultTable, Section
from crossview.report.page import write_report

__all__ = ["Entry", "Report", "ResultTable", "Section", "write_report"]
