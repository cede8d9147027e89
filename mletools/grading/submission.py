"""Read a submission: untrusted bytes in, a data frame aligned with the answers out, or a reason that an agent can act on.

Bounded: bytes (32 MB), columns (1,000), rows (twice those of the answers, then it cannot be right). Text only: no
pickles, no compression, no formulas are looked at.
"""

import csv
import functools
import io
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..records.errors import ToolError

MAX_BYTES = 32 * 1024 * 1024
MAX_COLUMNS = 1000
ROW_SUM_TOLERANCE = 1e-3


class Invalid(ValueError):
    """The submission cannot be graded; the message tells the agent why."""


def read_answers(path: str, spec: Mapping[str, Any]) -> Any:
    """The answers as a data frame: ids as text, targets parsed as the task says. ToolError when they cannot be read."""
    return _answers(path, tuple(spec["id"]), tuple(spec["target"]), spec["parse"])


@functools.lru_cache(maxsize=64)
def _answers(path: str, ids: tuple[str, ...], target: tuple[str, ...], parse: str) -> Any:
    import pandas

    try:
        frame = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise ToolError(
            f"{path}: cannot read the answers: {error}; is --data the folder that mle-gen-task wrote to?"
        ) from None
    missing = [name for name in (*ids, *target) if name not in frame.columns]
    if missing:
        raise ToolError(f"{path}: the answers have no column {missing[0]!r}")
    if parse == "number":
        for name in target:
            frame[name] = pandas.to_numeric(frame[name])
    else:
        for name in target:
            frame[name] = frame[name].map(canonical_label)
    frame = frame.set_index(list(ids), drop=False)
    if frame.index.has_duplicates:
        raise ToolError(f"{path}: id {frame.index[frame.index.duplicated()][0]!r} stands in two rows of the answers")
    return frame


def canonical_label(value: Any) -> str:
    """A label as text; whole numbers lose their decimal point, so that 1.0 and 1 are one label."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def read_submission(content: bytes, spec: Mapping[str, Any], answers: Any) -> Any:
    """The submission's targets in the answers' row order. Invalid with a reason otherwise."""
    frame = _parse_csv(content, len(answers))
    for name in (*spec["id"], *spec["target"]):
        if name not in frame.columns:
            raise Invalid(f"column {name!r} is missing; the columns are {', '.join(map(repr, frame.columns[:20]))}")
    frame = _align(frame, list(spec["id"]), answers)
    for name in spec["target"]:
        frame[name] = _numbers(frame, name, spec) if spec["parse"] == "number" else _labels(frame, name, spec)
    if "row_sum" in spec:
        sums = frame[list(spec["target"])].sum(axis=1)
        wrong = (sums - spec["row_sum"]).abs() > ROW_SUM_TOLERANCE
        if wrong.any():
            row = wrong.to_numpy().argmax()
            raise Invalid(f"the targets of {_row(frame, row)} sum to {sums.iloc[row]:.5g}, not {spec['row_sum']:g}")
    return frame


def _parse_csv(content: bytes, rows: int) -> Any:
    import pandas

    if len(content) > MAX_BYTES:
        raise Invalid(f"the file has {len(content)} bytes; at most {MAX_BYTES} are read")
    header = content.split(b"\n", 1)[0]
    if not header.strip():
        raise Invalid(
            "the file is empty" if not content.strip() else "the first line is empty: it must name the columns"
        )
    if header.count(b",") >= MAX_COLUMNS:
        raise Invalid(f"the first line names more than {MAX_COLUMNS} columns")
    if b"\0" in content:
        raise Invalid("the file holds NUL bytes: it must be CSV text")
    names = next(csv.reader([header.decode("utf-8-sig", errors="replace").rstrip("\r")]))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:  # pandas would rename the second
        raise Invalid(f"column {twice[0]!r} appears twice")
    try:
        frame = pandas.read_csv(
            io.BytesIO(content),
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            index_col=False,
            nrows=2 * rows + 1,
        )
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text") from None
    except (ValueError, OverflowError) as error:  # every parser error of pandas is a ValueError
        raise Invalid(f"the file is not CSV: {str(error).strip().splitlines()[0]}") from None
    return frame


def _row(frame: Any, row: int) -> str:
    key = frame.index[row]
    return f"row {key!r}"


def _align(frame: Any, ids: list[str], answers: Any) -> Any:
    """The rows in the answers' order; Invalid for missing, doubled or foreign ids."""
    frame = frame.set_index(ids, drop=False)
    if frame.index.has_duplicates:
        raise Invalid(f"id {frame.index[frame.index.duplicated()][0]!r} appears twice")
    foreign = ~frame.index.isin(answers.index)
    if foreign.any():
        raise Invalid(f"id {frame.index[foreign.argmax()]!r} is not in the test set ({int(foreign.sum())} such rows)")
    missing = ~answers.index.isin(frame.index)
    if missing.any():
        raise Invalid(
            f"{int(missing.sum())} of {len(answers)} rows are missing, for example id {answers.index[missing.argmax()]!r}"
        )
    return frame.reindex(answers.index)


def _numbers(frame: Any, name: str, spec: Mapping[str, Any]) -> Any:
    import numpy
    import pandas

    values = pandas.to_numeric(frame[name], errors="coerce").astype(float)
    bad = ~numpy.isfinite(values.to_numpy())
    if bad.any():
        row = bad.argmax()
        raise Invalid(f"column {name!r} of {_row(frame, row)} is {frame[name].iloc[row][:50]!r}, not a finite number")
    if "range" in spec:
        low, high = spec["range"]
        outside = ((values < low) | (values > high)).to_numpy()
        if outside.any():
            row = outside.argmax()
            raise Invalid(f"column {name!r} of {_row(frame, row)} is {values.iloc[row]:g}, outside [{low:g}, {high:g}]")
    return values


def _labels(frame: Any, name: str, spec: Mapping[str, Any]) -> Any:
    values = frame[name].map(canonical_label)
    if "labels" in spec:
        known = [canonical_label(label) for label in spec["labels"]]
        foreign = ~values.isin(known).to_numpy()
        if foreign.any():
            row = foreign.argmax()
            raise Invalid(
                f"column {name!r} of {_row(frame, row)} is {values.iloc[row][:50]!r}, not one of {', '.join(known[:20])}"
            )
    elif (values == "").any():
        raise Invalid(f"column {name!r} has empty labels")
    return values
