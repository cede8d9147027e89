"""One table in a file becomes a task: the way of the tables that are made here, with a metric and a split of its own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...grading import metrics
from ..describe import describe
from ..draft import Question, TaskDraft, dataset_of, held_out, make_draft, twins
from ..folder import ANSWERS
from ..forms import form_of
from ..record import Parts
from ..soundness import require
from ..table import Column, Rejected, Table
from .columns import Columns, features_of, is_number, labels_of
from .declare import MOST_LABELS, metric_part, parse_of
from .lookup import text_of
from .modality import modality_of
from .options import Candidate, ImportOptions
from .sheet import read_sheet
from .split import equal_rows, strata_of
from .targets import MOST_CLASSES, check_numbers, one_spelling, require_numbers, require_two, with_targets


def own_table(
    candidate: Candidate, options: ImportOptions, rng: Any, leaves_out: str | None = None
) -> tuple[Parts, TaskDraft]:
    """(the parts of the task, the draft for baselines), without the column `leaves_out`. Rejected with the reason."""
    if not options.target:
        raise Rejected("a table does not say what is to be predicted: give --target")
    sheet = read_sheet(candidate.path, options.dialect)
    columns = sheet.columns
    missing = [name for name in options.target if name not in columns]
    if missing:
        known = ", ".join(map(repr, list(columns)[:20]))
        raise Rejected(f"{candidate.path.name} has no column {missing[0]!r}; it has {known}")
    told = sheet.notes
    if not options.metric:
        for name in options.target:
            check_numbers(name, columns[name], sheet.lines)
    columns, lines, note = with_targets(sheet, options.target, options.keep_label)
    told += note
    if leaves_out is not None:
        del columns[leaves_out]
    for name in options.target:
        columns[name], note = one_spelling(name, columns[name])
        told += note
    key = _id_column(columns, options)
    if key in options.target:
        raise Rejected(f"column {key!r} is both the id and a target: name them with --id and --target")
    options = options if options.metric else _with_metric(options, columns)
    found = metric_part(options)
    reads = metrics.find(found["name"]).parse
    form = form_of(found["name"], reads, ["labels"] if len(options.target) == 1 else [])
    table = _table(candidate, options, columns, lines, key, form)
    if form == "other" or (table.labels and form == "probability" and len(table.labels) != 2):
        raise Rejected(f"{found['name']} does not fit {_told(table)}")
    rows = list(range(table.rows))
    groups, note = equal_rows(twins(table), (table.cells[column.name] for column in table.targets), rows)
    told += note
    test = held_out(rows, options.test_share, rng, strata_of(columns, options.target, rows, form), groups)
    if len(test) > table.rows - 2 or not test:
        raise Rejected(f"{table.rows} rows are too few to hold some out")
    question = Question(found, form, parse_of(form, reads))
    draft = make_draft(dataset_of(table), question, test, rng, table.id_name, table.ids)
    if len(kept := [label for label in table.labels if label in options.keep_label]) == 1:
        # pandas reads and writes this label as an empty cell
        draft = replace(draft, submission={**draft.submission, "missing_as": kept[0]})
    description = describe(draft)
    parts = Parts(
        name=table.name,
        description=text_of(Path(options.description)) if options.description else description,
        modality=modality_of(draft.public, draft.grading),
        problem=table.problem,
        public=draft.public,
        private={ANSWERS: draft.answers},
        grading={"submission": draft.submission, "metric": draft.metric, "answers": ANSWERS},
        provenance={
            "source": candidate.source,
            "seed": options.seed,
            "graded_by": "options",
            "rows_without_target": len(sheet.lines) - len(lines),
        },
    )
    if key is not None and options.id is None:
        try:
            require(parts.case(lambda _: 0.0), ("no_leak_ids",))
        except Rejected as rejected:
            parts, draft = own_table(candidate, options, rng, leaves_out=key)
            parts.provenance.setdefault("read_as", []).append(
                f"column {key!r} is left out, and ids are drawn ({rejected})"
            )
            return parts, draft
    if told:
        parts.provenance["read_as"] = told
    checks = ("train_test_separate", "answers_secret") if groups else ("answers_secret",)
    sanity = require(parts.case(lambda _: 0.0), checks)
    return replace(parts, provenance={**parts.provenance, "sanity": {**sanity}}), draft


def _id_column(columns: Columns, options: ImportOptions) -> str | None:
    """The column of ids: --id, or one that is called id and holds no value twice. None: ids are made."""
    if options.id is not None and options.id not in columns:
        raise Rejected(f"there is no column {options.id!r} for --id")
    key = options.id or next((name for name in columns if name.lower() == "id"), None)
    if key is not None and len(set(columns[key])) < len(columns[key]):
        raise Rejected(f"column {key!r} holds a value twice: name another with --id, or rename it")
    return key


def _with_metric(options: ImportOptions, columns: Columns) -> ImportOptions:
    """`options` with the metric that suits the targets: accuracy for classes, rmse for numbers."""
    cells = [cell for name in options.target for cell in columns[name]]
    numbers = is_number(cells)
    whole = numbers and all(float(cell).is_integer() for cell in set(cells))
    classes = not numbers or (whole and len(set(cells)) <= MOST_CLASSES and len(options.target) == 1)
    return replace(options, metric="accuracy" if classes else "rmse")


def _table(
    candidate: Candidate, options: ImportOptions, columns: Columns, lines: Sequence[int], key: str | None, form: str
) -> Table:
    """The table, its one target with labels where the form asks for classes."""
    labels: list[str] = []
    if form != "number":
        if len(options.target) > 1:
            raise Rejected(f"{options.metric} is for one --target here, not {len(options.target)}")
        labels = labels_of(columns[options.target[0]])
        require_two(options.target[0], columns[options.target[0]])
        if not 2 <= len(labels) <= MOST_LABELS:
            raise Rejected(
                f"column {options.target[0]!r} has {len(labels)} different values, such as {labels[0]!r}: "
                f"{options.metric} is for 2 to {MOST_LABELS} classes"
            )
    else:
        for name in options.target:
            require_numbers(f"{options.metric} reads numbers", name, columns[name], lines)
            require_two(name, columns[name])
    kinds = {0: "regression", 2: "binary_classification"}
    name = candidate.task_name
    return Table(
        name=name,
        title=name,
        context=f"The rows of `{name}`, a table of {len(columns)} columns.",
        problem=kinds.get(len(labels), "multiclass_classification"),
        features=features_of(columns, [*options.target, *([key] if key else [])]),
        targets=[Column(target, "", number=not labels) for target in options.target],
        cells=columns,
        labels=labels,
        positive=labels[-1] if len(labels) == 2 else "",
        id_name=key or "id",
        ids=columns[key] if key else [],
    )


def _told(table: Table) -> str:
    return f"a target of {len(table.labels)} labels" if table.labels else "a target of numbers"
