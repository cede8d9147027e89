"""A stand-in for prime-rl's trainer: reads batches and publishes weights as commit 559b447 of it does, and learns nothing.

    python prime_rl_trainer.py DIR --ranks N --steps N [--start N] [--weights FILE ...] [--lag S] [--die N] [--in-place]

What it reads of each step goes to DIR/trained.jsonl, a line when it has read the whole batch. Weights are FILE, written half by
half, with STABLE behind them; those of two steps ago are deleted. --die: end in the middle of the weights of that step.
--in-place: write over files that are there, as adapters are.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import msgspec


class MicroBatch(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    """The fields of the record at that commit, in their order; the types of those that are never sent are not looked at."""

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    seq_lens: list[int]
    ref_logprobs: list[float] | None = None
    routed_experts: msgspec.Raw | None = None
    mm_kwargs: msgspec.Raw | None = None
    mm_token_type_ids: list[int] | None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None


PER_TOKEN = (
    "loss_mask", "advantages", "inference_logprobs", "position_ids", "temperatures", "env_names",
)  # fmt: skip


def read(folder: Path, ranks: int) -> list[list[MicroBatch]]:
    """The batch in the folder of a step, by rank; it is as the trainer needs it."""
    batch = [
        msgspec.msgpack.decode((folder / f"rank_{rank}.bin").read_bytes(), type=list[MicroBatch])
        for rank in range(ranks)
    ]
    assert len({len(share) for share in batch}) == 1, "the ranks take different numbers of passes"
    for micro in (micro for share in batch for micro in share):
        tokens = len(micro.input_ids)
        assert tokens and all(len(getattr(micro, name)) == tokens for name in PER_TOKEN)
        assert sum(micro.sequence_lengths) == sum(micro.seq_lens) == tokens
        assert not any(name == "all" for name in micro.env_names) and all(heat > 0 for heat in micro.temperatures)
    return batch


def sequences(batch: list[list[MicroBatch]]) -> list[dict[str, list]]:
    """Each sequence with loss of a batch, in any order, with its padding."""
    found = []
    for micro in (micro for share in batch for micro in share):
        start = 0
        for length in micro.sequence_lengths:
            part = slice(start, start + length)
            start += length
            if any(micro.loss_mask[part]):
                names = ("input_ids", "loss_mask", "advantages", "inference_logprobs", "position_ids")
                found.append({name: getattr(micro, name)[part] for name in names})
    return found


def publish(folder: Path, weights: list[Path], lag: float, die: bool, in_place: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in weights:
        content = path.read_bytes()
        unfinished = folder / path.name if in_place else folder / f"tmp-rank0-{path.name}"
        with open(unfinished, "wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            time.sleep(lag)
            if die:
                os._exit(9)
            file.write(content[len(content) // 2 :])
        unfinished.rename(folder / path.name)
    (folder / "STABLE").touch()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in (("ranks", 1), ("steps", 1), ("start", 1), ("die", -1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--weights", type=Path, nargs="*", default=[])
    parser.add_argument("--lag", type=float, default=0.0)
    parser.add_argument("--in-place", action="store_true")
    given = parser.parse_args()

    def give(step: int) -> None:
        die = step == given.die
        publish(given.folder / "broadcasts" / f"step_{step}", given.weights, given.lag, die, given.in_place)

    give(given.start - 1)
    for step in range(given.start, given.steps + 1):
        folder = given.folder / "rollouts" / f"step_{step}"
        while not all((folder / f"rank_{rank}.bin").exists() for rank in range(given.ranks)):
            time.sleep(0.05)
        rows = sequences(read(folder, given.ranks))
        with open(given.folder / "trained.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "rows": rows}) + "\n")
        time.sleep(given.lag)
        give(step)
        shutil.rmtree(given.folder / "broadcasts" / f"step_{step - 2}", ignore_errors=True)


if __name__ == "__main__":
    main()
