"""Draws a whole world: DNA, scenario, factors, hidden rule, files, target.

Not covered: splitting it and naming its files (tasks.draft).
"""

import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from ..dataset import Dataset
from ..table import Rejected
from .arrays import Array, Rng
from .dna import COMMON, MUTATIONS, SAMPLES, Dna, MediumName, draw_dna
from .rule import Cause, Rule, choose, compose, shown, signs
from .scenario import Caused, Lean, Scenario
from .signs import phrases
from .target import make_target
from .world import Dense, Factor, Medium, Number, Rendered, divisible

# So often factors are drawn until enough of the causes that the scenario names are among them.
TRIES = 60
MEDIA: tuple[MediumName, ...] = get_args(MediumName)


def medium(name: str) -> Medium:
    """The module of media/ of that name."""
    return cast(Medium, importlib.import_module(f"{__package__}.media.{name}"))


@functools.cache
def scenarios() -> list[Scenario]:
    """All scenarios, by name."""
    files = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
    return [cast(Scenario, json.loads(file.read_text(encoding="utf-8"))) for file in files]


def draw_world(modality: str, rng: Rng, samples: tuple[int, int] = SAMPLES, mutations: int = MUTATIONS) -> Dataset:
    """A world of this modality, with `samples` rows from least to most. Rejected when the rule came out flat."""
    scenario, dna = begin(modality, rng, samples, mutations)
    name, story = f"{scenario['key']}_{modality}", _told(scenario, dna)
    if dna["problem"] in medium(dna["media"][0]).DENSE:
        made = medium(dna["media"][0]).DENSE[dna["problem"]](
            scenario, dna["samples"], _strengths(dna, dna["media"][0]), dna["noise"], rng
        )
        return _dense(name, story, dna, scenario, made)
    return _flat(name, story, dna, scenario, rng)


def begin(modality: str, rng: Rng, samples: tuple[int, int], mutations: int) -> tuple[Scenario, Dna]:
    """(scenario, DNA): what is drawn first."""
    known = scenarios()
    scenario = known[rng.randint(len(known))]
    return scenario, draw_dna(modality, scenario, _offered(scenario), samples, mutations, rng)


def _offered(scenario: Scenario) -> dict[MediumName, list[str]]:
    """The mutations of each medium that suit the scenario: those that give thousandths need a unit that has them."""
    offered = {name: list(medium(name).MUTATIONS) for name in MEDIA}
    if not any(divisible(entry["unit"]) for entry in scenario["numbers"]):
        offered["columns"].remove("mixed_units")
    if not divisible(scenario["series"]["unit"]):
        offered["series"].remove("unit_change")
    return offered


def _told(scenario: Scenario, dna: Dna) -> list[str]:
    """The story in sentences: the scenario's, then one of each medium."""
    return [scenario["context"], *(scenario[name]["context"] for name in dna["media"] if name != "columns")]


def _title(scenario: Scenario, dna: Dna) -> str:
    """The scenario's title and what is asked for."""
    problems = {
        "binary_classification": scenario["binary"]["name"],
        "multiclass_classification": scenario["classes"]["name"],
        "multilabel_classification": scenario["tags"]["name"],
        "regression": scenario["quantity"]["meaning"],
        "ranking": f"ranking by {scenario['ranking']['grade']['name']}",
        "reconstruction": "gap filling",
    }
    return f"{scenario['title']}: {problems.get(dna['problem'], dna['problem']).replace('_', ' ')}"


def _strengths(dna: Dna, name: str) -> dict[str, float]:
    return {each["name"]: each["strength"] for each in dna["mutations"] if each["medium"] == name}


def _dense(name: str, context: list[str], dna: Dna, scenario: Scenario, made: Dense) -> Dataset:
    return Dataset(
        name=name,
        title=_title(scenario, dna),
        context=context,
        sample=scenario["sample"],
        modality=dna["modality"],
        features=[made.rendered],
        target=made.target,
        plain=made.plain,
        right=made.right,
        tilt=None,
        origin=_origin(dna, scenario, made.families, f"{made.rule}; {made.target.words}", [], []),
        params=made.params,
    )


def _flat(name: str, context: list[str], dna: Dna, scenario: Scenario, rng: Rng) -> Dataset:
    import numpy as np

    targets = _targets(scenario, dna)
    by_medium, chosen = _caused(scenario, dna, targets, rng)
    factors = [factor for each in by_medium.values() for factor in each]
    try:
        rules = [compose(causes, factors, rng) for causes in chosen.values()]
    except ValueError as error:
        raise Rejected(f"rule: {error}") from None
    dna = {**dna, "tag_names": list(chosen)} if dna["tags"] else dna
    target = make_target(scenario, dna, [rule.of(shown(factors)) for rule in rules], rng)
    rendered = [medium(each).render(scenario, by_medium[each], _strengths(dna, each), rng) for each in dna["media"]]
    used = list(dict.fromkeys(name for rule in rules for name in rule.factors))
    return Dataset(
        name=name,
        title=_title(scenario, dna),
        context=[
            *context,
            *_lore(scenario, [(cause, targets[tag]["lean"]) for tag in chosen for cause in chosen[tag]]),
        ],
        sample=scenario["sample"],
        modality=dna["modality"],
        features=rendered,
        target=target,
        plain=np.hstack([each.plain for each in rendered]),
        right=_right(rules, rendered),
        tilt=_tilt(dna, factors, rng),
        origin=_origin(
            dna,
            scenario,
            [family for rule in rules for family in rule.families],
            _rules(rules, target.labels) + f"; noise of {dna['noise']} deviations; {target.words}",
            used,
            [factor.name for factor in factors if factor.name not in used],
        ),
    )


def _targets(scenario: Scenario, dna: Dna) -> Mapping[str, Caused]:
    """What the scenario says of the target of this problem (causes, lean), by tag where there are several."""
    if dna["problem"] == "multilabel_classification":
        return dict(scenario["tags"]["levels"])
    entries: dict[str, Caused] = {
        "binary_classification": scenario["binary"],
        "multiclass_classification": scenario["classes"],
        "regression": scenario["quantity"],
        "ranking": scenario["ranking"]["grade"],
    }
    return {"": entries[dna["problem"]]}


def _caused(
    scenario: Scenario, dna: Dna, targets: Mapping[str, Caused], rng: Rng
) -> tuple[dict[MediumName, list[Factor]], dict[str, list[Cause]]]:
    """Factors by medium, and the causes that act on each of `targets`; of tags, on as many as the DNA asks for.

    Rejected when the scenario names too few causes of what the media show.
    """
    needed, count = 1 if len(dna["media"]) > 1 else 2, max(1, dna["tags"])
    for _ in range(TRIES):
        by_medium = {each: medium(each).factors(scenario, dna["samples"], rng) for each in dna["media"]}
        names = {factor.name for factors in by_medium.values() for factor in factors}
        if any(f"text_{name}" in names for name in names):
            # The note would give another value than the column.
            continue
        offered = {
            name: [_causes(scenario, each, target, by_medium[each], rng) for each in dna["media"]]
            for name, target in targets.items()
        }
        usable = [name for name, rooms in offered.items() if all(len(room) >= needed for room in rooms)]
        if len(usable) >= count:
            picked = [usable[at] for at in sorted(rng.permutation(len(usable))[:count])]
            return by_medium, {name: choose(offered[name], dna["terms"], rng) for name in picked}
    raise Rejected("rule: too few causes of the target are among the factors")


def _causes(scenario: Scenario, name: MediumName, target: Caused, factors: Sequence[Factor], rng: Rng) -> list[Cause]:
    """What of a medium's factors acts on the target."""
    by_name = {factor.name: factor for factor in factors}
    causes = [Cause.parse(line) for line in target["causes"]]
    if name == "columns":
        return [cause for cause in causes if cause.acts_on(by_name)]
    marks = list(scenario[name]["signs"])
    if name == "text":
        # Notes that dwell on the scenario's theme point to its condition.
        theme = scenario["text"]["theme"]
        marks += [f"+ {each}" for each in by_name if each.startswith(f"text_{theme}_over_")]
        marks += [f"- {each}" for each in by_name if each.endswith(f"_over_{theme}")]
    written = [cause for cause in causes if f"text_{cause.factor}" in by_name and not cause.category]
    return [
        *signs(marks, target["lean"], factors, rng),
        *(Cause(cause.sign, f"text_{cause.factor}") for cause in written),
    ]


def _lore(scenario: Scenario, causes: Sequence[tuple[Cause, Lean]]) -> list[str]:
    """What the people of the scenario say of the signs that act, in a sentence, if there are any: (cause, lean)."""
    said = phrases(((cause.factor, cause.sign == lean) for cause, lean in causes), scenario)
    if not said:
        return []
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    signs_of = "a sign" if len(said) == 1 else "signs"
    return [f"{scenario['experts']} take {listed} as {signs_of} of {scenario['condition']}."]


def _right(rules: Sequence[Rule], rendered: Sequence[Rendered]) -> Array:
    """(rows, m): what the files tell of the factors that matter, and each term's value at these, which bends them."""
    import numpy as np

    seen = {name: values for each in rendered for name, values in each.measured.items()}
    names = list(dict.fromkeys(name for rule in rules for name in rule.factors))
    terms = [term.of(seen) for rule in rules for term in rule.terms]
    return np.round(np.column_stack([*(seen[name] for name in names), *terms]), 6)


def _tilt(dna: Dna, factors: Sequence[Factor], rng: Rng) -> "Array | None":
    """Weights (rows,) with which rows come into the test set where the mutations ask for a shift, else None."""
    strength = next((each["strength"] for each in dna["mutations"] if each["name"] == "shift"), None)
    if strength is None:
        return None
    numbers = [factor for factor in factors if isinstance(factor, Number)]
    place = numbers[rng.randint(len(numbers))].place
    return 0.25 + strength * 2 * place


def _rules(rules: Sequence[Rule], tags: Sequence[str]) -> str:
    if len(rules) == 1:
        return rules[0].words
    return "; ".join(f"{tag}: {rule.words}" for tag, rule in zip(tags, rules, strict=True))


def _origin(
    dna: Dna,
    scenario: Scenario,
    families: list[str],
    rule: str,
    used: list[str],
    irrelevant: list[str],
) -> dict[str, object]:
    words = [
        {
            **each,
            "effect": COMMON[each["name"]] if not each["medium"] else medium(each["medium"]).MUTATIONS[each["name"]],
        }
        for each in dna["mutations"]
    ]
    return {
        "answers_public": False,
        "domain": scenario["domain"],
        "scenario": scenario["key"],
        "dna": {**{key: value for key, value in dna.items() if key != "mutations"}, "families": families, "used": used},
        "mutations": words,
        "hidden_rule": rule,
        "irrelevant": irrelevant,
        "query_column": scenario["ranking"]["query"]["name"],
        "query_meaning": scenario["ranking"]["query"]["meaning"],
    }
