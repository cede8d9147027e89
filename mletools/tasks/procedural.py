"""Procedural tables of 50 to 200 rows: columns from a scenario, a target from a hidden rule, noise, a few blemishes.

All that a draw decides is the table's DNA (problem, rows, columns, terms, noise, gaps, balance), kept in the
provenance. Not covered: other modalities than tables.
"""

import json
from pathlib import Path
from typing import Any

from .rule import Category, Number, compose
from .table import Column, Rejected, Table, fixed

ROWS = (50, 200)


def procedural_table(draws: Any) -> Table:
    """A table drawn with the RandomState `draws`. Rejected when the rule came out flat."""
    scenarios = json.loads((Path(__file__).parent / "scenarios.json").read_text(encoding="utf-8"))
    scenario = scenarios[draws.randint(len(scenarios))]
    dna = draw_dna(scenario, draws)
    numbers, number_cells = _draw_numbers(_pick(scenario["numbers"], dna["numbers"], draws), dna["rows"], draws)
    categories, category_cells = _draw_categories(
        _pick(scenario["categories"], dna["categories"], draws), dna["rows"], draws
    )
    relevant = numbers[: dna["relevant_numbers"]], categories[: dna["relevant_categories"]]
    try:
        signal, terms = compose(*relevant, dna["terms"], draws)
    except ValueError as error:
        raise Rejected(str(error)) from None
    hidden = signal + dna["noise"] * draws.normal(size=dna["rows"])
    target, labels, answers, turned = _target(scenario, dna, hidden)
    cells = {**number_cells, **category_cells}
    _gaps(cells, dna, draws)
    features = [_column(entry) for entry in scenario["numbers"] + scenario["categories"] if entry["name"] in cells]
    used = {name for term in terms for name in term.columns}
    return Table(
        name=scenario["key"],
        title=scenario["title"],
        context=scenario["context"],
        problem=dna["problem"],
        features=features,
        targets=[target],
        cells={**cells, target.name: answers},
        labels=labels,
        positive=labels[-1] if len(labels) == 2 else "",
        origin={
            "answers_public": False,
            "scenario": scenario["key"],
            "dna": {**dna, "families": [term.family for term in terms]},
            "hidden_rule": f"{' + '.join(term.words for term in terms)}; noise of {dna['noise']} deviations; {turned}",
            "irrelevant": [column.name for column in features if column.name not in used],
        },
    )


def draw_dna(scenario: dict[str, Any], draws: Any) -> dict[str, Any]:
    """The choices that shape a table, as JSON values; `noise` in deviations of the signal, shares between 0 and 1."""
    numbers = int(draws.randint(4, len(scenario["numbers"]) + 1))
    categories = int(draws.randint(1, len(scenario["categories"]) + 1))
    problem = ("binary_classification", "multiclass_classification", "regression")[draws.randint(3)]
    several = len(scenario["classes"]["levels"])
    labels = {"binary_classification": 2, "multiclass_classification": several}.get(problem, 0)
    shares: list[float] = []
    if labels:
        rare = float(draws.choice([1.0, 1.0, 0.6, 0.4]))
        weights = [1.0] * labels
        weights[draws.randint(labels)] = rare
        shares = [round(weight / sum(weights), 3) for weight in weights]
    return {
        "problem": problem,
        "rows": int(draws.randint(ROWS[0], ROWS[1] + 1)),
        "numbers": numbers,
        "categories": categories,
        "relevant_numbers": min(numbers - 1, int(draws.randint(3, 6))),
        "relevant_categories": int(draws.randint(0, categories + 1)),
        "terms": int(draws.randint(3, 6)),
        "noise": round(float(draws.uniform(0.1, 0.45)), 2),
        "gap_columns": int(draws.choice([0, 0, 1, 2, 3])),
        "gap_share": round(float(draws.uniform(0.03, 0.12)), 3),
        "class_shares": shares,
    }


def _pick(entries: list[dict[str, Any]], count: int, draws: Any) -> list[dict[str, Any]]:
    return [entries[at] for at in draws.permutation(len(entries))[:count]]


def _draw_numbers(entries: list[dict[str, Any]], rows: int, draws: Any) -> tuple[list[Number], dict[str, list[str]]]:
    """Columns spread evenly or in a bell over their range. The rule sees the rounded values that the files show."""
    import numpy as np

    numbers, cells = [], {}
    for entry in entries:
        low, high, decimals = entry["low"], entry["high"], entry["decimals"]
        even = draws.randint(2)
        place = draws.uniform(size=rows) if even else np.clip(draws.normal(0.5, 0.2, size=rows), 0, 1)
        cells[entry["name"]] = [fixed(value, decimals) for value in low + place * (high - low)]
        seen = np.array([float(cell) for cell in cells[entry["name"]]])
        numbers.append(Number(entry["name"], entry["unit"], low, high, decimals, (seen - low) / (high - low)))
    return numbers, cells


def _draw_categories(
    entries: list[dict[str, Any]], rows: int, draws: Any
) -> tuple[list[Category], dict[str, list[str]]]:
    categories, cells = [], {}
    for entry in entries:
        code = draws.randint(len(entry["levels"]), size=rows)
        cells[entry["name"]] = [entry["levels"][at] for at in code]
        categories.append(Category(entry["name"], entry["levels"], code))
    return categories, cells


def _target(scenario: dict[str, Any], dna: dict[str, Any], hidden: Any) -> tuple[Column, list[str], list[str], str]:
    """(target column, its labels, its cells, how the hidden value was turned into it)."""
    import numpy as np

    if dna["problem"] == "regression":
        entry = scenario["quantity"]
        place = (hidden - hidden.min()) / (hidden.max() - hidden.min())
        cells = [fixed(value, entry["decimals"]) for value in entry["low"] + place * (entry["high"] - entry["low"])]
        turned = f"stretched linearly to {entry['low']} to {entry['high']} {entry['unit']}".rstrip()
        return _column(entry), [], cells, turned
    entry = scenario["binary" if dna["problem"] == "binary_classification" else "classes"]
    # By rank, so that the last bit of a sum cannot move a row across a cut by itself.
    rank = np.argsort(np.argsort(np.round(hidden, 9), kind="stable"), kind="stable")
    cuts = np.round(np.cumsum(dna["class_shares"])[:-1] * len(hidden))
    cells = [entry["levels"][int(np.searchsorted(cuts, at, side="right"))] for at in rank]
    return _column(entry), entry["levels"], cells, f"cut by rank into {', '.join(entry['levels'])}, lowest first"


def _gaps(cells: dict[str, list[str]], dna: dict[str, Any], draws: Any) -> None:
    """Empties cells at random in some columns, in place."""
    names = sorted(cells)
    for at in draws.permutation(len(names))[: dna["gap_columns"]]:
        gone = draws.uniform(size=dna["rows"]) < dna["gap_share"]
        cells[names[at]] = ["" if empty else cell for cell, empty in zip(cells[names[at]], gone, strict=True)]


def _column(entry: dict[str, Any]) -> Column:
    return Column(entry["name"], entry["meaning"], entry.get("unit", ""), "levels" not in entry)
