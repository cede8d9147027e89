"""Supervised fine-tuning on rollouts: the same samples and masks as GRPO, every token of the policy's counted alike.

The input is held whole and shuffled anew for each epoch from the seed. Records without token ids are rendered through
the tokenizer's chat template. Not covered: packing, weights per sample, an evaluation set.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import OptionError, ToolError
from ..base.ids import content_id, derive_seed
from ..base.options import option
from ..records.rollout import Rollout
from ..records.training import StepResult
from . import memory, policy, shards
from .options import TrainingOptions
from .policy import preload
from .runs import TrainingRun
from .samples import Sample, TokenSequence, exceeds, sample_of
from .session import Facts, drive
from .step_loader import leads, of_the_first, processes
from .steps import Row
from .tiny import PRESETS

__all__ = ["SftOptions", "SftPolicy", "SftRun", "learning_rate_at"]

SCHEDULES = ("cosine", "constant")
IGNORED = -100


@dataclass(frozen=True)
class SftPolicy:
    """The model that fine-tuning begins from."""

    model: str | None = option("A folder, adapter folder or hub name to start from.")
    from_scratch: str | None = option(
        "Create a new, tiny model and its tokenizer instead (in RUN_DIR/from-scratch), and train all its weights.",
        choices=tuple(PRESETS),
    )

    def check(self) -> None:
        """OptionError unless there is one of the two."""
        if (self.model is None) == (self.from_scratch is None):
            raise OptionError("give either --model or --from-scratch")


@dataclass(frozen=True)
class SftOptions(TrainingOptions):
    """What defines an SFT run. `batch` rollouts make a step, `micro_batch` of them a forward pass.

    max_seconds: training time of all sessions of the run together; the learning rate's schedule then follows whichever
    is further on, the steps or the clock.
    """

    max_seconds: float | None = option(
        "Stop after this training time, if --epochs has not ended the run before.", at_least=0, kind="seconds"
    )
    batch: int = option("Rollouts per optimiser step.", default=32, at_least=1)
    learning_rate: float = option(
        "Peak learning rate (default: 1e-4 with LoRA, a tenth of that where all weights are trained).", above=0
    )
    schedule: str = option("Schedule of the learning rate.", default="cosine", choices=SCHEDULES)
    warmup: float = option("Share of the run in which the learning rate rises.", default=0.05, at_least=0, at_most=1)
    save_steps: int = 100
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", 1e-4 if self.lora_rank else 1e-5)
        super().__post_init__()
        if self.batch % self.rows(1):
            raise ToolError(f"batch {self.batch} must be a multiple of micro_batch {self.micro_batch}")

    def rows(self, processes: int) -> int:
        """Rows of a micro-batch: `micro_batch`, or where none is given what divides a process's share of the batch; 0: no share."""
        share = self.batch // processes
        if self.micro_batch is not None:
            return min(self.micro_batch, share)
        return next((rows for rows in range(min(share, memory.MICRO_BATCH), 0, -1) if share % rows == 0), 0)


def learning_rate_at(progress: float, peak: float, warmup: float, schedule: str) -> float:
    """The rate at `progress` (0 to 1) of a run: linear from 0 to `peak` over `warmup`, then constant or cosine to 0."""
    if progress < warmup:
        return peak * progress / warmup
    if schedule == "constant":
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - warmup) / (1 - warmup))))


class SftRun(TrainingRun):
    """An SFT run in a folder; going on with it needs the same input."""

    algorithm = "sft"
    free = frozenset(
        {"max_seconds", "max_grad_norm", "micro_batch", "save_steps", "keep", "logger", "validate", "logits_memory"}
    )

    def __init__(self, model: str, out: Path, options: SftOptions, resume: bool = False) -> None:
        super().__init__(model, out, options, resume)
        self.options: SftOptions = options

    def sample(self, record: Rollout) -> Sample:
        return sample_of(record, self.vocabulary_size, self.tokenizer)

    def train(self, rollouts: Iterable[Sample | Rollout]) -> Iterator[StepResult]:
        """Train on rollout records or samples; yield a train_step dict (less kind, version, id, lineage) per step.

        Counted in `dropped`: no_loss (no token of the policy's), too_long (for the model's context). Raises
        RecordError for a record that cannot be a sample, ToolError when a run goes on with another input.
        """
        samples: list[Row] = of_the_first(
            self._usable(item if isinstance(item, Sample) else self.sample(item) for item in rollouts)
        )
        digest = content_id([[item.sample.id, len(item.tokens.input_ids)] for item in samples])
        if self.state.setdefault("input", digest) != digest:
            raise ToolError(f"{self.out}: was begun with other rollouts: give the same input, or another folder")
        order = [samples[index] for index in shuffled(len(samples), self.options.epochs, self.options.seed)]
        total = math.ceil(len(order) / self.options.batch)
        begun = self.step
        if begun >= total or self._out_of_time():
            return
        rest = order[begun * self.options.batch :]
        self._warn([len(row.tokens.input_ids) for row in samples])
        yield from drive(
            self,
            self._trainer(rest),
            lambda index: self._describe(rest[index * self.options.batch : (index + 1) * self.options.batch]),
            self._rate(begun, total),
            lambda index: begun + index + 1 == total or self._out_of_time(),
        )

    def _warn(self, lengths: list[int]) -> None:
        """Say so where a step needs more memory than is free."""
        options = self.options
        size = memory.step_size(lengths, options.batch, options.rows(processes()))
        if leads() and (
            text := memory.shortage(self.model, options.lora_rank, size, options.logits_memory, options.dtype)
        ):
            self.say(text)

    def _usable(self, samples: Iterable[Sample]) -> list[Row]:
        """The sequences with loss, as rows; a rollout in several sequences makes several."""
        context = policy.context_length(self.model)
        kept: list[Row] = []
        for sample in samples:
            if not sample.kept:
                self.dropped["filtered"] += 1
            elif not sample.loss_tokens:
                self.dropped["no_loss"] += 1
            elif context is not None and sample.length > context:
                if not self.dropped["too_long"] and leads():
                    self.say(exceeds(sample, context))
                self.dropped["too_long"] += 1
            else:
                kept += [Row(tokens, 1.0, sample) for tokens in sample.sequences if tokens.loss_tokens]
        return kept

    def _out_of_time(self) -> bool:
        return self.options.max_seconds is not None and of_the_first(self.state["seconds"]) >= self.options.max_seconds

    def _rate(self, begun: int, total: int) -> Callable[[int], float]:
        options = self.options

        def rate(index: int) -> float:
            progress = (begun + index + 0.5) / total
            if options.max_seconds:
                progress = max(progress, min(1.0, of_the_first(self.state["seconds"]) / options.max_seconds))
            return learning_rate_at(progress, options.learning_rate, options.warmup, options.schedule)

        return rate

    def _trainer(self, samples: list[Row]) -> Any:
        preload()
        from datasets import Dataset
        from trl import SFTConfig, SFTTrainer

        from .adapters import add_in_place

        options = self.options
        model, adapter, _ = policy.load_policy(self.model, options.lora_rank, options.lora_alpha, options.dtype)
        batch, world = self.options.batch, processes()
        micro = self.options.rows(world)
        if micro == 0 or batch % (micro * world):
            raise ToolError(f"batch {batch} must be a multiple of {max(1, micro)} rows in each of {world} processes")
        config = SFTConfig(
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=batch // (micro * world),
            train_sampling_strategy="sequential",
            dataset_kwargs={"skip_prepare_dataset": True},
            max_length=None,
            packing=False,
            **self.common_arguments(),
        )
        policy.keep_to_one_gpu(config)
        rows = [{"input_ids": item.tokens.input_ids, "labels": labels(item.tokens)} for item in samples]
        if world > 1:  # else the processes would share out the first rows again to fill up the last step
            nothing = samples[0].tokens.input_ids[:2]
            rows += [{"input_ids": nothing, "labels": [IGNORED] * len(nothing)}] * (-len(rows) % batch)
        trainer = SFTTrainer(
            model=model,
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
            peft_config=adapter,
        )
        if not config.bf16 and world == 1:
            add_in_place(trainer.model)
        shards.settle(trainer.accelerator)
        return trainer

    def _describe(self, samples: list[Row]) -> Facts:
        return {
            "reward_mean": None,
            "reward_std": None,
            "tokens": sum(item.tokens.loss_tokens for item in samples),
            "rollouts": len({item.sample.id for item in samples}),
            "sequences": len(samples),
            "sequence_tokens": sum(len(item.tokens.input_ids) for item in samples),
            "groups": len({item.sample.group for item in samples}),
            "staleness": None,
        }


def labels(tokens: TokenSequence) -> list[int]:
    """The targets of a sequence: its ids where the policy wrote them, -100 (no loss) elsewhere."""
    return [token if loss else IGNORED for token, loss in zip(tokens.input_ids, tokens.loss_mask, strict=True)]


def shuffled(count: int, epochs: int, seed: int) -> list[int]:
    """Indices 0..count-1 once per epoch, each epoch in an order of its own that depends on the seed alone."""
    order: list[int] = []
    for epoch in range(epochs):
        indices = list(range(count))
        random.Random(derive_seed(seed, "sft", epoch)).shuffle(indices)
        order.extend(indices)
    return order
