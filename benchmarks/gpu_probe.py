"""The probes of benchmarks/gpu.sh, in one process: the most valuable first, correctness beside speed.

    python benchmarks/gpu_probe.py [--smoke] [--minutes 6] [--work FOLDER] OUT

Each probe gives one JSON line, in OUT/results.jsonl and on standard output; what fails is a result, too ("status"). Tokens a
second are of the last optimiser step, when nothing is compiled any more. `mfu` is that of
training.throughput.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from train_memory import configured, estimated

ROOT = Path(__file__).parent.parent
TASKS = ROOT / "examples" / "tasks" / "tasks.jsonl"
SPREAD = 4.0  # standard deviation of the logits: random weights at their usual scale give nearly equal ones
PROGRAM = """
import os
{first}
import torch
seen = torch.cuda.is_available()
nodes = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
print(torch.cuda.device_count() if seen else 0, os.environ.get("CUDA_VISIBLE_DEVICES"), nodes)
a = torch.randn(1024, 1024, device="cuda" if seen else "cpu")
print("product", bool(torch.isfinite(a @ a).all()), a.device.type)
"""


@dataclass(frozen=True)
class Sizes:
    """small, large: of train_memory.SHAPES. Rows of the small model: prompts x answers, tokens of each; of the large: tokens."""

    small: str = "0.5b"
    large: str = "8b"
    prompts: int = 4
    answers: int = 4
    prompt: int = 512
    answer: int = 448
    sampled: tuple[int, int, int] = (4, 16, 256)  # tasks, answers to each, tokens of one
    long: int = 32768
    several: tuple[int, int] = (4, 8192)
    too_many: int = 16
    micro_tokens: tuple[int, ...] = (8192, 32768, 65536)
    logits: tuple[float, ...] = (64, 268.5, 1000)
    head: tuple[int, int, int] = (4596, 896, 151936)  # tokens, hidden size, vocabulary


SMOKE = Sizes("1m", "1m", 2, 2, 48, 40, (1, 4, 8), 512, (2, 128), 2, (4096, 16384), (1, 64), (300, 32, 3000))


class Probes:
    """What the probes share: sizes, device, folders, the small model and its rollouts."""

    def __init__(self, out: Path, work: Path, sizes: Sizes) -> None:
        self.out, self.work, self.sizes = out, work, sizes
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = work / "small"
        self.samples: list[Any] = []
        self.records: list[dict[str, Any]] = []

    # -- the machine and the models -------------------------------------------------------------------------------

    def machine(self) -> dict[str, Any]:
        import accelerate
        import peft
        import transformers
        import trl

        from mletools.training import policy

        policy.preload()
        flags = Path("/proc/cpuinfo").read_text()
        found: dict[str, Any] = {
            "python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
            "trl": trl.__version__, "peft": peft.__version__, "accelerate": accelerate.__version__, "cores": os.cpu_count(),
            "cpu": next((line.partition(": ")[2] for line in flags.split("\n") if line.startswith("model name")), ""),
            "amx": "amx_bf16" in flags,
        }  # fmt: skip
        if self.device == "cuda":
            free, total = torch.cuda.mem_get_info()
            found |= {
                "gpu": torch.cuda.get_device_name(),
                "free_bytes": free,
                "total_bytes": total,
                "bf16": torch.cuda.is_bf16_supported(),
            }
        return found

    def small_model(self) -> dict[str, Any]:
        """Random weights, the tokens that they sample, and these tokens' probabilities in float32, row by row."""
        model = made(self.sizes.small, self.model, self.device)
        model.save_pretrained(self.model)
        draw = random.Random(0)
        sizes = self.sizes
        prompts = [[draw.randrange(10, 250) for _ in range(sizes.prompt)] for _ in range(sizes.prompts)]
        from transformers import AutoModelForCausalLM, GenerationConfig

        torch.manual_seed(0)
        settings = GenerationConfig(do_sample=True, top_k=0, top_p=1.0, max_new_tokens=sizes.answer, pad_token_id=0)
        begun = time.monotonic()
        ids = torch.tensor(prompts, device=self.device).repeat_interleave(sizes.answers, 0)
        written = model.eval().generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)[
            :, sizes.prompt :
        ]
        seconds = time.monotonic() - begun
        del model
        exact = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32).to(self.device).eval()
        logps = []
        for number, answer in enumerate(written.tolist()):
            length = draw.randint(min(64, sizes.answer // 2), sizes.answer)
            prompt = prompts[number // sizes.answers]
            logps.append(log_probabilities(exact, prompt + answer[:length], sizes.prompt))
            self.samples.append(
                sample(
                    prompt, answer[:length], logps[-1], number // sizes.answers, number % sizes.answers, sizes.answers
                )
            )
        return {
            "weights": sum(weight.numel() for weight in exact.parameters()), "tokens": sum(map(len, logps)),
            "mean_logprob": sum(map(sum, logps)) / sum(map(len, logps)), "tokens_per_s": written.numel() / seconds,
        }  # fmt: skip

    # -- the head ------------------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """TRL's tiled head beside log_softmax in float32 of the same numbers: log-probabilities, entropies, gradient, time."""
        from trl.kernels import chunked_logprob as kernel

        tokens, hidden, vocabulary = self.sizes.head
        torch.manual_seed(0)
        states = torch.randn(tokens, hidden, device=self.device).to(torch.bfloat16)
        weight = (torch.randn(vocabulary, hidden, device=self.device) * SPREAD / math.sqrt(hidden)).to(torch.bfloat16)
        targets = torch.randint(0, vocabulary, (tokens,), device=self.device)
        factors, others = torch.randn(2, tokens, device=self.device).unbind()
        expected: list[torch.Tensor] = []
        for at in range(0, tokens, 256):
            rows = slice(at, at + 256)
            part = states[rows].float().requires_grad_()
            logps = torch.log_softmax(part @ weight.float().T, -1)
            entropies = -(logps.exp() * logps).sum(-1)
            picked = logps.gather(1, targets[rows, None]).squeeze(1)
            (factors[rows] @ picked + others[rows] @ entropies).backward()
            expected.append(torch.cat([picked.detach()[:, None], entropies.detach()[:, None], part.grad], 1))
        exact = torch.cat(expected)
        found: dict[str, Any] = {"tokens": tokens, "vocabulary": vocabulary}
        chunk = kernel.TOKEN_CHUNK_SIZE
        for name, rows, dtype in (
            ("4089", 4089, torch.bfloat16),
            ("4096", 4096, torch.bfloat16),
            ("float32", 4096, torch.float32),
        ):
            kernel.TOKEN_CHUNK_SIZE = rows
            taken, head = states.clone().to(dtype).requires_grad_(), weight.to(dtype)
            for _repeat in range(2):
                taken.grad, begun = None, self.now()
                logps, entropies, *_ = kernel.ChunkedLogProbFunction.apply(
                    taken, head, None, targets, 1.0, 32768, None, 1.0, ("entropy",)
                )
                (factors @ logps + others @ entropies).backward()
                seconds = self.now() - begun
            off = (logps.detach() - exact[:, 0]).abs()
            found[name] = {
                "logprob_error": float(off.max()), "logprob_error_mean": float(off.mean()),
                "entropy_error": float((entropies.detach() - exact[:, 1]).abs().max()),
                "gradient_error": relative(taken.grad.float(), exact[:, 2:]), "s": seconds,
            }  # fmt: skip
        kernel.TOKEN_CHUNK_SIZE = chunk
        return found

    # -- the trainer ---------------------------------------------------------------------------------------------

    def lora(self) -> dict[str, Any]:
        """A step with LoRA 16 in float32, then as it is trained, with a float32 head, and padded with a mask.

        Rows that are packed (on a CPU always, on a GPU with --varlen) have their prompts once, `shared`, or not; `separate`
        is how the machine's trainer has them unless asked: packed on a CPU, padded on a GPU.
        """
        found: dict[str, Any] = {}
        gradients: dict[str, torch.Tensor] = {}
        plain = {"rows": len(self.samples), "steps": 3}
        with in_float32():
            found["float32"], gradients["float32"] = self.train("float32", self.samples, share_prefix=False, **plain)
        found["shared"], gradients["shared"] = self.train("shared", self.samples, varlen=True, **plain)
        found["packed"], gradients["packed"] = self.train(
            "packed", self.samples, varlen=True, share_prefix=False, **plain
        )
        found["separate"], gradients["separate"] = self.train("separate", self.samples, share_prefix=False, **plain)
        found["float32_head"], gradients["float32_head"] = self.train(
            "fp32-head", self.samples, fp32_head=True, **plain
        )
        with masked():
            found["masked"], gradients["masked"] = self.train("masked", self.samples, share_prefix=False, **plain)
        for name in list(found)[1:]:
            found[name]["gradient_error"] = relative(gradients[name], gradients["float32"])
        return found

    def all_weights(self) -> dict[str, Any]:
        return self.train("all", self.samples, rank=0, rows=len(self.samples), steps=3)[0]

    def resumed(self) -> dict[str, Any]:
        """Two steps, twice (a GPU adds in another order each time), and one with another session's second."""
        together = self.train("together", self.samples, rows=4, steps=2, saved=True)[0]
        repeated = self.train("repeated", self.samples, rows=4, steps=2, saved=True)[0]
        self.train("resumed", self.samples, rows=4, steps=1, saved=True)
        again = self.train("resumed", self.samples, rows=4, steps=2, saved=True, resume=True)[0]
        return {
            "losses": [together["loss"], repeated["loss"], again["loss"]],
            "repeated_difference": abs(repeated["grad_norm"] / together["grad_norm"] - 1),
            "resumed_difference": abs(again["grad_norm"] / together["grad_norm"] - 1),
        }  # fmt: skip

    def sampled(self) -> dict[str, Any]:
        """Rollouts of mle-rollout with hf:, its start included, and a step on them: how far sampler and trainer are apart."""
        count, answers, tokens = self.sizes.sampled
        tasks = self.work / "tasks.jsonl"
        tasks.write_text("\n".join(TASKS.read_text().split("\n")[:count]) + "\n")
        begun = time.monotonic()
        text = self.command(
            "mle-rollout", "-m", f"hf:{self.model}", "-g", str(answers), "--max-tokens", str(tokens), "--engine-batch",
            str(count * answers), "--prompt", "single-brief", str(tasks),
        )  # fmt: skip
        seconds = time.monotonic() - begun
        self.records = [{**json.loads(line), "reward": float(at % 2)} for at, line in enumerate(text.splitlines())]
        written = sum(record["usage"]["completion_tokens"] for record in self.records)
        step, _ = self.train("sampled", self.records, rows=8, groups=count, steps=2)
        return {"rollouts": len(self.records), "sampling_tokens_per_s": written / seconds, **step}

    def large(self) -> dict[str, Any]:
        """The large shape with LoRA 16, bfloat16: one long row; some shorter ones, without and with a mask."""
        rows, length = self.sizes.several
        several = rollouts(rows, length, ragged=True)  # a mask of ones alone is left out by transformers
        found = {}
        with on_the_card(self.sizes.large, self.work / "large", self.device):
            folder = self.work / "large"
            found["one_row"] = self.train("one-row", rollouts(2, self.sizes.long), model=folder, rows=1, steps=2)[0]
            found["rows"] = self.train("rows", several, model=folder, rows=rows, steps=2)[0]
            found["rows_packed"] = self.train("rows-packed", several, model=folder, rows=rows, steps=2, varlen=True)[0]
            with masked():
                found["rows_masked"] = self.train("rows-masked", several, model=folder, rows=rows, steps=2)[0]
        return found

    def out_of_memory(self) -> dict[str, Any]:
        """More rows than the card holds: the message, and a step in the same folder afterwards."""
        folder, many = self.work / "large", self.sizes.too_many
        with on_the_card(self.sizes.large, folder, self.device):
            try:
                step, _ = self.train("too-many", rollouts(many, self.sizes.long), model=folder, rows=many, steps=1)
                told: dict[str, Any] = {"ended": "it fitted", **step}
            except Exception as error:
                told = {"ended": type(error).__name__, "message": str(error)[:600]}
            self.cleared()
            told["allocated_after"] = torch.cuda.memory_allocated() if self.device == "cuda" else 0
            fresh = told["ended"] == "it fitted"
            after, _ = self.train("too-many", rollouts(2, 256), model=folder, rows=1, steps=1, fresh=fresh)
        return {**told, "after": {"loss": after["loss"], "s": after["step_s"]}}

    def sft(self) -> dict[str, Any]:
        """Two steps of supervised fine-tuning with LoRA."""
        from mletools.training.sft import SftOptions, SftRun

        chosen = self.records[:8]
        peak = self.peak_from_now()
        run = SftRun(
            str(self.model), self.folder("sft"), SftOptions(batch=max(1, len(chosen) // 2), micro_batch=2, lora_rank=16)
        )
        steps = list(run.train(chosen))
        self.cleared()
        return {"losses": [step["loss"] for step in steps], "step_s": steps[-1]["duration_s"], "peak_bytes": peak()}

    def validated(self) -> dict[str, Any]:
        """--validate samples from the new policy with hf: while the trainer holds the card."""
        grade = "import sys, json\nfor line in sys.stdin: print(json.dumps({**json.loads(line), 'reward': 0.5}))"
        line = (
            f"{sys.executable} {ROOT / 'bin' / 'mle-rollout'} -q -m hf:$MLE_POLICY -g 2 --max-tokens 16 --prompt single-brief "
            f'{self.work / "tasks.jsonl"} | {sys.executable} -c "{grade}"'
        )
        begun = time.monotonic()
        step, _ = self.train("validated", self.samples, rows=4, steps=1, saved=True, validate=line)
        return {"validation_reward": step["validation_reward"], "s": time.monotonic() - begun}

    def throughput(self) -> dict[str, Any]:
        """Tokens a second and peaks by the bound on a micro-batch's tokens, and by the size of the logits' tiles."""
        found = {"automatic": self.train("automatic", self.records, rows=None, steps=3)[0]}
        for tokens in self.sizes.micro_tokens:
            found[f"micro_tokens {tokens}"] = self.train(
                f"tokens-{tokens}", self.records, rows=10**6, micro_tokens=tokens, steps=3
            )[0]
        for megabytes in self.sizes.logits:
            found[f"logits {megabytes}"] = self.train(
                f"logits-{megabytes}", self.records, rows=8, logits_memory=megabytes, steps=3
            )[0]
        return found

    # -- the sandbox ---------------------------------------------------------------------------------------------

    def leased(self) -> dict[str, Any]:
        """A program on the card that mle-sandbox leases to it, one that names a card itself, and one without a lease."""
        record = {name: value for name, value in self.records[0].items() if name not in ("reward", "id", "code")}
        sets = 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"'
        programs = self.work / "programs.jsonl"
        found = {}
        for name, first, options in (
            ("leased", "", ["--gpus", "0"]), ("names_a_card", sets, ["--gpus", "0"]), ("no_lease", sets, []),
        ):  # fmt: skip
            given = options if self.device == "cuda" else []
            programs.write_text(json.dumps({**record, "id": name, "code": PROGRAM.format(first=first)}) + "\n")
            text = self.command(
                "mle-sandbox", *given, "--memory-size", "32768" if given else "4096", "--timeout", "120", str(programs)
            )
            execution = json.loads(text)["execution"]
            found[name] = {
                "status": execution["status"], "gpu": execution["gpu"], "s": execution["duration_s"],
                "stdout": execution["stdout"]["head"], "stderr": execution["stderr"]["tail"][-600:],
                "open": [key for key, active in execution["protections"].items() if not active],
            }  # fmt: skip
        return found

    # -- tools ---------------------------------------------------------------------------------------------------

    def now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def folder(self, name: str) -> Path:
        return self.work / "runs" / name

    def cleared(self) -> None:
        """Free what earlier runs left on the card."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def peak_from_now(self) -> Callable[[], int | None]:
        """A function that tells the largest number of bytes that tensors on the card had since."""
        self.cleared()
        if self.device != "cuda":
            return lambda: None
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated

    def command(self, name: str, *arguments: str) -> str:
        """Standard output of one of our commands; what it says on standard error goes to OUT/commands.log."""
        self.cleared()
        with open(self.out / "commands.log", "a") as log:
            done = subprocess.run(
                [sys.executable, str(ROOT / "bin" / name), *arguments], capture_output=True, text=True,
                env={**os.environ, "MLE_DATA": str(TASKS.parent.parent)}, check=False, timeout=240,
            )  # fmt: skip
            log.write(f"$ {name} {' '.join(arguments)}\n{done.stderr[-20000:]}\n")
        if done.returncode:
            raise RuntimeError(f"{name} ended with exit code {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def train(
        self, name: str, samples: Sequence[Any], *, rows: int | None, steps: int, rank: int = 16, groups: int | None = None,
        model: Path | None = None, saved: bool = False, resume: bool = False, fresh: bool = True, **options: Any,
    ) -> tuple[dict[str, Any], torch.Tensor]:  # fmt: skip
        """(what the last of `steps` steps came to, the first step's gradients where they are an adapter's)."""
        from mletools.training import trl_trainer
        from mletools.training.grpo import GrpoOptions, GrpoRun

        class Unsaved(GrpoRun):
            def write(self, folder: Path, trainer: Any) -> None: ...

        gradients: list[torch.Tensor] = []
        clip = trl_trainer.RecordedTrainer._clip_grad_norm

        def spying(trainer: Any, wrapped: Any) -> Any:
            if rank and not gradients:
                parts = [weight.grad for weight in trainer.model.parameters() if weight.grad is not None]
                gradients.append(torch.cat([part.detach().float().flatten() for part in parts]))
            return clip(trainer, wrapped)

        folder = self.folder(name)
        if fresh and not resume:
            shutil.rmtree(folder, ignore_errors=True)
        chosen = GrpoOptions(
            lora_rank=rank, lora_alpha=max(1, 2 * rank), groups_per_step=groups or self.sizes.prompts, micro_batch=rows, learning_rate=1e-6,
            loss_type="dapo", save_steps=1 if saved else 10**9, epochs=steps, max_steps=steps, **options,
        )  # fmt: skip
        peak = self.peak_from_now()
        torch.manual_seed(0)
        run = (GrpoRun if saved else Unsaved)(str(model or self.model), folder, chosen, resume)
        trl_trainer.RecordedTrainer._clip_grad_norm = spying
        try:
            taken = list(run.train(samples))
        finally:
            trl_trainer.RecordedTrainer._clip_grad_norm = clip
        made_of = [item if not isinstance(item, dict) else run.sample(item) for item in samples]
        lengths = [len(sequence.input_ids) for item in made_of for sequence in item.sequences]
        last = taken[-1]
        found = {
            **{key: last[key] for key in (
                "loss", "grad_norm", "sampler_kl", "effective_sample_size", "largest_ratio", "clipped_share", "masked_share", "entropy", "shared_share", "padding_share",
                "micro_batches",
            )},
            "step_s": last["duration_s"], "tokens": sum(lengths), "tokens_per_s": last["tokens_per_s"],
        }  # fmt: skip
        found |= {
            "first_grad_norm": taken[0]["grad_norm"],
            "first_kl": taken[0]["sampler_kl"],
            "first_ratio": taken[0]["largest_ratio"],
        }
        if "validation_reward" in last:
            found["validation_reward"] = last["validation_reward"]
        if self.device == "cuda":
            found["mfu"] = last.get("mfu")
            found["peak_bytes"] = peak()
            found["reserved_bytes"] = torch.cuda.max_memory_reserved()
            if options.get("micro_tokens") is None and rows is not None:
                found["estimate_bytes"] = estimated(
                    model or self.model, rank, min(rows, len(lengths)), max(lengths), "GPU"
                )
        self.cleared()
        return found, gradients[0].cpu() if gradients else torch.empty(0)


def made(size: str, folder: Path, device: str) -> Any:
    """A model with random weights in bfloat16, made on the device; its configuration and a tokenizer are in the folder."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from mletools.training.tiny import make_tiny

    if not folder.exists():
        make_tiny([{"messages": [{"role": "user", "content": "tokens that nobody reads"}]}], folder, "nano")
        configured(size, folder)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder)
    config.tie_word_embeddings = False  # tied random weights answer each token with itself
    config.save_pretrained(folder)
    with torch.device(device):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.model.norm.weight.data.fill_(SPREAD / (config.initializer_range * math.sqrt(config.hidden_size)))
    return model


@contextlib.contextmanager
def on_the_card(size: str, folder: Path, device: str) -> Iterator[None]:
    """The trainer's policy is made on the device, instead of being read from a file of many gigabytes."""
    from peft import LoraConfig

    from mletools.training import policy

    load = policy.load_policy
    if not (folder / "config.json").exists():
        made("1m", folder, "cpu")  # a tokenizer
        configured(size, folder)

    def loaded(model: str, rank: int, alpha: int, dtype: str) -> policy.Loaded:
        fresh = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        return policy.Loaded(made(size, folder, device), fresh)

    policy.load_policy = loaded
    try:
        yield
    finally:
        policy.load_policy = load


@contextlib.contextmanager
def in_float32() -> Iterator[None]:
    """Weights in float32, and no autocast."""
    from transformers import AutoModelForCausalLM

    from mletools.training import policy

    settings, load = policy.device_settings, policy.load_policy

    def loaded(model: str, rank: int, alpha: int, dtype: str) -> policy.Loaded:
        whole = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        return load(model, rank, alpha, dtype)._replace(model=whole)

    policy.device_settings = lambda dtype: {**settings(dtype), "bf16": False}
    policy.load_policy = loaded
    try:
        yield
    finally:
        policy.device_settings, policy.load_policy = settings, load


@contextlib.contextmanager
def masked() -> Iterator[None]:
    """Rows are padded, and models get a mask of their padding, as most trainers give them."""
    from mletools.training import trl_trainer

    trainer = trl_trainer.RecordedTrainer
    part, scores = trainer._part, trainer._scores

    def with_rows(self: Any, model: Any, rows: Any, *given: Any) -> Any:
        self.lengths = torch.tensor([len(row.tokens.input_ids) for row in rows] or [1])
        return part(self, model, rows, *given)

    def with_mask(self: Any, model: Any, laid: Any = ()) -> Any:
        places = torch.arange(self._read["ids"].size(1))
        seen = (places < self.lengths[:, None]).long().to(self._read["ids"].device)
        inner = model.forward
        model.forward = lambda *positional, **given: inner(*positional, attention_mask=seen, **given)
        try:
            return scores(self, model)
        finally:
            model.forward = inner

    trainer._part, trainer._scores = with_rows, with_mask
    try:
        yield
    finally:
        trainer._part, trainer._scores = part, scores


def log_probabilities(model: Any, ids: list[int], begin: int) -> list[float]:
    """Of the tokens from `begin` on, by the model in its own precision."""
    with torch.no_grad():
        given = torch.tensor([ids], device=next(model.parameters()).device)
        logits = model(given).logits[0, begin - 1 : -1].float()
        return torch.log_softmax(logits, -1).gather(1, given[0, begin:, None]).squeeze(1).tolist()


def sample(prompt: list[int], answer: list[int], logprobs: list[float] | None, group: int, at: int, size: int) -> Any:
    from mletools.training.samples import Sample
    from mletools.training.samples import TokenSequence as Tokens

    scores = None if logprobs is None else [0.0] * len(prompt) + logprobs
    tokens = Tokens(prompt + answer, [0] * len(prompt) + [1] * len(answer), scores)
    return Sample(
        f"{group}-{at}", str(group), (tokens,), float(at % 2), 0, group_size=size, members=size, temperature=1.0
    )


def rollouts(count: int, length: int, ragged: bool = False) -> list[Any]:
    """Rows of random tokens that share no prompt, all in one group; ragged: each an eighth of `length` shorter than the last."""
    draw = random.Random(0)

    def drawn(number: int) -> list[int]:
        return [draw.randrange(10, 250) for _ in range(number)]

    lengths = [length - ragged * at * length // 8 for at in range(count)]
    return [sample(drawn(64), drawn(lengths[at] - 64), None, 0, at, count) for at in range(count)]


def relative(values: torch.Tensor, exact: torch.Tensor) -> float:
    """|values - exact| / |exact|, Euclidean."""
    return float((values - exact).norm() / exact.norm())


# name, seconds that it needs on an H100 at most: one that would not fit is skipped
PROBES = [
    ("machine", 15), ("small_model", 40), ("head", 20), ("lora", 40), ("all_weights", 25), ("sampled", 60), ("large", 70), ("leased", 45),
    ("resumed", 25), ("out_of_memory", 25), ("sft", 15), ("validated", 40), ("throughput", 60),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--work", type=Path, help="a folder for models and runs; by default a temporary one")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--smoke", action="store_true", help="in small, for a CPU")
    parser.add_argument(
        "--only", nargs="*", choices=[name for name, _ in PROBES], help="beside machine, small_model and sampled"
    )
    given = parser.parse_args()
    if not torch.cuda.is_available() and not given.smoke:
        raise SystemExit("no GPU: torch sees none (a machine without one can run --smoke)")
    end = time.monotonic() + 60 * given.minutes
    given.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    with contextlib.ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        probes = Probes(given.out.resolve(), work.resolve(), SMOKE if given.smoke else Sizes())
        needed = {"machine", "small_model", "sampled", *(given.only or ())}
        for name, seconds in PROBES:
            if given.only is not None and name not in needed:
                continue
            begun = time.monotonic()
            result: dict[str, Any] = {"probe": name}
            if not given.smoke and begun + seconds > end:
                result |= {"status": "skipped", "why": f"{end - begun:.0f} s left"}
            else:
                try:
                    result |= {"status": "done", **getattr(probes, name)()}
                except Exception as error:
                    failed += 1
                    result |= {"status": "failed", "why": f"{type(error).__name__}: {error}"[:1500]}
                    error.__traceback__ = None  # its frames hold tensors
            result["s"] = round(time.monotonic() - begun, 1)
            line = json.dumps(result)
            with open(given.out / "results.jsonl", "a") as file:
                file.write(line + "\n")
            print(line, flush=True)
            probes.cleared()
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
