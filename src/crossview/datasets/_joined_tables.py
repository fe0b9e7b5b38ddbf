"""Tables of several views, joined by the identities of their rows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from crossview._text import first_few
from crossview.datasets._dataset import paired
from crossview.datasets._pairing import check_pairs, keys_by_pattern
from crossview.datasets._tables import Table, read_table
from crossview.views import Views


def join_tables(
    files: Sequence[Path], id_column: str, label_column: str, labelled: bool, pair_by: str | None
) -> tuple[Views, dict[str, str]]:
    """Join one table per view by the identities of their rows, or by what a pattern finds in them.

    Returns the views and, by identity, the labels, in the order in which samples first appear; a label is empty text if
    there is none.
    """
    tables: dict[str, Table] = {}
    for file in files:
        if file.stem in tables:
            raise ValueError(
                f"{file.parent} has two tables of the view {file.stem!r}, as .csv and .parquet: remove one."
            )
        table = read_table(file, id_column, label_column)
        tables[file.stem] = table if pair_by is None else _by_key(table, pair_by)
    labels = _labels(tables.values(), id_column)
    if labelled:
        _check_labels(tables.values(), labels, id_column, label_column)
        seen = {
            view: {key for key, row in table.rows.items() if not np.isnan(row[0])} for view, table in tables.items()
        }
        fix = f"The column {id_column!r} must match: correct it, or give a pattern for what ids share, such as "
        fix += r"--pair-by '(\d+)$' (pair_by=…)."
        check_pairs(
            seen, lambda view, key: f"{id_column} {key!r} of {tables[view].file}", "{}", fix, pair_by is not None
        )
    views = paired({view: table.rows for view, table in tables.items()}, list(labels))
    columns = [table.columns for table in tables.values()]
    return Views(views, feature_names=columns), labels


def _by_key(table: Table, pattern: str) -> Table:
    """The same table, its rows named after what a pattern finds in their identities."""
    keys = ["-".join(filter(None, found)) for found in keys_by_pattern(pattern, list(table.rows))]
    first: dict[str, str] = {}
    for identity, key in zip(table.rows, keys, strict=True):
        if (other := first.setdefault(key, identity)) != identity:
            both = f"{other!r} and {identity!r} of {table.file}"
            raise ValueError(f"pair_by finds {key!r} in {both}: write a pattern that tells them apart.")
    rows = dict(zip(keys, table.rows.values(), strict=True))
    return table._replace(rows=rows, labels=dict(zip(keys, table.labels.values(), strict=bool(table.labels))))


def _labels(tables: Iterable[Table], id_column: str) -> dict[str, str]:
    """The label of every identity, empty text if no table has one."""
    labels: dict[str, tuple[str, Path]] = {}
    for table in tables:
        for identity in table.rows:
            label = table.labels.get(identity, "")
            first, file = labels.get(identity, ("", table.file))
            if not first:
                labels[identity] = label, table.file
            elif label and first != label:
                raise ValueError(
                    f"{id_column} {identity!r} has the label {first!r} in {file}, but {label!r} in {table.file}: "
                    "correct one of them."
                )
    return {identity: label for identity, (label, _) in labels.items()}


def _check_labels(tables: Iterable[Table], labels: Mapping[str, str], id_column: str, label_column: str) -> None:
    """Refuse samples without a label."""
    for table in tables:
        missing = [identity for identity in table.rows if not labels[identity]]
        if missing and not table.labels:
            there = first_few([repr(name) for name in (id_column, *table.columns)], 10)
            raise ValueError(
                f"{table.file} has no column {label_column!r}, only {there}: add it to one of the tables, "
                "or rename the column that has the classes (in Python, pass its name as label_column)."
            )
        if missing:
            raise ValueError(f"{table.file} has no {label_column} for {id_column} {missing[0]!r}: fill it in.")
