"""What results rest on: hardware, sandbox, test feedback, agent, budget, models, seeds, versions.

MLE-bench asks those who publish results for it. Covered: what the records of the rollouts tell, each value with the number
of rollouts that it holds for. Not covered: the machines of model servers, the protections of the sandbox.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from ..base.errors import RecordError
from ..base.jsonl import dumps
from ..base.words import counted
from ..records.report import Disclosure
from ..records.rollout import Execution, Rollout

Field = Literal[
    "hardware", "sandbox", "test_feedback", "agent", "budget", "models", "policy_version", "seed", "mletools"
]
Facts = Mapping[Field, tuple[str, ...]]  # of one rollout; most have one value
FIELDS: dict[Field, str] = {  # in the order of the report, with their words there
    "hardware": "hardware",
    "sandbox": "sandbox",
    "test_feedback": "test feedback",
    "agent": "agent",
    "budget": "budget per rollout",
    "models": "models",
    "policy_version": "version of the policy",
    "seed": "seed",
    "mletools": "mletools",
}
UNKNOWN, NOTHING_RAN, NO_BOUND = "not recorded", "no program ran", "no bound"
LIMITS = {  # of a run
    "wall_s": "{} s a run",
    "cpu_s": "{} s of CPU",
    "memory_mb": "{} MB of memory",
    "disk_mb": "{} MB of disk",
    "processes": "{} processes",
    "threads": "{} threads",
}
BOUNDS = {  # of a rollout in turns, by the name of the setting
    "max_turns": "{} messages",
    "max_seconds": "{} s",
    "max_tokens": "{} tokens sampled",
    "max_usd": "{} USD",
}
OF_SEARCH = {"nodes": "{} nodes", "seconds": "{} s", "usd": "{} USD"}
OTHERS = {  # models besides the policy, by the setting that names them
    "ideator": "ideator",
    "implementer": "implementer",
    "research_model": "researcher",
    "develop_model": "developer",
    "embedding_model": "embedding model",
}
MOST = 4  # values of a field that are named


def sampled_with(rollout: Rollout) -> int | None:
    """The seed of mle-rollout; None: another tool made the rollout."""
    return next((entry["seed"] for entry in reversed(rollout["lineage"]) if entry["tool"] == "mle-rollout"), None)


def facts_of(rollout: Rollout) -> Facts:
    """What a rollout rests on, in words."""
    execution, policy = rollout.get("execution"), rollout["policy"]
    version = policy["version"]
    seed = sampled_with(rollout)
    versions = {entry["version"] for entry in rollout["lineage"] if entry["version"]}
    return {
        "hardware": (_hardware(execution),),
        "sandbox": (_sandbox(rollout, execution),),
        "test_feedback": ("shown" if rollout.get("reveal_test") else "not shown",),
        "agent": (_agent(rollout),),
        "budget": (_budget(rollout),),
        "models": tuple(_models(rollout)),
        "policy_version": (UNKNOWN if version is None else str(version),),
        "seed": (UNKNOWN if seed is None else str(seed),),
        "mletools": (" and ".join(sorted(versions)) or UNKNOWN,),
    }


def disclosure(tasks: int, runs: Iterable[Facts]) -> Disclosure:
    """The record of a set: how many rollouts each value of each field holds for, the most frequent first."""
    counts: dict[Field, Counter[str]] = {field: Counter() for field in FIELDS}
    for facts in runs:
        for field, values in facts.items():
            counts[field].update(values)
    found = {field: dict(sorted(of.items(), key=lambda item: (-item[1], item[0]))) for field, of in counts.items()}
    return cast(Disclosure, {"tasks": tasks, **found})


def described(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(field, values) in words for the rows of sets over all tasks; sets that differ are named behind their values."""
    sets = [(str(row["set"]), int(row["rollouts"]), row["disclosure"]) for row in rows if "disclosure" in row]
    told = [("rollouts", [(label, f"{rollouts} on {counted(of['tasks'], 'tasks')}") for label, rollouts, of in sets])]
    for field, words in FIELDS.items():
        told.append((words, [(label, _listed(of[field], rollouts)) for label, rollouts, of in sets]))
    return [(words, _together(values)) for words, values in told if values]


def _listed(values: Mapping[str, int], rollouts: int) -> str:
    """The values, with counts where they do not hold for all rollouts; of many numbers the range."""
    if len(values) > MOST and all(value.isdecimal() and len(value) < 19 for value in values):
        numbers = sorted(map(int, values))
        return f"{len(numbers)} values from {numbers[0]} to {numbers[-1]}"
    named = [value if count == rollouts else f"{value} ({count})" for value, count in list(values.items())[:MOST]]
    more = [f"{len(values) - MOST} more"] if len(values) > MOST else []
    return "; ".join([*named, *more])


def _together(values: Sequence[tuple[str, str]]) -> str:
    if len({words for _, words in values}) == 1:
        return values[0][1]
    return "; ".join(f"{label}: {words}" for label, words in values)


def _hardware(execution: Execution | None) -> str:
    machine = execution.get("machine") if execution else None
    if execution is not None and execution["backend"] is None:
        return NOTHING_RAN
    if execution is None or machine is None:
        return UNKNOWN
    cores, memory = machine["cores"], machine["memory_gb"]
    parts = [machine["cpu"], f"{cores} core{'' if cores == 1 else 's'}"]
    parts += [] if memory is None else [f"{memory} GB of memory"]
    return ", ".join([*parts, machine["gpu"] or ("a GPU of unknown model" if execution["gpu"] else "no GPU")])


def _sandbox(rollout: Rollout, execution: Execution | None) -> str:
    if execution is None:
        return UNKNOWN
    if execution["backend"] is None:
        return NOTHING_RAN
    limits, settings = execution["limits"], rollout.get("settings") or {}
    if "execution_seconds" in settings:  # an agent's last run may have had less: what was left of the episode
        limits = {**limits, "wall_s": settings["execution_seconds"]}
    return ", ".join([execution["backend"], *_bounds(limits, LIMITS)])


def _agent(rollout: Rollout) -> str:
    search = rollout.get("search")
    return f"{rollout['scaffold']}, preset {search['preset']}" if search else rollout["scaffold"]


def _budget(rollout: Rollout) -> str:
    settings, search = rollout.get("settings"), rollout.get("search")
    if search:
        return ", ".join(_bounds(search["budget"], OF_SEARCH)) or NO_BOUND
    if "trial" in rollout:  # what bounds a stranger's agent had is not told
        return UNKNOWN
    return "1 message" if settings is None else ", ".join(_bounds(settings, BOUNDS)) or NO_BOUND


def _bounds(values: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[str]:
    for name, form in words.items():
        if isinstance(value := values.get(name), (int, float)):
            text = form.format(f"{value:.10g}" if isinstance(value, float) else value)
            yield text.removesuffix("s") if value == 1 and name in ("max_turns", "threads", "nodes") else text


def own_settings(rollout: Rollout) -> dict[str, Any]:
    """The settings of the rollout's scaffold that others have not. RecordError: they are no object."""
    own = (rollout.get("settings") or {}).get("own") or {}
    if not isinstance(own, dict):
        raise RecordError(f"settings.own: an object expected, not {dumps(own)}")
    return own


def _models(rollout: Rollout) -> Iterator[str]:
    """The policy with its sampling, the others by name."""
    policy = rollout["policy"]
    sent = {name: value for name, value in policy["sampling"].items() if value not in (None, {}, [])}
    how = ", ".join(f"{name} {value if isinstance(value, str) else dumps(value)}" for name, value in sent.items())
    yield f"policy {policy['model']}" + (f" ({how})" if how else "")
    own = own_settings(rollout)
    for setting, role in OTHERS.items():
        if own.get(setting):
            yield f"{role} {own[setting]}"
