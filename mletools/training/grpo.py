"""GRPO from recorded rollouts: which rollouts make a step, their advantages, and going on where a run left off.

The input is held whole: a group is complete only when the input has ended. Groups keep the order in which they first
appear; one optimiser step takes `groups_per_step` of them, the last step of a pass what is left.
Not covered: the loss itself (TRL's, reached through recorded_trainer), sampling, rewards.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mletools.records.errors import ToolError
from mletools.training import policy
from mletools.training.advantages import group_advantages, mean, sample_std
from mletools.training.policy import preload
from mletools.training.recorded_trainer import Row, recorded_trainer
from mletools.training.runs import TRAINER_STATE, Run
from mletools.training.samples import Sample, shared_temperature

__all__ = ["LOSS_TYPES", "GrpoOptions", "GrpoRun", "Step", "plan_steps", "preload"]

# Each is a sum over rows or tokens with a fixed divisor, so that rows which only fill up a batch change nothing.
LOSS_TYPES = ("grpo", "dapo", "dr_grpo")


@dataclass(frozen=True)
class GrpoOptions:
    """What defines a GRPO run. Clipping follows SandMLE (0.2 below, 0.28 above, no KL), the loss MLE-Ideator, App. A.2.

    loss_type: grpo (mean over a row's tokens, then over rows), dapo (mean over all tokens of the step) or dr_grpo (sum
    over tokens / (rows * max_completion_length)). temperature: None takes the one that the rollouts were sampled at.
    use_logprobs: the ratio of the clipped loss is against the recorded log-probabilities where every rollout has them;
    else, or with False, it is 1 and the update is REINFORCE with the group's baseline. lora_rank 0 trains all weights.
    """

    learning_rate: float = 1e-5
    groups_per_step: int = 16
    epochs: int = 1
    micro_batch: int = 8
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    beta: float = 0.0
    temperature: float | None = None
    loss_type: str = "grpo"
    max_completion_length: int = 1024
    scale_rewards: bool = True
    use_logprobs: bool = True
    max_grad_norm: float = 1.0
    lora_rank: int = 16
    lora_alpha: int = 32
    save_steps: int = 10
    keep: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss_type not in LOSS_TYPES:
            raise ToolError(f"loss_type {self.loss_type!r}: choose one of {', '.join(LOSS_TYPES)}")
        for name in ("groups_per_step", "epochs", "micro_batch", "max_completion_length", "save_steps", "keep"):
            if getattr(self, name) < 1:
                raise ToolError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class Step:
    """One optimiser step: the rows of the loss, and every sample of its groups (also those without loss tokens)."""

    rows: list[Row]
    samples: list[Sample]
    groups: int


def plan_steps(
    samples: Iterable[Sample], options: GrpoOptions, passes: dict[str, int], dropped: Counter[str]
) -> list[Step]:
    """The optimiser steps that `samples` make; `passes` counts, by id, how often a rollout was trained on before.

    A pass takes the groups whose rollouts had fewer passes, so what a killed run had done is not done again. Counted in
    `dropped`: trained (all passes done before), no_reward, repeated (an id seen twice), lone (a group of one),
    no_spread (equal rewards), no_loss (no token may be trained on; the reward still counts in its group's mean).
    """
    groups: dict[str, list[Sample]] = {}
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            dropped["repeated"] += 1
        elif passes.get(sample.id, 0) >= options.epochs:
            dropped["trained"] += 1
        elif sample.reward is None:
            dropped["no_reward"] += 1
        else:
            groups.setdefault(sample.group, []).append(sample)
        seen.add(sample.id)
    rows_of: dict[str, list[Row]] = {}
    for name, members in groups.items():
        advantages = group_advantages([float(s.reward or 0.0) for s in members], scale=options.scale_rewards)
        if advantages is None:
            dropped["lone" if len(members) < 2 else "no_spread"] += len(members)
            continue
        rows = [Row(s, a) for s, a in zip(members, advantages, strict=True) if s.loss_tokens]
        dropped["no_loss"] += len(members) - len(rows)
        if rows:
            rows_of[name] = rows
    steps = []
    for past in range(options.epochs):
        names = [name for name in rows_of if min(passes.get(s.id, 0) for s in groups[name]) <= past]
        for start in range(0, len(names), options.groups_per_step):
            chunk = names[start : start + options.groups_per_step]
            rows = [row for name in chunk for row in rows_of[name]]
            steps.append(Step(rows, [s for name in chunk for s in groups[name]], len(chunk)))
    dropped += Counter()
    return steps


class GrpoRun(Run):
    """A GRPO run in a folder. Each call of `train` is one session over its own rollouts; the next one goes on.

    After `train`, `reward_mean` is the mean over every reward of the session's input, dropped groups included.
    """

    algorithm = "grpo"
    free = frozenset({"learning_rate", "epochs", "micro_batch", "temperature", "max_grad_norm", "save_steps", "keep"})

    def __init__(self, model: str, out: Path, options: GrpoOptions, resume: bool = False) -> None:
        super().__init__(model, out, options, resume)
        self.options: GrpoOptions = options
        self.reward_mean: float | None = None
        self.passes: dict[str, int] = {}
        if self.resumed_from is not None:
            self.passes = json.loads((self.resumed_from / TRAINER_STATE / "trained.json").read_text())

    def train(self, rollouts: Iterable[Sample | dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Train on rollout records or samples; yield a train_step dict (less kind, version, id, lineage) per step.

        Raises RecordError for a record that cannot be a sample (see `sample`) and where temperatures differ.
        """
        samples = [item if isinstance(item, Sample) else self.sample(item) for item in rollouts]
        rewards = [sample.reward for sample in samples if sample.reward is not None]
        self.reward_mean = mean(rewards) if rewards else None
        steps = plan_steps(samples, self.options, self.passes, self.dropped)
        if not steps:
            return
        used = [row.sample for step in steps for row in step.rows]
        temperature = shared_temperature(used, self.options.temperature)
        recorded = self._recorded_logprobs(used)
        trainer = self._trainer(steps, temperature, recorded)
        yield from self.drive(
            trainer,
            lambda index: self._describe(steps[index]),
            lambda index: self.options.learning_rate,
            lambda index: index + 1 == len(steps),
        )

    def _recorded_logprobs(self, samples: list[Sample]) -> bool:
        """Whether the ratio is taken against the recorded log-probabilities; ToolError where they are of a cut tail."""
        if not self.options.use_logprobs or any(sample.logprobs is None for sample in samples):
            return False
        cut = {sample.top_p for sample in samples if sample.top_p is not None and sample.top_p < 1}
        if cut:
            raise ToolError(
                f"the rollouts were sampled with top_p {min(cut)}, so their logprobs are not the trainer's: "
                "sample with top_p 1, or train without the ratio (use_logprobs off)"
            )
        return True

    def _trainer(self, steps: list[Step], temperature: float, recorded: bool) -> Any:
        preload()
        model, adapter = policy.load_policy(self.model, self.options.lora_rank, self.options.lora_alpha)
        return recorded_trainer(
            model=model,
            adapter=adapter,
            tokenizer=self.tokenizer,
            steps=[step.rows for step in steps],
            micro_batch=self.options.micro_batch,
            recorded_logprobs=recorded,
            arguments={
                **self.common_arguments(),
                "temperature": temperature,
                "loss_type": self.options.loss_type,
                "epsilon": self.options.epsilon,
                "epsilon_high": self.options.epsilon_high,
                "beta": self.options.beta,
                "max_completion_length": self.options.max_completion_length,
            },
        )

    def _describe(self, step: Step) -> dict[str, Any]:
        """What the step trained on; called once per step, after it, with the policy version already counted up."""
        for sample in step.samples:
            self.passes[sample.id] = self.passes.get(sample.id, 0) + 1
        rewards = [float(sample.reward or 0.0) for sample in step.samples]
        versions = [s.policy_version for s in step.samples]
        known = [version for version in versions if isinstance(version, int)]
        return {
            "reward_mean": mean(rewards),
            "reward_std": sample_std(rewards),
            "tokens": sum(row.sample.loss_tokens for row in step.rows),
            "rollouts": len(step.samples),
            "groups": step.groups,
            "staleness": self.policy_version - 1 - mean(known) if len(known) == len(versions) else None,
        }

    def write(self, folder: Path, model: Any, optimizer: Any) -> None:
        super().write(folder, model, optimizer)
        (folder / TRAINER_STATE / "trained.json").write_text(json.dumps(self.passes))
