"""The value of a rule becomes a target: classes, tags, a number, or grades inside the rows of a query.

Classes are cut by rank, so that the last bit of a sum cannot move a row across a cut by itself. Not covered: dense
targets (masks, futures, gaps), which a medium draws itself.
"""

from collections.abc import Callable

from ...grading import metrics
from ..dataset import Target
from ..table import Column, fixed
from .arrays import Array, Rng
from .dna import Dna
from .scenario import Classes, Scenario

# How a number is spread over its range, by name: words, and its share of the range at a place between 0 and 1, where
# `ratio` is highest over lowest.
SPREADS: dict[str, tuple[str, Callable[[Array, float], Array]]] = {
    "even": ("linearly", lambda place, ratio: place),
    "skewed": ("by equal ratios (a long upper tail)", lambda place, ratio: (ratio**place - 1) / (ratio - 1)),
    "late": ("with a long lower tail (the square root)", lambda place, ratio: place**0.5),
}
WHETHER = "whether "
# What even one who knows the rule leaves to chance: the share of rows near a cut that the noise moves over it.
LEAST_DOUBT = 0.01
# Fewer queries say little about a ranking: half of them are for the test.
LEAST_QUERIES = 12
# Of the rows of a query, the share that is worth finding.
RELEVANT = 0.35


def make_target(scenario: Scenario, dna: Dna, signals: list[Array], rng: Rng) -> Target:
    """The target of `dna["problem"]` out of rule values: one of shape (rows,) with deviation 1, for tags one a tag.

    `dna["noise"]` is the deviation of the noise that is added, `dna["flipped"]` the share of rows whose target is then
    replaced by that of another row.
    """
    return MAKERS[dna["problem"]](scenario, dna, signals, rng)


def _noisy(signal: Array, dna: Dna, rng: Rng) -> Array:
    import numpy as np

    return np.round(signal + dna["noise"] * rng.normal(size=len(signal)), 9)


def _flip(values: Array, dna: Dna, rng: Rng) -> Array:
    """The values, where a share of the rows has got the value of another row: wrong labels."""
    import numpy as np

    wrong = rng.uniform(size=len(values)) < dna["flipped"]
    return np.where(wrong, values[rng.permutation(len(values))], values)


def _classes(scenario: Scenario, dna: Dna, signals: list[Array], rng: Rng) -> Target:
    import numpy as np

    binary = dna["problem"] == "binary_classification"
    entry = scenario["binary"] if binary else scenario["classes"]
    hidden = _noisy(signals[0], dna, rng)
    rank = np.argsort(np.argsort(hidden, kind="stable"), kind="stable")
    places = np.round(np.cumsum(dna["class_shares"])[:-1] * len(hidden)).astype(int)
    code = _flip(np.searchsorted(places, rank, side="right"), dna, rng)
    cuts = np.sort(hidden)[np.clip(places, 0, len(hidden) - 1)]
    labels, meaning, asked = _asked_class(scenario, entry, dna, binary)
    return Target(
        problem=dna["problem"],
        columns=[Column(entry["name"], meaning, number=False)],
        cells={entry["name"]: [labels[at] for at in code]},
        y=code[:, None],
        known=_unsure(_between(signals[0], cuts, dna["noise"]), dna),
        words=f"cut by rank into {', '.join(entry['levels'])}, lowest first",
        labels=labels,
        asked=asked,
        event=meaning.removeprefix(WHETHER) if binary else "",
    )


def _asked_class(scenario: Scenario, entry: Classes, dna: Dna, binary: bool) -> tuple[list[str], str, str]:
    """(labels, meaning of the column in train.csv, the task in a sentence)."""
    name, meaning, levels, one = entry["name"], entry["meaning"], list(entry["levels"]), scenario["sample"]["one"]
    if metrics.find(dna["metric"]).ordered_classes:
        grades = ", ".join(f"{at} {level}" for at, level in enumerate(levels))
        asked = f"Predict the grade `{name}` ({meaning}) of each {one}, a whole number: {grades}."
        return [str(at) for at in range(len(levels))], f"{meaning}: {grades}", asked
    if dna["form"] == "probabilities":
        asked = f"Predict the probability of each value of `{name}` ({meaning}) for each {one}."
    elif not binary:
        asked = f"Predict the class `{name}` ({meaning}) of each {one}: {', '.join(f'`{level}`' for level in levels)}."
    elif dna["form"] == "probability":
        asked = f"Predict for each {one} the probability that {meaning.removeprefix(WHETHER)} (`{name}`)."
    else:
        asked = f"Predict for each {one} {meaning}: `{name}` is `{levels[1]}` if so, else `{levels[0]}`."
    return levels, meaning, asked


def _between(signal: Array, cuts: Array, noise: float) -> Array:
    """The probability of each class, (rows, classes): that signal + noise lies between its cuts."""
    import numpy as np
    from scipy.stats import norm

    below = norm.cdf((cuts[None, :] - signal[:, None]) / max(noise, 0.01))
    edges = np.hstack([np.zeros((len(signal), 1)), below, np.ones((len(signal), 1))])
    return np.round(np.clip(np.diff(edges, axis=1), 0, 1), 6)


def _unsure(known: Array, dna: Dna) -> Array:
    """Probabilities (rows, classes) of one who also knows how many labels are wrong, and is never quite sure."""
    import numpy as np

    doubt = max(dna["flipped"], LEAST_DOUBT)
    mean: Array = known.mean(axis=0)
    return np.round((1 - doubt) * known + doubt * mean, 6)


def _tags(scenario: Scenario, dna: Dna, signals: list[Array], rng: Rng) -> Target:
    import numpy as np

    entry = scenario["tags"]
    tags = dna["tag_names"]
    columns, known = [], []
    for signal in signals:
        hidden = _noisy(signal, dna, rng)
        share = float(rng.uniform(0.25, 0.5))
        cut = np.sort(hidden)[min(len(hidden) - 1, round((1 - share) * len(hidden)))]
        columns.append(_flip((hidden >= cut).astype(int), dna, rng))
        known.append(_unsure(_between(signal, np.array([cut]), dna["noise"]), dna)[:, 1])
    y = np.column_stack(columns)
    return Target(
        problem=dna["problem"],
        columns=[Column(tag, f"1 where the tag {tag} applies, else 0") for tag in tags],
        cells={tag: [str(int(cell)) for cell in y[:, at]] for at, tag in enumerate(tags)},
        y=y,
        known=np.column_stack(known),
        words="one rule a tag, each given to the rows with its highest values",
        labels=list(tags),
        asked=f"Predict {_TAG_FORMS[dna['form']]} for each {scenario['sample']['one']}: "
        f"{', '.join(f'`{tag}`' for tag in tags)} ({entry['meaning']}).",
    )


_TAG_FORMS = {"tagset": "all tags that apply", "probability": "the probability of each tag"}


def _number(scenario: Scenario, dna: Dna, signals: list[Array], rng: Rng) -> Target:
    import numpy as np

    entry = scenario["quantity"]
    unit = f", in {entry['unit']}" if entry["unit"] else ""
    hidden = _flip(_noisy(signals[0], dna, rng), dna, rng)
    words, spread = SPREADS[dna["target_distribution"]]
    low, high = hidden.min(), hidden.max()

    def scaled(values: Array) -> Array:
        place = np.clip((values - low) / (high - low), 0, 1)
        return entry["low"] + spread(place, entry["high"] / entry["low"]) * (entry["high"] - entry["low"])

    cells = [fixed(value, entry["decimals"]) for value in scaled(hidden)]
    return Target(
        problem=dna["problem"],
        columns=[Column(entry["name"], entry["meaning"], entry["unit"])],
        cells={entry["name"]: cells},
        y=np.array([[float(cell)] for cell in cells]),
        known=np.round(scaled(signals[0])[:, None], 6),
        words=f"stretched {words} to {entry['low']} to {entry['high']} {entry['unit']}".rstrip(),
        asked=f"Predict `{entry['name']}` ({entry['meaning']}{unit}) for each {scenario['sample']['one']}.",
    )


def _grades(scenario: Scenario, dna: Dna, signals: list[Array], rng: Rng) -> Target:
    """Rows of a query compete: the grade counts against the others of that query; an offset a query means nothing."""
    import numpy as np

    rows = len(signals[0])
    queries = max(LEAST_QUERIES, rows // dna["query_rows"])
    query = np.sort(np.arange(rows) % queries)[rng.permutation(rows)]
    hidden = _flip(_noisy(signals[0], dna, rng), dna, rng)
    grade, ranked, many = scenario["ranking"]["grade"], scenario["ranking"]["query"]["name"], scenario["sample"]["many"]
    if dna["form"] == "ranked":
        cells, values = ["0"] * rows, np.zeros(rows)
        for each in range(queries):
            own = np.flatnonzero(query == each)
            best = own[np.argsort(-hidden[own], kind="stable")][: max(1, round(RELEVANT * len(own)))]
            values[best] = 1
        cells = [str(int(value)) for value in values]
        words = f"the best {RELEVANT:.0%} of a query's rows are worth finding"
        column = Column(
            grade["name"], f"1 for about the best third of the {many} of its {ranked}, by {grade['meaning']}, else 0"
        )
        asked = f"For each `{ranked}`, rank its {many}, those with `{grade['name']}` = 1 first."
    else:
        offset = rng.normal(size=queries)[query]
        values = np.round(5 + 1.5 * (hidden + offset), 2)
        cells, words = (
            [fixed(value, 2) for value in values],
            "compared inside a query, which shifts all of its rows alike",
        )
        column = Column(grade["name"], grade["meaning"], "points")
        asked = f"Rank the {many} of each `{ranked}` by `{grade['name']}` ({grade['meaning']})."
    return Target(
        problem=dna["problem"],
        columns=[column],
        cells={grade["name"]: cells},
        y=values[:, None],
        known=np.round(signals[0][:, None], 6),
        words=words,
        groups=[f"{ranked[0].upper()}{each + 1:02d}" for each in query],
        asked=asked,
    )


MAKERS: dict[str, Callable[[Scenario, Dna, list[Array], Rng], Target]] = {
    "binary_classification": _classes,
    "multiclass_classification": _classes,
    "multilabel_classification": _tags,
    "regression": _number,
    "ranking": _grades,
}
