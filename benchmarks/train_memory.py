"""Memory of a training process: what --dry-run of the trainers estimates beside the peak that is measured on this CPU.

    python benchmarks/train_memory.py                       # measures; some minutes
    python benchmarks/train_memory.py --plan                # measures nothing: the estimates in docs/gpu.md

Models have random weights; two optimiser steps of two micro-batches each, of rows that are all as long, in a process of
its own. Measured is the peak resident set of the process (VmHWM) above what it had after its imports, with glibc's
MALLOC_MMAP_THRESHOLD_ at 64 KiB: freed tensors go back to the system, so the peak is that of the tensors that exist.
--plain measures with malloc's own settings, under which freed blocks stay in the process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tabulate import tabulate

# vocabulary, hidden size, layers, heads, key-value heads, inner size, tied embeddings
SHAPES = {
    "1m": ("qwen2", 768, 128, 4, 4, 4, 352, True),
    "25m": ("llama", 8192, 512, 6, 8, 4, 1408, True),
    "80m": ("qwen3", 32768, 640, 8, 10, 5, 1728, True),
    "135m": ("llama", 49152, 576, 30, 9, 3, 1536, True),
    "0.5b": ("qwen2", 151936, 896, 24, 14, 2, 4864, True),
    "1.5b": ("qwen2", 151936, 1536, 28, 12, 2, 8960, True),
    "7b": ("qwen2", 152064, 3584, 28, 28, 4, 18944, False),
    "8b": ("qwen3", 151936, 4096, 36, 32, 8, 12288, False),
    "14b": ("qwen3", 151936, 5120, 40, 40, 8, 17408, False),
    "32b": ("qwen2", 152064, 5120, 64, 40, 8, 27648, False),
}
MEASURED = [("25m", 4, 256), ("25m", 8, 512), ("80m", 2, 512), ("135m", 2, 128), ("135m", 4, 256)]
RANKS = (0, 16)
# what docs/gpu.md plans: model, LoRA rank, rows and tokens of a micro-batch, processes, whether FSDP shards them
PLANS = [
    ("0.5b", 16, 8, 2048, 1, False), ("0.5b", 0, 8, 2048, 1, False), ("1.5b", 16, 2, 8192, 1, False), ("7b", 16, 1, 4096, 1, False),
    ("8b", 16, 4, 8192, 1, False), ("14b", 16, 1, 8192, 1, False), ("1.5b", 0, 2, 8192, 1, False), ("8b", 0, 1, 16384, 4, True),
    ("32b", 16, 1, 16384, 4, True), ("32b", 0, 1, 16384, 8, True), ("32b", 0, 1, 16384, 16, True),
    *((size, rank, 1, 32768, 8, True) for size in ("8b", "14b", "32b") for rank in (16, 0)),
    ("14b", 0, 1, 32768, 16, True), ("32b", 0, 1, 32768, 32, True),
]  # fmt: skip


def configured(size: str, folder: Path) -> Path:
    """A folder with the configuration of a model, and no weights."""
    from transformers import AutoConfig

    kind, vocabulary, hidden, layers, heads, pairs, inner, tied = SHAPES[size]
    config = AutoConfig.for_model(
        kind, vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=pairs, intermediate_size=inner, tie_word_embeddings=tied, max_position_embeddings=32768,
        head_dim=hidden // heads, architectures=[{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
        "qwen3": "Qwen3ForCausalLM"}[kind]], bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    return folder


def weighed(size: str, folder: Path) -> Path:
    """The same with random weights, and a tokenizer that is never asked for more than its padding."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    from mletools.training.tiny import make_tiny

    logging.disable_progress_bar()
    make_tiny([{"messages": [{"role": "user", "content": "tokens that nobody reads"}]}], folder, "nano")
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(configured(size, folder))).save_pretrained(folder)
    return folder


def peak_of_training(model: Path, rank: int, rows: int, length: int) -> float:
    """Bytes that this process needs for two steps, above its imports."""
    from mletools.training import policy

    policy.preload()
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.samples import Sample, TokenSequence

    class Unsaved(GrpoRun):
        def write(self, folder: Path, trainer: Any) -> None: ...

    draw = random.Random(0)

    def sample(group: int, at: int) -> Sample:
        tokens = TokenSequence([draw.randrange(10, 250) for _ in range(length)], [0] * 30 + [1] * (length - 30))
        reward = float(at % 2)
        return Sample(f"{group}-{at}", str(group), (tokens,), reward, 0, group_size=rows, members=rows, temperature=1.0)

    options = GrpoOptions(
        mismatch="off", lora_rank=rank, lora_alpha=max(1, 2 * rank), groups_per_step=2, micro_batch=rows,
        save_steps=10**9, learning_rate=1e-6,
    )  # fmt: skip
    before = resident("VmRSS")
    with tempfile.TemporaryDirectory() as out:
        run = Unsaved(str(model), Path(out) / "run", options)
        steps = list(run.train([sample(group, at) for group in range(4) for at in range(rows)]))
    if len(steps) != 2 or any(step["micro_batches"] != 2 for step in steps):
        raise SystemExit(f"expected two steps of two micro-batches, not {steps}")
    return resident("VmHWM") - before


def resident(name: str) -> float:
    """VmRSS (now) or VmHWM (at most) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(name)).split()[1])


def estimated(
    model: Path, rank: int, rows: int, length: int, device: str, processes: int = 1, fsdp: bool = False
) -> float:
    from mletools.training import memory

    spread = memory.Sharding(processes, 3, memory.FSDP) if fsdp else memory.Sharding(processes)
    return sum(memory.estimate(memory.shape_of(str(model), rank), rows, length, device, spread).values())


def measure(sizes: list[str], plain: bool) -> list[dict[str, Any]]:
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        for size, rows, length in [each for each in MEASURED if each[0] in sizes]:
            model = Path(temporary) / size
            if not model.exists():
                weighed(size, model)
            for rank in RANKS:
                settings = {} if plain else {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "65536"}
                line = [sys.executable, __file__, "--one", str(model), str(rank), str(rows), str(length)]
                made = subprocess.run(
                    line, check=True, stdout=subprocess.PIPE, env={**os.environ, "HF_HUB_OFFLINE": "1", **settings}
                )
                peak = float(made.stdout.split()[-1])
                guess = estimated(model, rank, rows, length, "CPU")
                found.append(
                    {"size": size, "rank": rank, "rows": rows, "length": length, "estimate": guess, "peak": peak}
                )
                print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", choices=SHAPES, default=[size for size, _, _ in MEASURED])
    parser.add_argument("--plain", action="store_true", help="malloc's own settings")
    parser.add_argument("--plan", action="store_true", help="print the estimates for GPUs in docs/gpu.md, and end")
    parser.add_argument("--json", action="store_true", help="measurements as JSON, one a line")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        model, *numbers = given.one
        return print(peak_of_training(Path(model), *map(int, numbers)))
    if given.plan:
        with tempfile.TemporaryDirectory() as folder:
            lines = [
                [size, rank or "all", rows, length, f"{count}{', FSDP' if fsdp else ''}",
                 f"{estimated(configured(size, Path(folder) / size), rank, rows, length, 'GPU', count, fsdp) / 1e9:.1f}"]
                for size, rank, rows, length, count, fsdp in PLANS
            ]  # fmt: skip
        head = ["model", "LoRA rank", "rows", "tokens each", "GPUs", "GB on each"]
        return print(tabulate(lines, head, tablefmt="github"))
    found = measure(given.sizes, given.plain)
    if given.json:
        return print("\n".join(json.dumps(each) for each in found))
    table = [
        [one["size"], one["rank"] or "all", one["rows"], one["length"], f"{one['estimate'] / 1e9:.2f}", f"{one['peak'] / 1e9:.2f}",
         f"{one['estimate'] / one['peak'] - 1:+.0%}"]
        for one in found
    ]  # fmt: skip
    head = ["weights", "LoRA rank", "rows", "tokens each", "estimate, GB", "measured, GB", "difference"]
    print(tabulate(table, head, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
