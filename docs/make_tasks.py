"""Write docs/tasks.md: how tasks are made and checked, with what the generator offers read from its code.

python docs/make_tasks.py           write it
python docs/make_tasks.py --check   exit 1 if it is not up to date
"""

import sys
from pathlib import Path

from mletools.tasks.procedural.dna import COMMON, DENSE, EVERYWHERE, IMBALANCED, MEDIA, METRICS, MODALITIES
from mletools.tasks.procedural.draw import MEDIA as MODULES
from mletools.tasks.procedural.draw import medium, scenarios
from mletools.tasks.procedural.rule import BENT, PLAIN
from mletools.tasks.soundness import CHECKS

PAGE = Path(__file__).parent / "tasks.md"
INTRO = """# Tasks

<!-- made by docs/make_tasks.py -->

`mle-gen-task` makes tasks of 50-200 samples: small enough that a solution runs in a second, so that an agent can be trained on what
its programs really score (SandMLE). They come from three places, pass the same checks and have the same record:

- **hidden rules** (`--source tabular,image,...`, the default): nothing but a seed is needed;
- **a language model in four roles** (`--source llm --seeds tasks.jsonl -m MODEL --model-url URL`);
- **real tables** (`--source sklearn`), whose answers everybody can look up: they show that a pipe works, train on the others.

`mle-gen-task --describe tasks.jsonl` prints tasks for a human, with the rule and the ladder of baselines. Some finished ones lie in
[examples/tasks](../examples/tasks), made by `mle-gen-task -n 7 --samples 50-60 --seed 1 -o tasks/tasks.jsonl` in examples/.

## From a seed to a task

1. The **DNA** is drawn: modality, problem, number of samples, metric, class shares, noise, number of factors and terms, mutations.
2. A **scenario** is drawn: who collects what, with names, units and plausible ranges ({scenarios} of them, {domains} domains).
3. Each medium draws **factors**, properties of a sample that can be seen in its files: a column of a table, how fine the stripes of a
   picture are, the pitch of a tone, which of two events a note tells first, how many triangles a network has.
4. The **hidden rule** is a weighted sum of two to four terms over some of them. A linear model finds {plain}; it does not find
   {bent}. Other factors are irrelevant. Masks, forecasts and gaps have rules of their own.
5. The rule's value and noise become the **target**; the factors become **files**, spoiled by the mutations (`--mutations`, 3).
6. The samples are split; ids are random numbers, and files are named after them.
7. Some forty **baselines** are trained on train.csv and scored on the hidden test set: trees, linear models, neighbours, forests and
   boosting, on a half or a third of the rows or on all, blends of them; some see the features of a quick standard pipeline, some the
   *right* ones, which is what the best measurement finds of the factors that matter. They are `private/leaderboard.csv`, and the
   thresholds are its medals (the rule of MLE-bench for so many teams) and its median. Thresholds are so earned, not declared.
8. The **ladder** (`provenance.baselines`) keeps those with a meaning: dummy, best constant, linear, tuned ensemble, one feature alone,
   right features,
   and the ceiling, who knows the rule and not the noise.
9. The checks below are applied, a standard solution runs in the sandbox, and the task is written. A draft that fails anywhere is
   dropped with its reason (`--rejects`) and the next one is drawn.

Everything follows from `--seed`, the source and the task's number: the same bytes on every machine with the same libraries
(`provenance.trained_with`), in every order, with any `-j`, after every kill. An earlier task's scenario, problem, metric, factors and
families of terms are not used a second time in one run.

What is deliberately hard: a test set of 20-100 rows is noisy, as that of a small competition is. A threshold says what one of forty
solutions reached on these rows, not what is attainable on others.
"""
ROLES = """
## A language model in four roles

After SandMLE, section 4.1; the prompts are ours (`mletools/prompts/task-*.md`). Of a seed task (a record of any source) the
**Data Strategist** extracts the structural DNA without the story, thinks of five scenarios in other industries, of which the seed
draws one, of three mutations, and writes a specification; we draw the number of samples. The **ML Developer** writes the
generator, which runs in the sandbox twice and must give the same files (5 attempts; every error is fed back). The **MLOps Engineer**
writes the evaluator (3 attempts): it is tried on the sample submission, on the answers and on broken files; where mle-grade knows
the metric by name, both must agree, and the name is used. Otherwise the evaluator becomes the task's metric and runs in a sandbox
ever after. The **Technical Writer** writes the description (3 attempts), which must name every column and no hidden file.

Thresholds are declared by the generator here (`threshold.json`), as in the paper, and must be in order. What a model writes is
hostile until shown otherwise: scripts see no network and no file but their own, and what they leave is unpacked as an attacker's
archive would be. Every reply lies in the journal (`--journal`) as soon as it is there; a killed run finds it there and pays
nothing twice. `provenance.attempts` and `provenance.cost` tell what was tried and what it cost.
"""


def page() -> str:
    known = scenarios()
    lines = [
        INTRO.format(
            scenarios=len(known),
            domains=len({each["domain"] for each in known}),
            plain=", ".join(PLAIN),
            bent=", ".join(BENT),
        ).rstrip(),
        "",
        "## Modalities and problems",
        "",
        "| modality | files of a sample | problems beside the common ones |",
        "|---|---|---|",
    ]
    told = {
        "tabular": "a row of train.csv, some columns perhaps in a second file",
        "image": "a PNG of 16 to 36 pixels a side",
        "text": "a note of 30-90 words, in a column or a TXT file",
        "audio": "a WAV of half a second",
        "graph": "an edge list (CSV)",
        "timeseries": "a CSV of 48-96 steps",
        "multimodal": "two or three of these; the rule looks at all of them",
    }
    for modality in MODALITIES:
        lines.append(f"| {modality} | {told[modality]} | {', '.join(dict.fromkeys(DENSE.get(modality, ())))} |")
    lines += ["", f"Common to all: {', '.join(dict.fromkeys(EVERYWHERE))}.", "", "| problem | metrics |", "|---|---|"]
    for problem, menu in METRICS.items():
        rare = [name for name, _, _ in IMBALANCED.get(problem, ())]
        more = f"; where a class is rare {', '.join(rare)}" if rare else ""
        lines.append(f"| {problem} | {', '.join(name for name, _, _ in menu)}{more} |")
    lines += ["", "## Mutations", "", "| medium | mutation | what it does |", "|---|---|---|"]
    lines += [f"| any | {name} | {words} |" for name, words in COMMON.items()]
    names = {module: modality for modality, media in MEDIA.items() for module in media}
    for module in MODULES:
        lines += [f"| {names[module]} | {name} | {words} |" for name, words in medium(module).MUTATIONS.items()]
    lines += [
        "",
        "## Checks",
        "",
        "Applied to every task that is made, and by `mle-filter --tasks` to anyone's. A failed one drops the draft, and is its",
        "reason; `provenance.sanity` says which were passed or skipped.",
        "",
        "| check | what passes |",
        "|---|---|",
    ]
    for name, check in CHECKS.items():
        summary = " ".join((check.__doc__ or "").partition("\n\n")[0].split())
        lines.append(f"| `{name}` | {summary} |")
    return "\n".join(lines) + "\n" + ROLES


def main() -> None:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/tasks.md is not up to date: run make docs")


if __name__ == "__main__":
    main()
