"""TRL's GRPOTrainer on rollouts that were recorded elsewhere: the one method that samples and scores is replaced.

The trainer's data set has one row per optimiser step, and its "generation batch" is that row alone: the replaced method
answers with the step's own rollouts, however many they are. Rows that fill the step up to a whole number of
micro-batches carry no loss, and the divisor of a mean over rows is corrected for them, so they change nothing.
Covered: TRL 1.16 and its loss types grpo, dapo, dr_grpo; several processes under torchrun.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mletools.training.samples import Sample

MEANS_OVER_ROWS = ("grpo", "dr_grpo")


@dataclass(frozen=True)
class Row:
    """A sample and its advantage: one number for all of its loss tokens."""

    sample: Sample
    advantage: float


def row_tensors(rows: Sequence[Row], count: int, pad: int, recorded_logprobs: bool) -> dict[str, Any]:
    """The tensors that TRL's loss reads: prompts padded left, completions right, filled up to `count` rows.

    A completion begins at the first loss token; `tool_mask` is 0 at tokens inside it that the policy did not write.
    Shapes: prompt_* (count, P), completion_*, tool_mask, old_per_token_logps (count, C), advantages (count,).
    """
    import torch

    splits = [row.sample.prompt_length for row in rows]
    longest_prompt = max(splits, default=1)
    longest = max((len(r.sample.input_ids) - s for r, s in zip(rows, splits, strict=True)), default=1)
    prompt_ids = torch.full((count, longest_prompt), pad)
    prompt_mask = torch.zeros((count, longest_prompt), dtype=torch.long)
    completion_ids = torch.full((count, longest), pad)
    completion_mask = torch.zeros((count, longest), dtype=torch.long)
    tool_mask = torch.zeros((count, longest), dtype=torch.long)
    old = torch.zeros((count, longest))
    advantages = torch.zeros(count)
    for index, (row, split) in enumerate(zip(rows, splits, strict=True)):
        sample, length = row.sample, len(row.sample.input_ids) - split
        if split:
            prompt_ids[index, -split:] = torch.tensor(sample.input_ids[:split])
            prompt_mask[index, -split:] = 1
        completion_ids[index, :length] = torch.tensor(sample.input_ids[split:])
        completion_mask[index, :length] = 1
        tool_mask[index, :length] = torch.tensor(sample.loss_mask[split:])
        if sample.logprobs is not None:
            old[index, :length] = torch.tensor(sample.logprobs[split:])
        advantages[index] = row.advantage
    # A row without any visible token would turn attention into 0 / 0.
    prompt_mask[len(rows) :, -1] = 1
    completion_mask[len(rows) :, 0] = 1
    tensors = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "advantages": advantages,
    }
    if recorded_logprobs:
        tensors["old_per_token_logps"] = old * tool_mask
    return tensors


def trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """A micro-batch without the columns in which all of its rows are padding; TRL pads to the longest of the step."""
    first = int(inputs["prompt_mask"].any(dim=0).int().argmax())
    width = int(inputs["completion_mask"].sum(dim=1).max())
    prompts = {name: inputs[name][:, first:] for name in ("prompt_ids", "prompt_mask")}
    wide = ("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps", "ref_per_token_logps")
    completions = {name: inputs[name][:, :width] for name in wide if inputs.get(name) is not None}
    return {**inputs, **prompts, **completions}


def recorded_trainer(
    *,
    model: Any,
    adapter: Any,
    tokenizer: Any,
    steps: Sequence[Sequence[Row]],
    micro_batch: int,
    recorded_logprobs: bool,
    arguments: dict[str, Any],
) -> Any:
    """A GRPOTrainer whose train() takes one optimiser step per entry of `steps`, each at least one row.

    micro_batch: rows of one forward pass, at most. `arguments` go to GRPOConfig.
    """
    from datasets import Dataset
    from trl import GRPOConfig

    world = _world_size()
    parts = max(math.ceil(len(rows) / (micro_batch * world)) for rows in steps)
    # Two rows per device and part, because TRL asks for at least two completions of a prompt; they are never made.
    config = GRPOConfig(
        per_device_train_batch_size=2,
        gradient_accumulation_steps=parts,
        num_generations=2 * parts * world,
        remove_unused_columns=False,
        shuffle_dataset=False,
        disable_dropout=True,
        scale_rewards="none",
        **arguments,
    )
    return _trainer_class(steps, recorded_logprobs)(
        model=model,
        reward_funcs=[_no_reward],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "", "step": index} for index in range(len(steps))]),
        processing_class=tokenizer,
        peft_config=adapter,
    )


def _trainer_class(steps: Sequence[Sequence[Row]], recorded_logprobs: bool) -> Any:
    """GRPOTrainer with the steps in place of sampling; a class of its own because TRL is imported only when needed."""
    import torch
    from trl import GRPOTrainer
    from trl.trainer.grpo_trainer import use_adapter

    class RecordedTrainer(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            rows = steps[inputs[0]["step"]]
            world, rank = self.accelerator.num_processes, self.accelerator.process_index
            parts = self.args.gradient_accumulation_steps
            count = math.ceil(math.ceil(len(rows) / world) / parts) * parts
            tensors = row_tensors(rows[rank::world], count, self._tokenizer.pad_token_id, recorded_logprobs)
            tensors["num_items_in_batch"] = torch.tensor(float(sum(row.sample.loss_tokens for row in rows)))
            filled = count * world / len(rows)
            tensors["loss_factor"] = torch.tensor(filled if self.loss_type in MEANS_OVER_ROWS else 1.0)
            tensors = {name: tensor.to(self.accelerator.device) for name, tensor in tensors.items()}
            if self.beta != 0.0:
                tensors["ref_per_token_logps"] = self._reference(tensors, count // parts)
            return tensors

        def _reference(self, tensors: dict[str, Any], batch_size: int) -> Any:
            """Log-probabilities of the policy that the run began from, for the KL term; shape (rows, C)."""
            ids = torch.cat([tensors["prompt_ids"], tensors["completion_ids"]], dim=1)
            seen = torch.cat([tensors["prompt_mask"], tensors["completion_mask"]], dim=1)
            width = tensors["completion_ids"].size(1)
            with torch.no_grad():
                if self.ref_model is not None:
                    found = self._get_per_token_logps_and_entropies(self.ref_model, ids, seen, width, batch_size)
                else:
                    adapted = self.accelerator.unwrap_model(self.model)
                    with use_adapter(adapted, adapter_name="ref" if "ref" in adapted.peft_config else None):
                        found = self._get_per_token_logps_and_entropies(self.model, ids, seen, width, batch_size)
            return found[0]

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            loss = super().compute_loss(model, trimmed(inputs), return_outputs, num_items_in_batch)
            return loss * inputs["loss_factor"]

    return RecordedTrainer


def _no_reward(completions: list[Any], **kwargs: Any) -> Any:
    """TRL wants a reward function; rewards are in the records, so it is never called."""
    raise AssertionError("rewards are recorded, not computed")


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
