"""Write docs/plans.md from `make plan` of each experiment, or with --check compare only; names of experiments: those alone."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "plans.md"
LONG = {"qwen3-8b-131072": "Qwen/Qwen3-8B"}  # folders that yarn.py makes
EIGHT = (
    "aerial-cactus-identification", "denoising-dirty-documents", "leaf-classification", "nomad2018-predict-transparent-conductors",
    "random-acts-of-pizza", "spooky-author-identification", "tabular-playground-series-dec-2021", "tabular-playground-series-may-2022",
)  # fmt: skip
INTRO = """# Plans: what SIZE=paper needs of a machine

<!-- made by docs/make_plans.py -->

`make -C examples/NAME SIZE=paper plan` prints, stage by stage, rollouts, hours, tokens, USD and the memory of each process on
its cards, and refuses what does not fit, with what to change. It runs nothing and needs no card, no weights and no key. Its
variables are those of the run itself, so what was planned is what `make SIZE=paper` with the same variables does:

| variable | what |
|---|---|
| `GPUS`, `CARD_GB` | cards and the size of each; 1 and 8 have a layout, for other numbers set the next four |
| `TRAINER_GPUS` | by number, `0,1,2,3`: several have one process each and share the weights (`accelerate launch`, FSDP; `LAUNCH` is the launcher) |
| `SAMPLER_GPUS`, `VALIDATOR_GPUS`, `EVALUATOR_GPUS` | of the vLLM that samples while a policy learns, that `--validate` starts, and that evaluates: several divide each layer (tensor parallel) |
| `PROGRAM_GPUS` | one for each program; none: programs see no card |
| `SAMPLER_SHARE`, `VALIDATOR_SHARE`, `EVALUATOR_SHARE` | of a card, where others are on it; no two that run together are on one card without |
| `SERVERS` | servers that run all the time on this machine, `URL=CARDS` or `URL=CARDS@SHARE` |
| `CONTEXT` | vLLM's `--max-model-len`; a longer one than the configuration's is made by `examples/yarn.py`, whose folder is `POLICY` |
| `LORA_RANK`, `MICRO_TOKENS` | an adapter in place of what the paper trains; tokens of a micro-batch |
| `HOST_GB`, `CORES`, `JOBS`, `MEMORY`, `THREADS` | the machine's memory and cores (default: 250 GB and 16 cores per card), and what programs get of it |
| `PROGRAM_SECONDS`, `PRICES` | of the plan alone: how long a program takes, and a file with prices |

**What the numbers are.** The trainer's memory is the estimate of its `--dry-run` ([gpu.md](gpu.md)), with one row of the
sampler's whole context in a micro-batch. vLLM has two bytes for each weight, the cache of one whole sequence, and 4 GB for the
rest; what its share leaves is more cache. Nine tenths of a card count. Hours, tokens and USD are bounds: every run takes all
of its time and all of its turns, so most runs cost a fraction. Where a paper tells what a run cost, a column has that. `-`:
only a clock bounds the tokens. `+`: more is sampled where groups teach nothing. Nothing on this page was run.

`make -C examples/NAME SIZE=paper` first says what is missing (`make needs`): servers that do not answer, keys, competitions,
the image, cards. `make -n results` prints the commands.
"""
PLANS: dict[str, list[tuple[str, str]]] = {
    "rl4mle": [
        ("Eight cards; programs of a minute.", "GPUS=8 PROGRAM_SECONDS=60"),
        ("One card does not hold the paper's size:", "GPUS=1"),
        ("With an adapter, beside the sampler, and no model that instruments:", "GPUS=1 JOBS=3 LORA_RANK=16 SAMPLER_SHARE=0.3 MICRO_TOKENS=8192 INSTRUMENTER= PROGRAM_SECONDS=60"),
    ],
    "sandmle": [
        ("Eight cards. MLE-Dojo's 50,000 tokens are beyond the model's context:", "GPUS=8"),
        ("With YaRN (`python examples/yarn.py FOLDER qwen3-8b-131072 4`):", "GPUS=8 POLICY=qwen3-8b-131072"),
        ("One card does not hold the paper's size:", "GPUS=1"),
        (
            "With an adapter, beside the sampler, and without validation, which chooses nothing here:",
            "GPUS=1 JOBS=3 POLICY=qwen3-8b-131072 LORA_RANK=16 SAMPLER_SHARE=0.37 CONTEXT=58368 MICRO_TOKENS=40960",
        ),
    ],
    "mle-rl": [
        ("Eight cards do not hold all weights of QwQ-32B:", "GPUS=8"),
        ("Nor does one:", "GPUS=1"),
        ("An adapter of QwQ-32B on eight, with traces of 40,960 tokens in all:", "GPUS=8 LORA_RANK=16 CONTEXT_TOKENS=24576"),
        (
            "An adapter of Qwen3-8B on one:",
            "GPUS=1 POLICY=Qwen/Qwen3-8B JOBS=2 LORA_RANK=16 CONTEXT_TOKENS=24576 SAMPLER_SHARE=0.35 MICRO_TOKENS=40960",
        ),
    ],
    "mle-ideator": [
        ("Eight cards:", "GPUS=8"),
        ("One card does not hold the paper's size:", "GPUS=1"),
        (
            "A smaller ideator, without the rows of the small implementer:",
            "GPUS=1 POLICY=Qwen/Qwen3-4B JOBS=3 IDEA_JOBS=3 SAMPLER_SHARE=0.25 VALIDATOR_SHARE=0.25 MICRO_TOKENS=40960 "
            "'OTHERS=aide strong strong-aide'",
        ),
    ],
    "rd-agent": [
        ("Eight cards: a program each. It has no model of its own; what counts is time and USD.", "GPUS=8"),
        ("One card:", "GPUS=1"),
        ("One seed:", "GPUS=8 RUNS=1"),
        ("One seed of the eight smallest competitions of low complexity (`BENCH` is a folder with these):", "GPUS=8 RUNS=1 BENCH=eight"),
        ("The same on one card:", "GPUS=1 RUNS=1 BENCH=eight"),
    ],
}  # fmt: skip


def prepared(folder: Path) -> None:
    """What the plans name: configurations of models with YaRN, and a folder with competitions."""
    listed = json.loads((ROOT / "examples" / "models.json").read_text())
    for name, base in LONG.items():
        (folder / "bases" / name).mkdir(parents=True)
        (folder / "bases" / name / "config.json").write_text(json.dumps(listed[base]))
        script = [
            sys.executable,
            str(ROOT / "examples" / "yarn.py"),
            str(folder / "bases" / name),
            str(folder / name),
            "4",
        ]
        subprocess.run(script, check=True, capture_output=True)
    for name in EIGHT:
        (folder / "eight" / name).mkdir(parents=True)


def planned(experiment: str, variables: str, folder: Path) -> str:
    """What `make plan` prints, with the names of the folder's files as they are on the page."""
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", variables)]
    words = [re.sub(r"^(POLICY|BENCH)=(.*)", lambda found: f"{found[1]}={folder / found[2]}" if (folder / found[2]).exists() else found[0], word) for word in words]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLE_", "MAKE", "MFLAGS"))}
    command = ["make", "-s", "-C", str(ROOT / "examples" / experiment), "SIZE=paper", "plan", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if "every stage fits" not in done.stdout and "does not fit" not in done.stdout:
        sys.exit(f"{experiment}: {done.stdout}{done.stderr}")
    return done.stdout.replace(f"{folder}{os.sep}", "")


def section(experiment: str) -> str:
    parts = [f"## {experiment}\n"]
    with tempfile.TemporaryDirectory() as folder:
        prepared(Path(folder))
        for words, variables in PLANS[experiment]:
            text = planned(experiment, variables, Path(folder))
            parts.append(
                f"{words}\n\n```text\n$ make -C examples/{experiment} SIZE=paper plan {variables}\n{text}```\n"
            )
    return "\n".join(parts)


def main() -> None:
    check, names = "--check" in sys.argv, [name for name in sys.argv[1:] if name != "--check"]
    old = (
        dict(re.findall(r"^(## ([\w-]+)\n.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
        if PAGE.exists()
        else {}
    )
    old = {name: text.rstrip("\n") + "\n" for text, name in old.items()}
    new = {name: section(name) if name in (names or PLANS) else old.get(name, "") for name in PLANS}
    if check:
        stale = [name for name in PLANS if new[name] != old.get(name)]
        if stale or not PAGE.read_text().startswith(INTRO):
            sys.exit(
                f"{PAGE}: differs from make plan ({', '.join(stale) or 'its beginning'}): run {Path(__file__).name}"
            )
        return
    PAGE.write_text("\n".join([INTRO, *(text for text in new.values() if text)]))


if __name__ == "__main__":
    main()
