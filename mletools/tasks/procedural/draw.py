"""Draws a whole world: DNA, scenario, factors, hidden rule, files, target.

Not covered: splitting it and naming its files (tasks.draft).
"""

import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..table import Rejected
from .dna import COMMON, MUTATIONS, SAMPLES, draw_dna
from .rule import Rule, compose, shown
from .target import make_target
from .world import Category, Dense, Number, Rendered, TaskWorld

MEDIA = ("columns", "image", "text", "audio", "graph", "series")


def medium(name: str) -> ModuleType:
    """The module of media/ of that name."""
    return importlib.import_module(f"{__package__}.media.{name}")


@functools.cache
def scenarios() -> list[dict[str, Any]]:
    """All scenarios, by name."""
    files = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def draw_world(modality: str, rng: Any, samples: tuple[int, int] = SAMPLES, mutations: int = MUTATIONS) -> TaskWorld:
    """A world of this modality, with `samples` rows from least to most. Rejected when the rule came out flat."""
    scenario, dna = begin(modality, rng, samples, mutations)
    name, story = f"{scenario['key']}_{modality}", _told(scenario, dna)
    if dna["problem"] in medium(dna["media"][0]).DENSE:
        made = medium(dna["media"][0]).DENSE[dna["problem"]](
            scenario, dna["samples"], _strengths(dna, dna["media"][0]), dna["noise"], rng
        )
        return _dense(name, story, dna, scenario, made)
    return _flat(name, story, dna, scenario, rng)


def begin(modality: str, rng: Any, samples: tuple[int, int], mutations: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(scenario, DNA): what is drawn first."""
    known = scenarios()
    scenario = known[rng.randint(len(known))]
    offered = {name: list(medium(name).MUTATIONS) for name in MEDIA}
    return scenario, draw_dna(modality, scenario, offered, samples, mutations, rng)


def _told(scenario: Mapping[str, Any], dna: Mapping[str, Any]) -> list[str]:
    """The story in sentences: the scenario's, then one of each medium."""
    return [scenario["context"], *(scenario[name]["context"] for name in dna["media"] if name != "columns")]


def _strengths(dna: Mapping[str, Any], name: str) -> dict[str, float]:
    return {each["name"]: each["strength"] for each in dna["mutations"] if each["medium"] == name}


def _dense(name: str, context: list[str], dna: dict[str, Any], scenario: Mapping[str, Any], made: Dense) -> TaskWorld:
    return TaskWorld(
        name=name,
        title=scenario["title"],
        context=context,
        sample=scenario["sample"],
        modality=dna["modality"],
        rendered=[made.rendered],
        target=made.target,
        plain=made.plain,
        right=made.right,
        tilt=None,
        origin=_origin(dna, scenario, made.families, f"{made.rule}; {made.target.words}", [], []),
        params=made.params,
    )


def _flat(name: str, context: list[str], dna: dict[str, Any], scenario: Mapping[str, Any], rng: Any) -> TaskWorld:
    import numpy as np

    rows = dna["samples"]
    by_medium = {each: medium(each).factors(scenario, rows, rng) for each in dna["media"]}
    factors = [factor for each in by_medium.values() for factor in each]
    relevant = _relevant(by_medium, max(dna["factors"], len(by_medium)), rng)
    try:
        rules = [compose(relevant, dna["terms"], rng) for _ in range(max(1, dna["tags"]))]
    except ValueError as error:
        raise Rejected(f"rule: {error}") from None
    target = make_target(scenario, dna, [rule.of(shown(factors)) for rule in rules], rng)
    rendered = [medium(each).render(scenario, by_medium[each], _strengths(dna, each), rng) for each in dna["media"]]
    used = list(dict.fromkeys(name for rule in rules for name in rule.factors))
    return TaskWorld(
        name=name,
        title=scenario["title"],
        context=context,
        sample=scenario["sample"],
        modality=dna["modality"],
        rendered=rendered,
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


def _relevant(by_medium: Mapping[str, list[Number | Category]], count: int, rng: Any) -> list[Number | Category]:
    """`count` of the factors, of each medium one at least, and two numbers at least."""
    queues = [[factors[at] for at in rng.permutation(len(factors))] for factors in by_medium.values()]
    for queue in queues:
        queue.sort(key=lambda factor: isinstance(factor, Category))
    dealt = [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]
    chosen = dealt[:count]
    categories = [factor for factor in dealt if isinstance(factor, Category) and factor not in chosen]
    return chosen + categories[: int(rng.randint(2))]


def _right(rules: Sequence[Rule], rendered: Sequence[Rendered]) -> Any:
    """(rows, m): what the files tell of the factors that matter, and each term's value at these, which bends them."""
    import numpy as np

    seen = {name: values for each in rendered for name, values in each.measured.items()}
    names = list(dict.fromkeys(name for rule in rules for name in rule.factors))
    terms = [term.of(seen) for rule in rules for term in rule.terms]
    return np.round(np.column_stack([*(seen[name] for name in names), *terms]), 6)


def _tilt(dna: Mapping[str, Any], factors: Sequence[Number | Category], rng: Any) -> Any:
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
    dna: dict[str, Any],
    scenario: Mapping[str, Any],
    families: list[str],
    rule: str,
    used: list[str],
    irrelevant: list[str],
) -> dict[str, Any]:
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
