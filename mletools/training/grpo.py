"""Reinforcement from recorded rollouts: which of them make a step, what the step comes to, going on where a run left off.

A held input is laid out before the first step: a group is complete only when the input has ended. A stream is trained on as
it comes (stream.py). Not covered: the loss itself (TRL's, reached through recorded_trainer), sampling, rewards.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..base.errors import RecordError, ToolError
from ..records.rollout import Rollout
from ..records.training import StepResult
from . import checkpoints, policy
from .advantages import mean, sample_std
from .algorithms import EPSILON
from .checkpoints import TRAINER_STATE
from .group_buffer import FORGET, GroupBuffer, held_steps
from .memory import free_on_gpu, row_bound, sharding, tokens_that_fit
from .microbatches import SLACK, Layout
from .options import GrpoOptions
from .policy import preload
from .publish import Publisher
from .recorded_trainer import (
    Correction,
    of_the_first,
    processes,
    recorded_trainer,
)
from .runs import TrainingRun
from .samples import TEMPLATE, Sample, check_sampling, rollouts_in, sample_of, shared_temperature
from .session import Facts, drive
from .step_loader import leads
from .steps import OptimiserStep, StepRecipe
from .stream import Arrivals, Spool

__all__ = ["GrpoOptions", "GrpoRun", "recipe_of"]


class GrpoRun(TrainingRun):
    """A run in a folder. Each call of `train` is one session over its own rollouts; the next one goes on.

    After `train`, `reward_mean` is the mean over every reward of the session's input, left-out rollouts included.
    """

    algorithm = "grpo"
    free = frozenset(
        {
            "learning_rate", "epochs", "micro_batch", "micro_tokens", "temperature", "max_grad_norm", "save_steps", "keep",
            "logger", "validate", "largest_ratio", "logits_memory", "share_prefix", "varlen", "fp32_head", "max_staleness", "oversample", "duration_weight", "duration_of", "duration_clip", "equal_groups", "mask", "publish_steps",
            "max_steps",
        }
    )  # fmt: skip

    def __init__(
        self, model: str, out: Path, options: GrpoOptions, resume: bool = False, publisher: Publisher | None = None
    ) -> None:
        self.algorithm = options.algorithm
        self.publisher = publisher
        self.trained: float = 0  # rollouts
        self.written_off = 0  # rollouts that were begun for the steps so far, and were too late
        super().__init__(model, out, options, resume)
        self.options: GrpoOptions = options
        self.rewards: list[float] = []
        self.passes: dict[str, int] = {}
        self.retokenized = 0
        self._told_stale = False
        self.temperature = options.temperature  # that rollouts have to be sampled at, None: any
        self.spool: Spool | None = None
        self._arrivals: Arrivals | None = None
        if self.resumed_from is not None:
            self.passes = checkpoints.read_json(self.resumed_from / TRAINER_STATE / "trained.json")

    @property
    def nothing_left(self) -> bool:
        most = self.options.max_steps
        return bool(self.dropped["trained"] or self.dropped["repeated"]) or (most is not None and self.step >= most)

    @property
    def reward_mean(self) -> float | None:
        return mean(self.rewards) if self.rewards else None

    def sample(self, record: Rollout) -> Sample:
        """The training sample of a rollout record; RecordError when the record cannot be one (sample_of, check_sampling)."""
        sample = sample_of(record, self.vocabulary_size, self.tokenizer)
        if self.passes.get(sample.id, 0) < self.options.epochs:  # else it only counts in its group
            check_sampling(sample, self.temperature, self.uses_logprobs, self.options.mask)
        self.retokenized += sample.tokens == TEMPLATE
        return sample

    @property
    def recipe(self) -> StepRecipe:
        return recipe_of(self.options, policy.context_length(self.model))

    def train(self, rollouts: Iterable[Sample | Rollout]) -> Iterator[StepResult]:
        """Train on rollout records or samples, held; yield a train_step dict (less kind, version, id, lineage) per step.

        Raises RecordError for a record that cannot be a sample (see `sample`) and where temperatures differ.
        """
        samples = [item if isinstance(item, Sample) else self.sample(item) for item in rollouts]
        self.rewards = [sample.reward for sample in samples if sample.reward is not None]
        steps = held_steps(samples, self.recipe, self.passes, self.options.epochs, self.dropped, self._tell)
        if steps or processes() > 1:
            used = [sample for step in steps for sample in step.samples]
            for sample in used:
                check_sampling(sample, self.options.temperature, self.uses_logprobs)
            yield from self._drive(iter(steps), shared_temperature(used, self.options.temperature), len(steps))

    def train_stream(self, rollouts: Iterable[Sample | Rollout]) -> Iterator[StepResult]:
        """The same on rollouts as they come: a step whenever there is enough for one, until the input ends.

        Where no temperature is given they were sampled at 1: the first is not waited for.
        """
        temperature = self.temperature = 1.0 if self.options.temperature is None else self.options.temperature
        pool = GroupBuffer(
            self.recipe,
            self.passes,
            self.dropped,
            stream=True,
            version=lambda: self.policy_version,
            say=self._tell,
        )
        self.spool = Spool(self.out, self.step, self.resumed_from)
        if self.publisher is not None:
            # with oversampling what an earlier session has read is of a policy that is gone
            self.publisher.held = self.spool.kept() if self.options.oversample is None else 0
        samples = (item if isinstance(item, Sample) else self.sample(item) for item in rollouts)
        self._arrivals = Arrivals(samples, pool, self.spool, lambda: self.stopping, self.rewards.append, self._starving)

        def steps() -> Iterator[OptimiserStep]:
            assert self._arrivals is not None
            for step in self._arrivals.steps():
                try:
                    for sample in step.samples:
                        check_sampling(sample, temperature, self.uses_logprobs)
                except RecordError as error:  # of an earlier session, which had another
                    raise ToolError(
                        f"rollouts that are read again: {error}, or go on without them{self.without}"
                    ) from error
                yield step

        yield from self._drive(steps(), temperature, None)

    @property
    def without(self) -> str:
        if self.spool is None:
            return ""
        return f" (take their lines out of {' and '.join(map(str, self.spool.files))})"

    def _tell(self, text: str) -> None:
        """Say it, in the first of several processes."""
        if leads():
            self.say(text)

    @property
    def refused(self) -> float:
        """Rollouts of a stream that were begun and will never be trained on.

        With oversampling those that were too late for a step are written off with it, and do not count again when they come.
        """
        arrivals = self._arrivals
        if arrivals is None:
            return 0
        came = arrivals.total - rollouts_in(arrivals.pool.waiting) - self.trained
        return came if self.options.oversample is None else came - self.dropped["stale"] + self.written_off

    @property
    def _rollouts_a_step(self) -> int | None:
        """The rollouts to begin for the samples of a step: where a rollout is cut into several steps, fewer than these."""
        arrivals, batch = self._arrivals, self.recipe.begun or self.options.batch
        if batch is None or arrivals is None or not arrivals.usable:
            return batch
        return math.ceil(batch * min(1, arrivals.total / arrivals.usable))

    def _starving(self, yes: bool) -> None:
        if self.publisher is not None:
            self.publisher.rollouts = self._rollouts_a_step
            self.publisher.starving(yes, self.refused)

    def _drive(self, steps: Iterator[OptimiserStep], temperature: float, count: int | None) -> Iterator[StepResult]:
        """count: of the steps, None where nobody knows it. Of several processes the first one's steps are what counts."""
        if processes() > 1:
            temperature, count = of_the_first(temperature), None
        trainer = self._trainer(self._until_stopped(steps), temperature)
        yield from drive(
            self,
            trainer,
            lambda index: self._describe(trainer.taken, trainer.observed),
            lambda index: self.options.learning_rate,
            lambda index: index + 1 == count or self.step == self.options.max_steps,
        )

    def _until_stopped(self, steps: Iterator[OptimiserStep]) -> Iterator[OptimiserStep]:
        """The steps, until the run is stopping or has as many as `max_steps` says; the next is not looked for then."""
        left = None if self.options.max_steps is None else max(0, self.options.max_steps - self.step)
        for step in islice(steps, left):
            if self.stopping:
                return
            yield step

    def _trainer(self, steps: Iterator[OptimiserStep], temperature: float) -> Any:
        preload()
        options = self.options
        loaded = policy.load_policy(self.model, options.lora_rank, options.lora_alpha, options.dtype)
        epsilon = EPSILON if options.epsilon is None else options.epsilon
        high = epsilon if options.epsilon_high is None else options.epsilon_high
        correction = Correction(
            mode=options.mismatch,
            bound=options.mismatch_bound,
            largest_ratio=options.largest_ratio,
            entropy_coef=options.entropy_coef,
        )
        return recorded_trainer(
            loaded=loaded,
            tokenizer=self.tokenizer,
            steps=steps,
            layout=self._layout(),
            correction=correction,
            abort_step=self.abort_step,
            say=self.say,
            arguments={
                **self.common_arguments(),
                "temperature": temperature,
                "loss_type": options.loss_type,
                "importance_sampling_level": options.importance_sampling_level,
                "epsilon": epsilon,
                "epsilon_high": 1 + high
                if options.loss_type == "cispo"
                else high,  # of cispo TRL takes the bound itself
                "delta": options.delta,
                "beta": options.beta,
                "use_bias_correction_kl": options.use_bias_correction_kl,
                "off_policy_mask_threshold": options.off_policy_mask_threshold,
                "max_completion_length": options.max_completion_length,
                "cast_lm_head_to_fp32": options.fp32_head,
            },
        )

    @property
    def uses_logprobs(self) -> bool:
        return self.options.mismatch != "off"

    def _layout(self) -> Layout:
        """On an H100 attention block by block took longer than the padding (docs/gpu.md): there rows are packed on demand."""
        import torch

        options, gpu = self.options, torch.cuda.is_available()
        tokens = options.micro_tokens
        if tokens is None and options.micro_batch is None and gpu:
            tokens = tokens_that_fit(
                self.model, options.lora_rank, free_on_gpu(), options.beta != 0.0, options.logits_memory
            )
            if tokens is not None:
                self.say(f"micro-batches of up to {tokens:,} tokens, for which the GPU's free memory should do")
        pack = options.varlen or not gpu
        if pack and sharding().stage == 3:
            self.say("weights are sharded: rows are padded, and each computes its prompt anew")
            pack = False
        rows = row_bound(options.micro_batch, tokens)
        return Layout(rows, tokens, pack, pack and options.share_prefix, 0.0 if gpu else SLACK)

    def _describe(self, step: OptimiserStep, observed: Mapping[str, float]) -> Facts:
        """Statistics of the step's rollouts, and what was `observed` of it. Call it once after each step, with the policy
        version incremented."""
        for sample in step.samples:
            self.passes[sample.id] = self.passes.get(sample.id, 0) + 1
        while self.spool is not None and len(self.passes) > FORGET:
            del self.passes[next(iter(self.passes))]
        rewards = [float(sample.reward or 0.0) for sample in step.samples]
        versions = [sample.policy_version for sample in step.samples]
        # a version that is still to come is some other policy's
        known = [self.policy_version - 1 - v for v in versions if isinstance(v, int) and v < self.policy_version]
        seconds = [sample.duration_s for sample in step.samples]
        arrivals = self._arrivals.statistics() if self._arrivals is not None else {}
        self.trained += rollouts_in(step.samples)
        if self.options.oversample is not None and self.options.batch is not None:
            self.written_off += round(self.options.oversample * self.options.batch) - len(step.samples)
        if self.options.mismatch == "off" and max(known, default=0) > 0 and not self._told_stale:
            self._told_stale = True
            self.say(
                f"step {self.step}: rollouts up to {max(known)} updates old count as the policy's own (--mismatch off); "
                "--mismatch token-mask weights them by the ratio"
            )
        return {
            "reward_mean": mean(rewards),
            "reward_std": sample_std(rewards),
            "tokens": sum(row.tokens.loss_tokens for row in step.rows),
            "rollouts": len(step.samples),
            "sequences": len(step.rows),
            "groups": step.groups,
            "staleness": mean(known) if len(known) == len(versions) else None,
            "staleness_max": max(known) if len(known) == len(versions) else None,
            "retokenized": sum(sample.tokens == TEMPLATE for sample in step.samples),
            "rollout_s": mean(seconds),
            "weighted": step.weights is not None,
            "weight_max": max(step.weights) if step.weights else None,
            "lost": round(step.lost, 3),
            "in_flight": step.in_flight,
            "sampler_waited_s": max(
                (s.sampler_waited_s for s in step.samples if s.sampler_waited_s is not None), default=None
            ),
            **arrivals,
            **observed,
        }

    def publish(self, trainer: Any, last: bool) -> None:
        publisher, version = self.publisher, self.policy_version
        if publisher is not None and version != publisher.version and (last or publisher.due(version)):

            def write(folder: Path) -> None:
                self.write_policy(folder, trainer)

            publisher.publish(version, write, self.trained, self.refused, trainer.args.process_index == 0)
        most = self.options.max_steps
        if publisher is not None and trainer.args.process_index == 0 and most is not None and self.step >= most:
            publisher.end(self.refused)

    def write_history(self, folder: Path) -> None:
        super().write_history(folder)
        (folder / "trained.json").write_text(json.dumps(self.passes))
        if self.spool is not None and self._arrivals is not None:
            self.spool.save(folder, self._arrivals.pool)

    def saved(self) -> None:
        if self.spool is not None:
            self.spool.turn(self.step)


def temperature_of(samples: Sequence[Sample], options: GrpoOptions) -> float:
    """The temperature of what would be trained on of an input that is there as a whole. RecordError: there are several."""
    steps = held_steps(samples, recipe_of(options, None), {}, 1, Counter())
    return shared_temperature((sample for step in steps for sample in step.samples), options.temperature)


def recipe_of(options: GrpoOptions, context: int | None) -> StepRecipe:
    """What makes steps of rollouts by these options. context: tokens of the longest sequence that can be trained on."""
    return StepRecipe(
        groups_per_step=options.groups_per_step,
        batch=options.batch,
        baseline=options.baseline,
        scale_rewards=options.scale_rewards,
        mask=options.mask,
        duration_weight=options.duration_weight,
        duration_of=options.duration_of,
        duration_clip=options.duration_clip,
        max_staleness=options.max_staleness if options.oversample is None else 0,
        oversample=options.oversample,
        context=context,
        equal_groups=options.equal_groups,
    )
