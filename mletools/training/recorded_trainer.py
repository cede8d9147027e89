"""TRL's GRPOTrainer on rollouts that were recorded elsewhere: its loss and its model, our batches.

The trainer walks through optimiser steps that come from an iterator, however long that is; a step is cut into
micro-batches here, forward and backward, and their gradients add up to that of the whole step, on one process or several.
Covered: TRL 1.16 and the losses of algorithms.LOSS_TYPES; rows with and without recorded log-probabilities; truncated
importance sampling; DDP, FSDP and DeepSpeed as accelerate sets them up. Not covered: images, sampling, rewards.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .microbatches import Layout
from .steps import Step

IMPORTANCE_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


@dataclass(frozen=True)
class Correction:
    """How the sampler's log-probabilities are used. ratio: the clipped ratio is against them; else it is 1.

    importance: weights of pi_trainer / pi_sampler in place of it, truncated or masked (of IMPORTANCE_MODES) at the bounds;
    None: none. largest_ratio: a ratio beyond it ends the run, before the step is taken.
    """

    ratio: bool = True
    importance: str | None = None
    clip_max: float | None = 3.0
    clip_min: float | None = None
    largest_ratio: float | None = None
    entropy_coef: float = 0.0


class EndOfSteps(Exception):
    """No more steps come: the training loop ends here."""


def recorded_trainer(
    *,
    model: Any,
    adapter: Any,
    tokenizer: Any,
    steps: Iterator[Step],
    layout: Layout,
    correction: Correction,
    spoilt: Callable[[Step, str], None],
    arguments: dict[str, Any],
) -> Any:
    """A GRPOTrainer whose train() takes one optimiser step per item of `steps` and ends with EndOfSteps.

    steps: read on the first process only. spoilt(step, why): called before an error for a step whose loss, gradient or
    ratios are not usable. `arguments` go to GRPOConfig. After a step `trainer.observed` tells what was seen in it.
    """
    from datasets import Dataset
    from trl import GRPOConfig

    from .trl_trainer import RecordedTrainer

    # TRL wants two completions of a prompt at least; they are never made.
    config = GRPOConfig(
        per_device_train_batch_size=2,
        gradient_accumulation_steps=1,
        num_generations=2 * processes(),
        remove_unused_columns=False,
        shuffle_dataset=False,
        disable_dropout=True,
        scale_rewards="none",
        max_steps=2**31 - 1,
        vllm_importance_sampling_correction=False,
        **arguments,
    )
    return RecordedTrainer(
        steps=steps,
        layout=layout,
        correction=correction,
        spoilt=spoilt,
        model=model,
        reward_funcs=[_no_reward],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": ""}]),
        processing_class=tokenizer,
        peft_config=adapter,
    )


class Steps:
    """The steps as a data loader: the first process reads them, the others are told."""

    def __init__(self, steps: Iterator[Step], world: int, rank: int) -> None:
        self.steps, self.world, self.rank = steps, world, rank
        self.group = patient_group() if world > 1 else None

    def __iter__(self) -> Iterator[dict[str, Step]]:
        while True:
            step = next(self.steps, None) if self.rank == 0 else None
            if self.world > 1:
                step = told_to_all(step, self.group)
            if step is None:
                raise EndOfSteps
            yield {"step": step}


def processes() -> int:
    """How many processes train together (torchrun, accelerate launch)."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def patient_group() -> Any:
    """Processes that wait for one another for days: a stream may be silent for longer than a collective's time limit."""
    from datetime import timedelta

    import torch

    return torch.distributed.new_group(backend="gloo", timeout=timedelta(days=30))


def told_to_all(value: Any, group: Any) -> Any:
    """What the first process holds, on every process."""
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0, group=group)
    return box[0]


def _no_reward(completions: list[Any], **kwargs: Any) -> Any:
    """TRL wants a reward function; rewards are in the records, so it is never called."""
    raise AssertionError("rewards are recorded, not computed")
