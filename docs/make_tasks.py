"""Write docs/tasks.md: how tasks are generated and checked; the tables are read from the generator's code.

python docs/make_tasks.py           write it
python docs/make_tasks.py --check   exit 1 if it is not up to date
"""

import sys
from pathlib import Path

from mletools.tasks.procedural.dna import COMMON, DENSE, EVERYWHERE, MEDIA, METRICS, MODALITIES, SKEWED
from mletools.tasks.procedural.draw import MEDIA as MODULES
from mletools.tasks.procedural.draw import medium, scenarios
from mletools.tasks.soundness import CHECKS

PAGE = Path(__file__).parent / "tasks.md"
INTRO = """# Tasks

<!-- made by docs/make_tasks.py -->

`mle-gen-task` generates tasks of 50-200 samples. They are so small that a solution runs in a second, so agents can be
trained on the true scores of their programs (SandMLE). Tasks have three sources, the same checks and the same record:

- **hidden rules** (`--source tabular,image,...`, the default): a seed is enough;
- **a language model in four roles** (`--source llm --seeds tasks.jsonl -m MODEL --model-url URL`; with `-m scripted` a
  scripted author plays them offline);
- **real tables** (`--source tables`): [real-tables.md](real-tables.md). Their answers are public: use them as held-out
  tasks, and train on the others.

`mle-gen-task --describe tasks.jsonl` prints a human-readable description of tasks, with the rule and the ladder of
baselines. [examples/tasks](../examples/tasks) holds finished tasks, generated in examples/ by `mle-gen-task -n 7
--samples 50-60 --seed 1 -o tasks/tasks.jsonl`.

## From a seed to a task

1. Draw the **DNA**: modality, problem, number of samples, metric, class shares, noise, number of factors and terms,
   mutations.
2. Draw a **scenario**: who collects which data, with names, units and plausible ranges ({scenarios} of them,
   {domains} domains). For each target it names causes that an expert would name, with their direction: more raises it or
   lowers it, a best or worst value within the range, an order of levels, a cause that acts mainly where a category has
   some level. It also names pairs of columns that go together.
3. Draw the **factors** of each medium, properties of a sample that are visible in its files: a column of a table, the
   fineness of the stripes in a picture, the pitch of a tone, the share of praise in a note, the number of triangles in a
   network. They are drawn again until enough of the causes are among them. Linked columns are correlated, so a column
   that does not act may look as if it did.
4. Set the **hidden rule**, a weighted sum of two to five terms. Drawn are which causes act, how strongly, in which shape
   (even, saturating, accelerating, a threshold, a peak) and which two act together. In media other than tables the
   scenario's people take some properties as signs of a condition, which each target follows or opposes; the description
   names the signs that act. Other factors are irrelevant. Masks, forecasts and gaps have rules of their own.
5. Compute the **target** from the rule's value and noise; write the factors as **files**, corrupted by the mutations
   (`--mutations`, 3).
6. Split the samples. Ids are random numbers, and files are named after them.
7. Train some forty **baselines** on train.csv and score them on the hidden test set: trees, linear models, neighbours,
   forests and boosting, on a half or a third of the rows or on all, and blends of them. Some use the features of a
   quick standard pipeline, some the *right* features: the relevant factors as the best measurement recovers them. Their
   scores are `private/leaderboard.csv`; its medals (MLE-bench's rule for that many teams) and its median are the
   thresholds. Thresholds are therefore earned, not declared. No people are behind them: the `human_rank` of a generated
   task is a rank among baselines.
8. Keep the **ladder** (`provenance.baselines`), the baselines with a meaning: dummy, best constant, linear, tuned
   ensemble, one feature alone, right features, and the ceiling, which knows the rule but not the noise.
9. Run the checks below and a standard solution in the sandbox, and write the task. A draft that fails anywhere is
   dropped with its reason (`--rejects`), and the next one is drawn.

Everything follows from `--seed`, the source and the task's number: the same bytes on every machine with the same
libraries (`provenance.trained_with`), in every order, with any `-j`, after every kill. One run does not reuse an
earlier task's combination of scenario, problem, metric, factors and families of terms.

A test set of 20-100 rows is noisy, like that of a small competition. `provenance.medal_stability` says how much: the
gap between gold and bronze, the standard error of a score at these thresholds (bootstrap over the test rows), and the
test rows with which both would be equal. A draft whose gap is smaller than the error is dropped (`medals_stable`); of
real tables, where it concerns 5 of 94 (one seed), it is recorded. A threshold is still what one of forty solutions reached on
these rows, not what is attainable on others.
"""
ROLES = """
## A language model in four roles

The method is SandMLE's, section 4.1; the prompts are ours (`mletools/prompts/task-*.md`). The **Data Strategist**
extracts the structural DNA of a seed task (a record of any source) without the story, proposes five scenarios in other
industries, of which the seed draws one, and three mutations, and writes a specification; the tool draws the number of
samples. The **ML Developer** writes the generator, which runs in the sandbox twice and must give the same files (5
attempts; every error is fed back). The **MLOps Engineer** writes the evaluator (3 attempts), which is tested on the
sample submission, on the answers and on broken files. Where mle-grade knows the metric by name, both must agree, and
the name is used. Otherwise the evaluator becomes the task's metric and always runs in a sandbox. The **Technical
Writer** writes the description (3 attempts), which must name every column and no hidden file.

The generator declares the thresholds (`threshold.json`), as in the paper; they must be in order. Scripts written by a
model are hostile: they see no network and no files but their own, and their output is unpacked like an attacker's
archive. Every reply is stored in the journal (`--journal`) when it arrives, so resuming a killed run repeats no paid
request. `provenance.attempts` and `provenance.cost` record the attempts and their cost, `cost_by_role` the latter by
role; `seed_cost` is that of the DNA and the scenarios, which the tasks of one seed share. Each role may have a model, a
server, a price and a sampling of its own: `--developer gpt-5 --developer-temperature 0.2`
(`mle-gen-task --source llm --help`).
"""


def page() -> str:
    known = scenarios()
    lines = [
        INTRO.format(
            scenarios=len(known),
            domains=len({each["domain"] for each in known}),
        ).rstrip(),
        "",
        "## Modalities and problems",
        "",
        "| modality | files of a sample | problems in addition to the common ones |",
        "|---|---|---|",
    ]
    files = {
        "tabular": "a row of train.csv, some columns perhaps in a second file",
        "image": "a PNG of 16 to 36 pixels a side",
        "text": "a note of 60-210 words, in a column or a TXT file",
        "audio": "a WAV of one second",
        "graph": "an edge list (CSV)",
        "timeseries": "a CSV of 63-96 steps",
        "multimodal": "two or three of these; the rule depends on all of them",
    }
    for modality in MODALITIES:
        lines.append(f"| {modality} | {files[modality]} | {', '.join(dict.fromkeys(DENSE.get(modality, ())))} |")
    lines += ["", f"Common to all: {', '.join(dict.fromkeys(EVERYWHERE))}.", "", "| problem | metrics |", "|---|---|"]
    for problem, menu in METRICS.items():
        skewed = [name for name, _, _ in SKEWED.get(problem, ())]
        where = "values have a long upper tail" if problem == "regression" else "a class is rare"
        more = f"; where {where} {', '.join(skewed)}" if skewed else ""
        lines.append(f"| {problem} | {', '.join(name for name, _, _ in menu)}{more} |")
    lines += ["", "## Mutations", "", "| medium | mutation | what it does |", "|---|---|---|"]
    lines += [f"| any | {name} | {words} |" for name, words in COMMON.items()]
    names = {module: modality for modality, media in MEDIA.items() for module in media}
    for module in MODULES:
        lines += [f"| {names[module]} | {name} | {words} |" for name, words in medium(module).MUTATIONS.items()]
    lines += [
        "",
        "## Training and test tasks",
        "",
        "`mle-filter --split train=0.8,validation=0.1,test=0.1 --part NAME` writes one part; a call for each part divides tasks,",
        "or rollouts by their task, without overlap. A task's part depends on its id and `--seed` alone: it stays when tasks are",
        "added, and a file of tasks and the rollouts on them are divided alike. The shares therefore hold on average, not",
        "exactly: of ten tasks a part of 0.1 has none in a third of all seeds, which is an error. `--exact` holds the input and",
        "gives each part its share of it: of ten tasks 8, 1 and 1. A task that is added may then move others, and a file of",
        "rollouts is divided like its tasks only where it has rollouts on all of them. For a number of records use `--sample N`.",
        "",
        "## Checks",
        "",
        "The checks apply to every generated task, and through `mle-filter --tasks` to tasks from any source. A failed",
        "check drops the draft and is its reason; `provenance.sanity` lists the checks as passed or skipped.",
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
