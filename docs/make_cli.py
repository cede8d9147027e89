"""Write docs/cli.md from every command's --help-all, or with --check compare only."""

import subprocess
import sys
from pathlib import Path

from mletools.grading.metrics import METRICS
from mletools.scaffolds import IN_TURNS
from mletools.shell import NAMES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"
INTRO = """# Commands

<!-- made by docs/make_cli.py, the options from --help-all -->

| command | reads | does | writes |
|---|---|---|---|
| `mle-gen-task` | nothing | generates tasks with seven kinds of data from hidden rules, or has a language model write them; thresholds from trained baselines | tasks |
| `mle-import` | folders, tables | converts prepared competitions (MLE-bench, MLE-Dojo), SandMLE bundles, Kaggle-like folders and tables into tasks; checks and seals tasks made by hand | tasks |
| `mle-rollout` | tasks | lets a model solve them in one answer or in turns: `scripted`, `hf:PATH`, or any OpenAI-compatible server | rollouts |
| `mle-instrument` | rollouts | makes each program report its progress, for partial credit | rollouts |
| `mle-sandbox` | rollouts | runs each program in isolation and keeps its submission | rollouts |
| `mle-grade` | rollouts | scores with one of [{METRICS} metrics](metrics.md); ranks among teams or thresholds; medals; rewards | rollouts |
| `mle-filter` | rollouts, tasks | selects rollouts worth training on, and with `--tasks` the tasks without leaks and flaws; every drop has a reason | rollouts, tasks |
| `mle-train-sft` | rollouts | fine-tunes a model on its own messages, or creates a tiny one | train steps |
| `mle-train-grpo` | rollouts | trains a policy on the rewards by reinforcement learning | train steps |
| `mle-export` | tasks, rollouts | writes them as others read them: tasks as Harbor folders, rollouts as ATIF trajectories, messages or preference pairs ([export](export.md)) | folders; their lines |
| `mle-classify-ideas` | rollouts | classifies each idea of an ideator, and whether it helped | rollouts, a table |
| `mle-show` | rollouts | prints one rollout, human-readable: turns, code with diffs, output, grade, cost | text |
| `mle-report` | rollouts | compares sets: valid, medals, human rank, reward and score with SEM and intervals; two sets paired by task; `--follow` watches a running pipe | tables; a page (`--html`), figures (`--plots`) |

All commands follow the same rules. They read files or standard input. `-o FILE` appears only when it is complete, and
only `--force` replaces it. `--resume` continues after a kill. `--dry-run` checks options and input and touches no
server, sandbox or file. `-j` never changes a result. `| head` ends the pipe quietly. The tool's own failures exit with
code 1; agents' failures are records. A pipe fails at its end when any of its commands failed or was killed, with and
without `pipefail` ([streams](records.md#streams)). [fields.md](fields.md) lists every field,
[cookbook.md](cookbook.md) does ten real jobs as pipes. `--help` shows a command's usual options, `--help-all` all of them.

`mle` lists the commands, and `mle grade` is the same as `mle-grade`. Shell completion covers the options, choices and files of
every command; each command has a man page:

<!-- not run: writes into your home; tests/commands/test_shell.py runs both -->
```sh
mle completion bash >> ~/.bashrc    # or zsh, fish
mle man && man mle-rollout          # with pip install 'mletools[man]'
```
"""


def page() -> str:
    """The whole page."""
    parts = [INTRO.replace("{METRICS}", str(len(METRICS)))]
    for name in NAMES:
        parts.append(f"\n## {name}\n\n```text\n{help_of(name)}\n```\n")
        if name == "mle-gen-task":
            section = options_of(help_of(name, "--source", "llm"), "Roles (--source llm):")
            parts.append(f"\n### mle-gen-task --source llm\n\n```text\n{section}\n```\n")
        if name == "mle-rollout":
            for scaffold in IN_TURNS:
                section = options_of(help_of(name, "--scaffold", scaffold), f"Scaffold {scaffold}:")
                parts.append(f"\n### mle-rollout --scaffold {scaffold}\n\n```text\n{section}\n```\n")
    return "".join(parts)


def help_of(name: str, *args: str) -> str:
    """The text of `name ... --help-all`."""
    line = [sys.executable, str(ROOT / "bin" / name), *args, "--help-all"]
    environment = {"COLUMNS": "100", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout.rstrip()


def options_of(text: str, heading: str) -> str:
    """The section of a help text under a heading."""
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"no {heading} in the help"
    return rest.partition("\n\n")[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit("docs/cli.md differs from --help-all: run `make docs`")
    else:
        PAGE.write_text(page())
