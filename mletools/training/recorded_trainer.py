"""TRL's GRPOTrainer on rollouts that were recorded elsewhere: its loss and its model, our batches.

The trainer walks through optimiser steps that come from an iterator, however long that is; a step is cut into
micro-batches here, forward and backward, and their gradients add up to that of the whole step, on one process or several.
Covered: TRL 1.16 and the losses of algorithms.LOSS_TYPES; rows with and without recorded log-probabilities; the
corrections of mismatch.MODES; DDP, FSDP and DeepSpeed as accelerate sets them up. Not covered: images, sampling, rewards.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .microbatches import Layout
from .mismatch import Correction
from .policy import Loaded, keep_precision, keep_to_one_gpu
from .step_loader import EndOfSteps, of_the_first, processes
from .steps import OptimiserStep

__all__ = [
    "Correction",
    "EndOfSteps",
    "of_the_first",
    "processes",
    "recorded_trainer",
]


def recorded_trainer(
    *,
    loaded: Loaded,
    tokenizer: Any,
    steps: Iterator[OptimiserStep],
    layout: Layout,
    correction: Correction,
    abort_step: Callable[[OptimiserStep, str], None],
    say: Callable[[str], None],
    arguments: dict[str, Any],
) -> Any:
    """A GRPOTrainer whose train() takes one optimiser step per item of `steps` and ends with EndOfSteps.

    steps: read on the first process only. abort_step(step, why): raises for a step with an unusable loss, gradient or
    ratio. say: tells the user. `arguments` go to GRPOConfig. After a step `trainer.observed` holds its statistics.
    """
    from datasets import Dataset
    from trl import GRPOConfig

    from .adapters import add_in_place
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
    keep_to_one_gpu(config)
    if config.cast_lm_head_to_fp32:
        # TRL looks here for the embedding that is tied to the head, where there are adapters
        base = loaded.model.get_base_model() if hasattr(loaded.model, "get_base_model") else loaded.model
        base.__dict__["embed_tokens"] = base.get_input_embeddings()  # and not as another part of the model
    trainer = RecordedTrainer(
        steps=steps,
        layout=layout,
        correction=correction,
        merged=loaded.merged,
        abort_step=abort_step,
        say=say,
        model=loaded.model,
        reward_funcs=[_no_reward],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": ""}]),
        processing_class=tokenizer,
        peft_config=loaded.adapter,
    )
    if config.bf16:
        keep_precision(trainer.model)
    elif processes() == 1:
        add_in_place(trainer.model)
    return trainer


def _no_reward(completions: list[Any], **kwargs: Any) -> Any:
    """TRL wants a reward function; rewards are in the records, so it is never called."""
    raise AssertionError("rewards are recorded, not computed")
