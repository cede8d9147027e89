"""Tokens a second of mle-train-grpo's trainer beside TRL's own GRPOTrainer: same model, same rollouts, same loss.

    python benchmarks/train_speed.py                      # a CPU: small models; a GPU: 0.5 and 1.5 billion parameters
    python benchmarks/train_speed.py --sizes 0.5b --ranks 16 --lengths ragged --keep speed.jsonl

The models are Qwen2's architecture with random weights; rollouts are random tokens with random rewards, a group's prompt as
long for all its members. TRL gets them through rollout_func, which is how it takes rollouts that it did not sample; both
sides take optimiser steps on the same rows in the same order, in micro-batches of as many rows, on the ratio 1, under
the settings that mle-train-grpo gives to TRL (bfloat16 and gradient checkpointing on a GPU, float32 on a CPU).
--micro-tokens bounds micro-batches by tokens instead: as many as --micro-batch of the longest rows hold. A CPU packs rows
always and a GPU with --varlen, and only packed rows share a prompt.

Each measurement is a process of its own, and the sides take turns, in reverse order every other time. Tokens are those of
prompts and completions without padding, over the wall time of --steps optimiser steps that follow --warmup ones;
positions a token: what reaches the model, more than 1 by padding, less where a group's
prompt is computed once. `--sizes 135m --lengths answers` are the sizes of SmolLM2 and of short tasks, `--sizes wide --lengths long
--group-size 2 --micro-batch 2 --groups 1` a large vocabulary over a long rollout. `--sides rows peft mkl`: LoRA as PEFT computes it, and products as PyTorch does, beside it. Share of the peak: 6 * parameters * tokens a second / --peak where
all weights are trained, 4 * for LoRA (no gradients of the frozen weights); attention and what checkpointing repeats are not
counted. With --keep FILE what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

# vocabulary, hidden size, layers, heads, key-value heads, inner size; the last two are those of Qwen2.5
SIZES = {
    "1m": (768, 128, 4, 4, 4, 352),
    "4m": (2048, 192, 8, 3, 3, 512),
    "0.5b": (151936, 896, 24, 14, 2, 4864),
    "1.5b": (151936, 1536, 28, 12, 2, 8960),
    "135m": (49152, 576, 30, 9, 3, 1536),  # SmolLM2's
    "wide": (151936, 64, 2, 2, 1, 176),  # nearly nothing but the vocabulary
}
CONTEXT = 40960
SIDES = {
    "trl": "TRL", "rows": "ours", "separate": "ours, --no-share-prefix", "tokens": "ours, --micro-tokens {}",
    "bfloat16": "ours, --dtype bfloat16", "varlen": "ours, --varlen", "varlen_tokens": "ours, --varlen --micro-tokens {}",
    "peft": "ours, adapters by PEFT", "mkl": "ours, products by PyTorch",
}  # fmt: skip
CPU_SIDES, GPU_SIDES = list(SIDES)[:5], ["trl", "rows", "tokens", "varlen", "varlen_tokens"]
SHORTEST, LONGEST = 50, 1200  # tokens of a completion
LENGTHS = {
    "ragged": "log-normal, median 250, 50 to 1200",
    "uniform": "uniform, 50 to 1200",
    "equal": "all 400, prompts 100",
    "answers": "all 300, prompts 600",
    "long": "all 32,668, prompts 100",
}
SAME = {"equal": (100, 400), "answers": (600, 300), "long": (100, 32668)}  # tokens of each prompt and completion
SETTINGS = ("steps", "warmup", "groups", "group_size", "micro_batch", "loss_type", "seed", "threads")
Rollout = tuple[list[int], list[int], float]  # prompt, completion, reward


def drawn(given: argparse.Namespace, lengths: str) -> list[list[Rollout]]:
    """The groups of all steps."""
    draw = random.Random(f"{given.seed} {lengths}")
    counts: dict[str, Callable[[], int]] = {
        "ragged": lambda: min(max(round(draw.lognormvariate(math.log(250), 0.8)), SHORTEST), LONGEST),
        "uniform": lambda: draw.randint(SHORTEST, LONGEST),
        **{name: lambda count=count: count for name, (_, count) in SAME.items()},
    }
    groups = []
    for _ in range((given.warmup + given.steps) * given.groups):
        count = SAME[lengths][0] if lengths in SAME else draw.randint(30, 250)
        prompt = [draw.randrange(10, 250) for _ in range(count)]
        completions = [[draw.randrange(10, 250) for _ in range(counts[lengths]())] for _ in range(given.group_size)]
        groups.append([(prompt, completion, draw.gauss(0.0, 1.0)) for completion in completions])
    return groups


def make_model(size: str, folder: Path) -> None:
    """Random weights and a tokenizer, which is never asked for more than its padding."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, logging

    from mletools.training.tiny import make_tiny

    logging.disable_progress_bar()
    make_tiny([{"messages": [{"role": "user", "content": "tokens that nobody reads"}]}], folder, "nano")
    vocabulary, hidden, layers, heads, pairs, inner = SIZES[size]
    config = Qwen2Config(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=pairs, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).to(torch.bfloat16 if size.endswith("b") else torch.float32).save_pretrained(folder)


def counted() -> Callable[[], int]:
    """Count the positions that reach the model from now on."""
    from transformers import Qwen2Model

    positions = []
    forward = Qwen2Model.forward

    def counting(self: Any, *args: Any, **given: Any) -> Any:
        positions.append(given["input_ids"].numel())
        return forward(self, *args, **given)

    Qwen2Model.forward = counting  # type: ignore[method-assign]
    return lambda: sum(positions)


def train_ours(given: argparse.Namespace, model: str, out: Path, groups: list[list[Rollout]]) -> Any:
    """(clock at the end of each step, gradient norm of the first, parameters, micro-batches a step)."""
    from mletools.training import adapters, products
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.samples import Sample
    from mletools.training.samples import TokenSequence as Tokens

    class Unsaved(GrpoRun):
        def write(self, folder: Path, trainer: Any) -> None:
            self.parameters = sum(weight.numel() for weight in trainer.model.parameters())

    if given.side == "peft":
        adapters.add_in_place = lambda model: None
    if given.side == "mkl":
        products.on = lambda device: contextlib.nullcontext()
    longest = max(len(prompt) + len(completion) for group in groups for prompt, completion, _ in group)
    by_tokens = given.side.endswith("tokens")
    options = GrpoOptions(
        loss_type=given.loss_type, mismatch="off", lora_rank=given.rank, lora_alpha=max(1, 2 * given.rank), groups_per_step=given.groups,
        micro_batch=10**6 if by_tokens else given.micro_batch, micro_tokens=given.micro_batch * longest if by_tokens else None,
        save_steps=10**9, learning_rate=1e-6, share_prefix=given.side != "separate",
        varlen=given.side.startswith("varlen"), dtype="bfloat16" if given.side == "bfloat16" else "float32",
    )  # fmt: skip
    samples = [
        Sample(
            f"{number}-{at}", str(number), (Tokens(prompt + completion, [0] * len(prompt) + [1] * len(completion)),), reward, 0,
            group_size=len(group), members=len(group), temperature=1.0,
        )
        for number, group in enumerate(groups) for at, (prompt, completion, reward) in enumerate(group)
    ]  # fmt: skip
    run = Unsaved(model, out, options)
    stamps = [time.perf_counter() for _ in run.train(samples)]
    return stamps, run.history[0]["grad_norm"], run.parameters, run.history[-1]["micro_batches"]


def train_trl(given: argparse.Namespace, model: str, out: Path, groups: list[list[Rollout]]) -> Any:
    """The same by TRL's own trainer."""
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from mletools.training import policy

    policy.preload()
    rows = given.groups * given.group_size

    def recorded(prompts: list[str], trainer: Any) -> dict[str, Any]:
        chosen = [groups[int(name)][at % given.group_size] for at, name in enumerate(prompts)]
        found: list[list[Any]] = [list(column) for column in zip(*chosen, strict=True)]
        return {"prompt_ids": found[0], "completion_ids": found[1], "logprobs": None, "paid": found[2]}

    stamps, norms = [], []

    class Clock(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs and "grad_norm" in logs:
                stamps.append(time.perf_counter())
                norms.append(float(logs["grad_norm"]))

    config = GRPOConfig(
        output_dir=str(out), per_device_train_batch_size=given.micro_batch, num_generations=given.group_size,
        gradient_accumulation_steps=rows // given.micro_batch, max_steps=given.warmup + given.steps, shuffle_dataset=False,
        loss_type=given.loss_type, scale_rewards="group", beta=0.0, epsilon=0.2, epsilon_high=0.2, temperature=1.0,
        max_completion_length=max(LONGEST, *(len(c) for group in groups for _, c, _ in group)), learning_rate=1e-6, seed=0, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
        disable_dropout=True, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,
        **policy.device_settings("float32"),
    )  # fmt: skip
    loaded, adapter, _ = policy.load_policy(model, given.rank, 2 * given.rank)
    trainer = GRPOTrainer(
        model=loaded, args=config, peft_config=adapter, rollout_func=recorded, callbacks=[Clock()],
        reward_funcs=[lambda completions, paid, **others: paid], processing_class=AutoTokenizer.from_pretrained(model),
        train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(len(groups))]),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    return stamps, norms[0], parameters, rows // given.micro_batch


def measure(given: argparse.Namespace) -> None:
    """One measurement, in this process; a JSON line on standard output."""
    import torch

    torch.set_num_threads(given.threads)
    (lengths,) = given.lengths
    groups = drawn(given, lengths)
    count = counted()
    torch.manual_seed(given.seed)
    with tempfile.TemporaryDirectory() as out:
        side = train_trl if given.side == "trl" else train_ours
        stamps, norm, parameters, parts = side(given, str(given.model), Path(out) / "run", groups)
    if len(stamps) != given.warmup + given.steps:
        raise SystemExit(f"{given.side}: {len(stamps)} steps were taken, not {given.warmup + given.steps}")
    held = [row for group in groups[given.warmup * given.groups :] for row in group]
    tokens = sum(len(prompt) + len(completion) for group in groups for prompt, completion, _ in group)
    seconds = stamps[-1] - stamps[given.warmup - 1]
    longest = max(len(prompt) + len(completion) for group in groups for prompt, completion, _ in group)
    cuda = torch.cuda.is_available()
    peak = torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate = sum(len(prompt) + len(completion) for prompt, completion, _ in held) / seconds
    found = {
        "rate": rate, "step_s": seconds / given.steps, "positions": count() / tokens, "micro_batches": parts,
        "bound": given.micro_batch * longest, "parameters": parameters, "peak_bytes": peak, "first_norm": norm,
    }  # fmt: skip
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def measured(given: argparse.Namespace, model: Path, chosen: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own measures, or the reason for which it ended without a result."""

    def limited() -> None:
        if given.memory:
            resource.setrlimit(resource.RLIMIT_AS, (int(given.memory * 1e9), int(given.memory * 1e9)))

    options = [f"--{name.replace('_', '-')}={getattr(given, name)}" for name in SETTINGS]
    options += [f"--{name}={chosen[name]}" for name in ("side", "rank")]
    told = {"OMP_NUM_THREADS": str(given.threads), "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    line = [sys.executable, __file__, *options, "--model", str(model), "--lengths", chosen["lengths"]]
    made = subprocess.run(line, capture_output=True, env={**os.environ, **told}, preexec_fn=limited)
    if made.returncode:
        reason = made.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return {"failed": reason or f"ended by signal {-made.returncode}"}
    return dict(json.loads(made.stdout.decode().strip().rpartition("\n")[2]))


HEAD = ["completions", "", "tokens a second", "against TRL", "positions a token", "micro-batches", "s a step", "peak memory, MB",
        "first gradient norm", "share of the peak"]  # fmt: skip


def row(runs: Sequence[dict[str, Any]], beside: Sequence[dict[str, Any]], peak: float | None) -> list[str]:
    """A line of the table: what a side came to, beside TRL's runs; peak: of a GPU."""
    one = runs[0]
    failed = next((run["failed"] for run in runs if "failed" in run), None)
    if failed:
        return [LENGTHS[one["lengths"]], one["side"], f"failed: {failed}"]
    rates = [run["rate"] for run in runs]
    both = [pair for pair in zip(runs, beside, strict=False) if "failed" not in pair[1]]  # neighbours in time
    pairs = [ours["rate"] / theirs["rate"] for ours, theirs in both]
    ratio = f"{statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})" if pairs else ""
    flops = (4 if one["rank"] else 6) * one["parameters"] * statistics.median(rates)
    return [
        LENGTHS[one["lengths"]],
        SIDES[one["side"]].format(one["bound"]),
        f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})",
        "1" if one["side"] == "trl" else ratio,
        f"{one['positions']:.2f}",
        str(one["micro_batches"]),
        f"{statistics.median(run['step_s'] for run in runs):.2f}",
        f"{max(run['peak_bytes'] for run in runs) / 1e6:.0f}",
        f"{one['first_norm']:.4g}",
        *([f"{flops / peak:.1%}"] if peak else []),
    ]


def table(found: Sequence[dict[str, Any]], peak: float | None) -> str:
    """Of one size and rank: a line for each side and kind of lengths."""
    lines = []
    for lengths in LENGTHS:
        runs = {side: [f for f in found if (f["lengths"], f["side"]) == (lengths, side)] for side in SIDES}
        lines += [row(of_side, runs["trl"], peak) for of_side in runs.values() if of_side]
    return tabulate(lines, HEAD if peak else HEAD[:-1], tablefmt="github")


def wanted(given: argparse.Namespace, size: str, rank: int) -> Iterator[dict[str, Any]]:
    """The measurements of a size and a rank, in their order."""
    for repeat in range(given.repeats):
        for lengths in given.lengths:
            for side in given.sides if repeat % 2 == 0 else reversed(given.sides):
                settings = {name: getattr(given, name) for name in SETTINGS}
                yield {"size": size, "rank": rank, "lengths": lengths, "side": side, "repeat": repeat, **settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, help="default: what fits the machine")
    parser.add_argument("--ranks", nargs="*", type=int, default=[16, 0], help="of LoRA; 0 trains all weights")
    parser.add_argument("--lengths", nargs="*", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--sides", nargs="*", choices=SIDES, help="default: those that differ on the machine")
    parser.add_argument("--groups", type=int, help="a step; default 4, 16 on a GPU")
    parser.add_argument("--loss-type", default="dapo")
    numbers = {"repeats": 3, "steps": 5, "warmup": 2, "group-size": 8, "micro-batch": 8, "threads": 1, "seed": 0}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--peak", type=float, default=989e12, help="FLOP a second; default: an H200's, bfloat16, dense")
    parser.add_argument(
        "--memory", type=float, metavar="GB", help="limit of a measurement's address space; none by default"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="measurements, one a line")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    for name in ("--side", "--model"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        return measure(given)
    if given.warmup < 1 or (given.groups or 4) * given.group_size % given.micro_batch:
        parser.error("at least one step of --warmup, and --groups * --group-size a multiple of --micro-batch")
    import torch

    cuda = torch.cuda.is_available()
    given.groups = given.groups or (16 if cuda else 4)
    given.sides = given.sides or (GPU_SIDES if cuda else CPU_SIDES)
    where = torch.cuda.get_device_name() if cuda else f"a CPU, {given.threads} threads of PyTorch"
    print(f"On {where}; torch {torch.__version__}. {given.groups} groups of {given.group_size} a step, --micro-batch "
          f"{given.micro_batch}, {given.loss_type}; medians of {given.repeats} (least to most).")  # fmt: skip
    kept = given.keep.read_text().split("\n") if given.keep and given.keep.exists() else []
    earlier = [json.loads(line) for line in kept if line]
    for size, rank in itertools.product(given.sizes or (["0.5b", "1.5b"] if cuda else ["1m", "4m"]), given.ranks):
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for chosen in wanted(given, size, rank):
                known = next((each for each in earlier if chosen.items() <= each.items()), None)
                if known is None:
                    model = Path(folder) / size
                    if not model.exists():
                        make_model(size, model)
                    known = {**chosen, **measured(given, model, chosen)}
                    with contextlib.nullcontext(sys.stderr) if given.keep is None else given.keep.open("a") as sink:
                        print(json.dumps(known), file=sink)
                found.append(known)
        parameters = next((run["parameters"] for run in found if "parameters" in run), math.nan)
        print(f"\n### {parameters / 1e6:.1f} million parameters, "
              f"{f'LoRA of rank {rank}' if rank else 'all weights'}\n")  # fmt: skip
        print(table(found, given.peak if cuda else None), flush=True)


if __name__ == "__main__":
    main()
