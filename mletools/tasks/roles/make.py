"""One task made by the four roles: strategist, developer, engineer, writer; then the folder and the record.

SandMLE, section 4.1 and eq. 1. Not covered: what answers and runs, which the caller hands in; checks that every source has in
common (`examine`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ...base.ids import derive_seed
from ...records.task import Grading, MetricSpec, Task
from ..folder import Content, read
from ..record import Origin, Parts, finish
from ..table import Rejected, generator
from .asking import Ask, Faulty, RunScript, Talk, cost_of, costs_by_role
from .developer import Developed, develop
from .environment import CEILING, DUMMY, PERFECT, SECRET
from .evaluator import SCRIPT as EVALUATOR
from .evaluator import evaluate
from .scripts import SCRIPT
from .specification import CUSTOM, LEAST_ROWS, MOST_ROWS, Specification
from .strategist import mutations, scenarios, specification, structural_dna
from .writer import write_page

# Sees the record, still without its lineage, and all files by name below the task's folder. Raises Rejected.
Examine = Callable[[Task, Mapping[str, bytes]], None]


def make_llm_task(
    seed_task: Task,
    seed_files: Mapping[str, Content],
    index: int,
    seed: int,
    data: Path,
    ask: Ask,
    run_script: RunScript,
    examine: Examine | None = None,
) -> Task:
    """The record of task `index`, made in the likeness of a seed task; its folder is written below `data`.

    `seed_files` are the seed's public files by name. The lineage is empty. Rejected where a role used up its attempts or `examine` finds
    fault: then nothing was written. ToolError where no reply can be had, the sandbox fails or the folder cannot be
    written.
    """
    drawn = derive_seed(seed, "llm", seed_task["id"], index)
    rng = generator(drawn)
    shared = Talk(ask, seed_task["id"])
    own = Talk(ask, f"{seed_task['id']}/{index}")
    # a draft that fails must not move the draws of what follows, so all of them are made here
    rows, place = int(rng.randint(LEAST_ROWS, MOST_ROWS + 1)), int(rng.randint(1 << 30))
    try:
        dna = structural_dna(shared, seed_task, seed_files)
        menu = scenarios(shared, dna)
        scenario = menu[place % len(menu)]
        mutated = mutations(own, dna, scenario)
        wanted = specification(own, dna, scenario, mutated, rows)
        made = develop(own, wanted, run_script, (1, 2))
        evaluated = evaluate(own, wanted, made, run_script, rng)
        page = write_page(own, wanted, made.environment, seed_task)
    except Faulty as fault:
        raise Rejected(str(fault)) from None
    provenance: Origin = {
        "source": "llm",
        "seed": seed,
        "index": index,
        "seed_task": seed_task["id"],
        "dna": dna,
        "scenario": scenario,
        "mutations": mutated,
        "hidden_rule": wanted.rule,
        "specification": wanted.told,
        "attempts": [*shared.attempts, *own.attempts],
        "cost": cost_of(own.answers),
        "cost_by_role": costs_by_role(own.answers),
        "seed_cost": cost_of(shared.answers),
        "baselines": [
            {"name": "dummy", "score": evaluated.scores[DUMMY]},
            {"name": "ceiling", "score": evaluated.scores[CEILING]},
        ],
        "sanity": {
            "thresholds_ordered": "passed",
            "generator_repeatable": "passed",
            "evaluator_tried": "passed" if wanted.metric == CUSTOM else f"passed: agrees with {wanted.metric}",
            "perfect_submission": f"passed: scores {evaluated.scores[PERFECT]:g}",
        },
    }
    parts = Parts(
        name=wanted.name,
        description=page,
        modality=wanted.modality,
        problem=wanted.problem,
        public=made.environment.public,
        private={
            **{f"private/{name}": made.environment.files[name] for name in SECRET},
            f"private/{EVALUATOR}": evaluated.script.encode(),
            f"private/{SCRIPT}": made.script.encode(),
        },
        grading=_grading(wanted, made),
        provenance=provenance,
    )

    def check(record: Task) -> None:
        if examine is not None:
            examine(record, {name: read(content) for name, content in parts.files.items()})

    return finish(parts, data, ("llm", seed_task["id"], index, seed), check)


def _grading(wanted: Specification, made: Developed) -> Grading:
    """The record's submission, metric, answers and thresholds; a metric that has no name is the evaluator's script."""
    grading = made.environment.grading(wanted)
    if wanted.metric == CUSTOM:
        code: MetricSpec = {
            "file": f"private/{EVALUATOR}",
            "style": "script",
            "lower_is_better": wanted.lower_is_better,
        }
        grading = {**grading, "metric": code}
    return grading
