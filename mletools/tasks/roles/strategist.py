"""The data strategist: structural DNA of a seed, scenarios for it, mutations, and the specification of one task.

SandMLE, section 4.1. Not covered: data, which the ML developer's script makes.
"""

import re
from collections.abc import Mapping
from typing import Any

from ... import prompts
from ...records.jsonl import dumps
from ..folder import Content
from .asking import Faulty, Talk
from .forms import offered
from .outline import outline
from .replies import json_of
from .specification import MODALITIES, Specification, object_at, read_specification, text_at

ATTEMPTS = 3
SCENARIOS = 5
MUTATIONS = 3
DNA_KEYS = ("modality", "problem", "inputs", "target", "imbalance", "metric_family", "size")
MOST_DNA = 8000  # characters


def structural_dna(talk: Talk, seed_task: Mapping[str, Any], seed_files: Mapping[str, Content]) -> dict[str, Any]:
    """The seed's structure without its story."""
    prompt = prompts.render("task-dna", seed=outline(seed_task, seed_files), modalities=", ".join(MODALITIES))
    story = _story(seed_task)

    def read(reply: str) -> dict[str, Any]:
        value: dict[str, Any] = json_of(reply, dict)
        lacking = [key for key in DNA_KEYS if value.get(key) in (None, "", [], {})]  # false is an answer
        if lacking:
            raise Faulty(f"the DNA says nothing of {', '.join(lacking)}")
        if value["modality"] not in MODALITIES:
            raise Faulty(f"modality must be one of {', '.join(MODALITIES)}")
        object_at(value, "target")
        text = dumps(value)
        if len(text) > MOST_DNA:
            raise Faulty(f"the DNA has {len(text)} characters; at most {MOST_DNA} are accepted")
        words = set(re.findall(r"[a-z0-9_]+", text.lower()))
        told = sorted(word for word in story if word in words)
        if told:
            raise Faulty(
                f"the DNA tells the story: {', '.join(told[:5])} stand(s) in it; write feature_1, feature_2, ..."
            )
        return value

    return talk.until("strategist.dna", prompt, read, ATTEMPTS)


def _story(seed_task: Mapping[str, Any]) -> set[str]:
    """Words that belong to the seed's story without doubt: its name and targets, where they join several words."""
    names = {str(seed_task["name"]).lower(), *(name.lower() for name in seed_task["submission"]["target"])}
    return {name for name in names if re.fullmatch(r"[a-z]+(_[a-z]+)+", name)}


def scenarios(talk: Talk, dna: Mapping[str, Any]) -> list[dict[str, str]]:
    """SCENARIOS different industries that could give data of this structure: {"domain", "scenario", "justification"}."""
    prompt = prompts.render("task-scenarios", dna=dumps(dna), number=str(SCENARIOS))

    def read(reply: str) -> list[dict[str, str]]:
        value = json_of(reply, list)
        if len(value) < SCENARIOS or not all(isinstance(entry, Mapping) for entry in value):
            raise Faulty(f"the list must hold {SCENARIOS} objects with domain, scenario and justification")
        keys = ("domain", "scenario", "justification")
        found = [{key: text_at(entry, key, 1000) for key in keys} for entry in value[:SCENARIOS]]
        if len({entry["domain"].casefold() for entry in found}) < SCENARIOS:
            raise Faulty("the domains must differ from one another")
        return found

    return talk.until("strategist.scenarios", prompt, read, ATTEMPTS)


def mutations(talk: Talk, dna: Mapping[str, Any], scenario: Mapping[str, str]) -> list[dict[str, Any]]:
    """MUTATIONS that make the task harder: objects with a "type" each."""
    prompt = prompts.render("task-mutations", dna=dumps(dna), scenario=dumps(scenario), number=str(MUTATIONS))

    def read(reply: str) -> list[dict[str, Any]]:
        value = json_of(reply, list)
        if len(value) != MUTATIONS or not all(isinstance(entry, Mapping) for entry in value):
            raise Faulty(f"the list must hold {MUTATIONS} objects with a type and its settings")
        if len({text_at(entry, "type", 80).casefold() for entry in value}) < MUTATIONS:
            raise Faulty("the types must differ from one another")
        if len(dumps(value)) > 4000:
            raise Faulty("the list is too long: a type and a few settings each are enough")
        return [dict(entry) for entry in value]

    return talk.until("strategist.mutations", prompt, read, ATTEMPTS)


def specification(
    talk: Talk,
    dna: Mapping[str, Any],
    scenario: Mapping[str, str],
    mutated: list[dict[str, Any]],
    rows: int,
    metrics: Mapping[str, tuple[str, bool]],
) -> Specification:
    """What is to be made, concretely, of `rows` samples."""
    prompt = prompts.render(
        "task-specification",
        dna=dumps(dna),
        scenario=dumps(scenario),
        mutations=dumps(mutated),
        rows=str(rows),
        modalities=", ".join(MODALITIES),
        metrics=offered(metrics),
    )
    return talk.until(
        "strategist.specification",
        prompt,
        lambda reply: read_specification(json_of(reply, dict), rows, metrics),
        ATTEMPTS,
    )
