"""What a chat template that tells the past in its own way costs in training, read from rollouts: sequences, tokens read again.

    python benchmarks/thinking_templates.py > thinking_templates.md     # plays the tests' templates and model with hf:
    python benchmarks/thinking_templates.py rollouts.jsonl              # of your own rollouts, by scaffold and policy

A row is all rollouts of one scaffold and template (policy). Of the tokens that a trainer reads, `again` is the share that
an earlier sequence of the same rollout begins with, too; `factor` is all tokens, by those that each was told in the longest
sequence and what was sampled beside it: about what one sequence would have had.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mletools.training.samples import sample_of

TURNS = ("--max-turns", "6", "--max-answer-tokens", "20", "-g", "2")
SCAFFOLDS = {"react": TURNS, "codeact": TURNS, "memory": (*TURNS, "--max-traces", "2"), "single": ("-g", "2")}


def common(one: list[int], other: list[int]) -> int:
    """How many tokens both begin with."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(map(len, (one, other)))
    )


def cost(rollout: dict[str, Any]) -> dict[str, int]:
    """Of one rollout: sequences, tokens of all, those with loss, those read again, and those of one sequence."""
    sequences = sample_of(rollout).sequences
    ids = [each.input_ids for each in sequences]
    longest = max(sequences, key=lambda each: len(each.input_ids))
    return {
        "sequences": len(ids),
        "tokens": sum(map(len, ids)),
        "loss": sum(each.loss_tokens for each in sequences),
        "again": sum(max(common(each, before) for before in ids[:at]) for at, each in enumerate(ids) if at),
        "once": len(longest.input_ids) + sum(each.loss_tokens for each in sequences if each is not longest),
    }


def rows(named: Iterable[tuple[tuple[str, str], dict[str, Any]]]) -> Iterator[str]:
    """The table's lines."""
    found: dict[tuple[str, str], list[dict[str, int]]] = {}
    for name, rollout in named:
        found.setdefault(name, []).append(cost(rollout))
    yield "| scaffold | template | rollouts | sequences | tokens | with loss | again | factor |"
    yield "|---|---|---|---|---|---|---|---|"
    for (scaffold, template), costs in found.items():
        total = {name: sum(each[name] for each in costs) for name in costs[0]}
        sequences, tokens, loss = (total[name] / len(costs) for name in ("sequences", "tokens", "loss"))
        yield (
            f"| {scaffold} | {template} | {len(costs)} | {sequences:.1f} | {tokens:,.0f} | {loss:,.0f} | "
            f"{total['again'] / total['tokens']:.0%} | {total['tokens'] / total['once']:.1f} |"
        )


def played(folder: Path) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Rollouts of the tests' model that thinks, under each of their templates."""
    tests = Path(__file__).resolve().parent.parent / "tests"
    sys.path[:0] = [str(tests), str(tests / "support")]
    from played import FAST, made_task
    from player import Player
    from thinking_model import TEMPLATES, make_thinker

    (folder / "tasks.jsonl").write_text(json.dumps(made_task(folder)) + "\n")
    models = {name: make_thinker(folder / str(at), template) for at, (name, template) in enumerate(TEMPLATES.items())}
    with Player("hf", sys.executable, dict(os.environ)) as player:
        for scaffold, options in SCAFFOLDS.items():
            for name, model in models.items():
                output = ("-o", "out.jsonl", "--force", "tasks.jsonl")
                player.play(folder, "--scaffold", scaffold, "-m", f"hf:{model}", *options, *FAST, *output)
                for line in (folder / "out.jsonl").read_text().splitlines():
                    yield (scaffold, name), json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    files = parser.parse_args().files
    if not files:
        with tempfile.TemporaryDirectory() as folder:
            print(*rows(played(Path(folder))), sep="\n")
        return
    lines = (json.loads(line) for file in files for line in file.open())
    print(*rows(((each["scaffold"], each["policy"]["model"]), each) for each in lines), sep="\n")


if __name__ == "__main__":
    main()
