"""Reinforcement by prime-rl's trainer: this command makes the batches, the trainer takes the optimiser steps.

A step is decided on as for TRL (pool, stream) and written into the trainer's folder (prime_rl) in place of being taken. The
run's folder has a checkpoint for each, without weights: it is written before the trainer sees the batch, so a killed run
gives no batch twice and no other one for a step. Weights come from the trainer; they are published as TRL's are. Not covered:
the loss, the optimiser and its checkpoints, which are prime-rl's and stand in its configuration.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..base.errors import OptionError, RecordError, ToolError
from ..base.jsonl import Line
from ..base.options import option
from ..records.rollout import Rollout
from ..records.training import StepResult
from . import checkpoints, policy
from .checkpoints import TRAINER_STATE
from .group_buffer import held_steps
from .grpo import GrpoRun, recipe_of
from .options import PRIME_RL, GrpoOptions
from .prime_rl import ROLLOUTS, MicroBatch, TrainerFolder, WeightsGone, pack
from .publish import Publisher
from .samples import TEMPLATE, Sample, check_sampling, rollouts_in, sample_of, shared_temperature
from .steps import OptimiserStep, StepRecipe

POLL = 0.5  # seconds between two looks at the trainer's folder
NOTICE = 60.0  # seconds of waiting that are reported; then twice as many
# settings of a step that goes to another engine; all others of GrpoOptions are about taking it
USED = frozenset(
    {
        "engine", "algorithm", "epochs", "groups_per_step", "batch", "max_steps", "baseline", "scale_rewards", "temperature",
        "mask", "equal_groups", "duration_weight", "duration_of", "duration_clip", "max_staleness", "publish_steps", "seed",
    }
)  # fmt: skip
LOSS_ALONE = ("dapo", "gspo")  # these differ from grpo in the loss


@dataclass(frozen=True)
class EngineOptions:
    """Where prime-rl's trainer reads batches, and how it is laid out."""

    engine_dir: str | None = option(
        "The trainer's output_dir, on a disk that both processes see.", kind="folder", metavar="DIR", machine=True
    )
    engine_ranks: int | None = option("Its data-parallel ranks: GPUs / model.cp.", at_least=1, machine=True)
    engine_tokens: int | None = option(
        "Its model.seq_len: maximum tokens per micro-batch. Longer sequences are left out.", at_least=1
    )
    engine_cp: int = option("Its model.cp.", default=1, at_least=1, machine=True)
    engine_ahead: int = option(
        "Number of batches that it may hold before it has published their weights.", default=1, at_least=1, machine=True
    )

    def check(self, options: GrpoOptions, given: Mapping[str, object]) -> None:
        """OptionError for options that the chosen engine has no use for, or lacks.

        given: by name, those of the command line; None and () stand for options that were not given.
        """
        if options.engine != PRIME_RL:
            if self != EngineOptions():
                raise OptionError(f"--engine-dir, -ranks, -tokens, -cp and -ahead are about --engine {PRIME_RL}")
            return
        unused = [name for name, value in given.items() if value not in (None, ()) and name not in USED]
        if unused:
            raise OptionError(
                f"--{unused[0].replace('_', '-')} is about a step that this command takes: with --engine {PRIME_RL} the loss, "
                "the optimiser, adapters and checkpoints are set in its own configuration"
            )
        if options.algorithm in LOSS_ALONE:
            raise OptionError(
                f"--algorithm {options.algorithm} differs from grpo in its loss alone, and the loss is {PRIME_RL}'s: say grpo"
            )
        for name in ("engine_dir", "engine_ranks", "engine_tokens"):
            if getattr(self, name) is None:
                raise OptionError(f"--engine {PRIME_RL} needs --{name.replace('_', '-')}")
        if self.tokens < 1:
            raise OptionError(f"--engine-tokens {self.engine_tokens} is less than --engine-cp {self.engine_cp}")

    @property
    def tokens(self) -> int:
        """Tokens of the longest sequence that fits into a micro-batch."""
        assert self.engine_tokens is not None
        return self.engine_tokens // self.engine_cp * self.engine_cp

    def micro_batches(self, step: OptimiserStep, temperature: float) -> list[list[MicroBatch]]:
        assert self.engine_ranks is not None
        return pack(step, temperature, self.tokens, self.engine_ranks, self.engine_cp)


def left_to_the_engine(settings: Mapping[str, object]) -> str | None:
    """What an algorithm or a preset sets of a step's taking, for people; None where it is nothing."""
    left = [f"{name} {value}" for name, value in settings.items() if name not in USED]
    return f"not handed over, to be set in {PRIME_RL}'s configuration: {', '.join(left)}" if left else None


class HandoverRun(GrpoRun):
    """A run whose steps prime-rl takes. `policy_version` is the one after the last step that was handed over.

    pause: sleeps while the trainer is waited for, and raises where there is nobody left to wait for.
    """

    def __init__(
        self,
        model: str,
        out: Path,
        options: GrpoOptions,
        engine: EngineOptions,
        resume: bool = False,
        publisher: Publisher | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(model, out, options, resume, publisher)
        if policy.adapter_base(self.model) is not None:
            raise ToolError(
                f"{model}: is an adapter, and {PRIME_RL} begins with a whole model: mle-train-grpo --export-merged makes one"
            )
        assert engine.engine_dir is not None
        self.engine, self.trainer = engine, TrainerFolder(Path(engine.engine_dir))
        self.pause = pause
        self._rollouts: dict[int, float] = {}  # by step, since this process began
        self._waited = 0.0
        self._looked = 0.0

    @property
    def uses_logprobs(self) -> bool:
        return True

    @property
    def recipe(self) -> StepRecipe:
        chosen = super().recipe
        return replace(chosen, context=min(self.engine.tokens, chosen.context or self.engine.tokens))

    def sample(self, record: Rollout) -> Sample:
        """As for TRL; RecordError also where a rollout to train on lacks the sampler's log-probabilities."""
        return with_logprobs(super().sample(record))

    def train(self, rollouts: Iterable[Sample | Rollout]) -> Iterator[StepResult]:
        return self._session(super().train(rollouts))

    def train_stream(self, rollouts: Iterable[Sample | Rollout]) -> Iterator[StepResult]:
        return self._session(super().train_stream(rollouts))

    def write(self, folder: Path, trainer: Any) -> None:
        (folder / TRAINER_STATE).mkdir()
        self.write_history(folder / TRAINER_STATE)

    def _session(self, records: Iterator[StepResult]) -> Iterator[StepResult]:
        with checkpoints.lock(self.out), checkpoints.lock(self.trainer.path / ROLLOUTS):
            self.check_alone()
            checkpoints.clean(self.out)
            self.trainer.settle(self.step)
            self._follow()
            yield from records
            if self.publisher is not None:
                self._wait(self.step)
                self._follow(last=True)
                most = self.options.max_steps
                if most is not None and self.step >= most:
                    self.publisher.end(self.refused)

    def _drive(self, steps: Iterator[OptimiserStep], temperature: float, count: int | None) -> Iterator[StepResult]:
        for step in self._until_stopped(steps):
            self._wait(self.step + 1 - self.engine.engine_ahead)
            yield self._prepared(step, temperature)
            # The record is written. The checkpoint decides: before it, the batch is forgotten by a kill; behind it, it is
            # handed over by the next session.
            checkpoints.save(self.out, self.step, lambda folder: self.write(folder, None), self.state, keep=1)
            self.saved()
            self.trainer.hand_over(self.step)

    def _prepared(self, step: OptimiserStep, temperature: float) -> StepResult:
        """Write the step's batch for the trainer, who does not see it yet; its record."""
        begun = time.monotonic()
        batch = self.engine.micro_batches(step, temperature)
        self.trainer.prepare(self.step + 1, batch)
        duration, published = time.monotonic() - begun, self.trainer.published()
        before = self.policy_version - self.step
        self.count_step(duration)
        self._rollouts[self.step] = rollouts_in(step.samples)
        fields = {
            "algorithm": self.algorithm,
            "engine": PRIME_RL,
            "step": self.step,
            "loss": None,
            "grad_norm": None,
            "duration_s": duration,
            "policy_version": self.policy_version,
            "engine_version": None if published is None else before + published,
            "engine_waited_s": self._waited,
            **self._describe(step, {"micro_batches": len(batch[0])}),
        }
        record = cast(StepResult, fields)
        self._waited = 0.0
        self.history.append(record)
        return record

    def _wait(self, step: int) -> None:
        """Until the trainer has published the weights after `step`; what it publishes meanwhile is passed on."""
        begun, notice = time.monotonic(), NOTICE
        self._follow()
        while (self.trainer.published() or 0) < step:
            self.pause(POLL)
            self._follow()
            waited = time.monotonic() - begun
            if waited >= notice:
                notice *= 2
                published = self.trainer.published()
                last = "no weights" if published is None else f"the weights after step {published}"
                self.say(
                    f"has waited {waited:.0f} s for {PRIME_RL}'s trainer, which was given step {self.step} and has published "
                    f"{last}: does it run, with {self.trainer.path} as its output_dir?"
                )
        self._waited += time.monotonic() - begun

    def _follow(self, last: bool = False) -> None:
        """Publish the trainer's newest weights where they are due. What vanishes meanwhile is left for the next call."""
        self._looked = time.monotonic()
        publisher, step = self.publisher, self.trainer.published()
        if publisher is None or step is None:
            return
        version, before = self.policy_version - self.step + step, publisher.version
        if version <= before or not (last or publisher.due(version)):
            return

        def write(folder: Path) -> None:
            self.trainer.take_weights(step, folder)
            self.tokenizer.save_pretrained(folder)
            if not (folder / "adapter_config.json").exists():
                policy.write_config(self.model, folder)

        trained = sum(count for taken, count in self._rollouts.items() if taken <= step)
        try:
            publisher.publish(version, write, trained, self.refused)
        except WeightsGone:
            publisher.version = before
            checkpoints.clean(publisher.folder)

    def _starving(self, yes: bool) -> None:
        super()._starving(yes)
        if yes or time.monotonic() - self._looked >= POLL:
            self._follow()


def with_logprobs(sample: Sample) -> Sample:
    """The sample; RecordError where it has loss and its tokens are not those that were sampled, with their logprobs."""
    if sample.trains:
        missing = "token_ids" if sample.tokens == TEMPLATE else "logprobs" if not sample.has_logprobs else None
        if missing is not None:
            raise RecordError(
                f"no {missing}: {PRIME_RL}'s loss compares the trainer's probability of each sampled token with the sampler's"
            )
    return sample


def describe(
    options: GrpoOptions,
    engine: EngineOptions,
    lines: Iterable[Line[Rollout]],
    reject: Callable[[Line[Rollout], str], None],
) -> str:
    """What a dry run says of the batches that held rollouts make; no model is read. reject: as in TrainingRun.samples."""
    samples = []
    for line in lines:
        try:
            sample = with_logprobs(sample_of(line.record))
            check_sampling(sample, options.temperature, logprobs=True)
            samples.append(sample)
        except RecordError as error:
            reject(line, str(error))
    steps = held_steps(samples, recipe_of(options, engine.tokens), {}, options.epochs, Counter())
    temperature = shared_temperature([sample for step in steps for sample in step.samples], options.temperature)
    sizes = [
        (sum(len(row.tokens.input_ids) for row in step.rows), len(step.rows), engine.micro_batches(step, temperature))
        for step in steps
    ]
    tokens, rows, batch = max(sizes, key=lambda size: size[0], default=(0, 0, [[]]))
    return (
        f"{len(steps)} steps; the largest: {rows} sequences of {tokens:,} tokens in {len(batch[0])} micro-batches on each of "
        f"{engine.engine_ranks} ranks"
    )
