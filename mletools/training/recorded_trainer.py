"""TRL's GRPOTrainer on rollouts that were recorded elsewhere: its loss and its model, our batches.

The trainer walks through optimiser steps that come from an iterator, however long that is; a step is cut into
micro-batches here, forward and backward, and their gradients add up to that of the whole step, on one process or several.
Covered: TRL 1.16 and the losses of algorithms.LOSS_TYPES; rows with and without recorded log-probabilities; truncated
importance sampling; DDP, FSDP and DeepSpeed as accelerate sets them up. Not covered: images, sampling, rewards.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mletools.training.algorithms import MEANS_OVER_ROWS
from mletools.training.microbatches import Layout, cut, padding_share, tensors_of
from mletools.training.steps import Row, Step

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
    return _trainer_class(steps, layout, correction, spoilt)(
        model=model,
        reward_funcs=[_no_reward],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": ""}]),
        processing_class=tokenizer,
        peft_config=adapter,
    )


def _trainer_class(
    steps: Iterator[Step], layout: Layout, correction: Correction, spoilt: Callable[[Step, str], None]
) -> Any:
    """GRPOTrainer with the steps in place of sampling; a class of its own because TRL is imported only when needed."""
    import torch
    from trl import GRPOTrainer
    from trl.trainer.grpo_trainer import use_adapter

    class RecordedTrainer(GRPOTrainer):
        observed: dict[str, float]
        taken: Step

        def get_train_dataloader(self) -> Any:
            return _Steps(steps, self.accelerator.num_processes, self.accelerator.process_index)

        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            """Gradients of a whole step; returns this process's part of the loss, times the number of processes."""
            model.train()
            world, rank = self.accelerator.num_processes, self.accelerator.process_index
            step = self.taken = inputs["step"]
            # a row that neither pays nor is held back by another term has no gradient
            plain = self.beta == 0.0 and correction.entropy_coef == 0.0
            used = [row for row in step.rows if row.advantage or not plain]
            parts = cut(used, layout, world)
            self._sums = {name: torch.zeros((), device=self.accelerator.device) for name in _SUMS}
            self._largest = torch.ones((), device=self.accelerator.device)
            total = torch.zeros((), device=self.accelerator.device)
            for index, rows in enumerate(parts[rank]):
                last = index + 1 == len(parts[rank])
                self.accelerator.gradient_state._set_sync_gradients(last)
                with contextlib.nullcontext() if last else self.accelerator.no_sync(model):
                    loss = self._part(model, rows, step, world, len(parts[0][index]))
                    self.accelerator.backward(loss)
                total += loss.detach()
            self._observe(parts, sum(row.tokens.loss_tokens for row in used))
            self._refuse_spoilt(self.accelerator.reduce(total.clone(), reduction="mean"))
            return total

        def _part(self, model: Any, rows: Sequence[Row], step: Step, world: int, count: int = 1) -> Any:
            """The loss of one micro-batch of at least `count` rows, as a part of the step's."""
            tokens = max(1, sum(row.tokens.loss_tokens for row in step.rows))
            inputs = {
                **tensors_of(rows, self._tokenizer.pad_token_id),
                "num_items_in_batch": torch.tensor(float(tokens)),
            }
            inputs = {name: tensor.to(self.accelerator.device) for name, tensor in inputs.items()}
            if self.beta != 0.0:
                inputs["ref_per_token_logps"] = self._reference(inputs)
            self._inputs = inputs
            with self.compute_loss_context_manager():
                loss = super()._compute_loss(model, inputs)
            if self.loss_type in MEANS_OVER_ROWS:
                loss = loss * (inputs["advantages"].size(0) * world / max(1, step.rollouts))
            if correction.entropy_coef:
                loss = loss - correction.entropy_coef * self._entropy_sum * world / tokens
            return loss

        def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
            """TRL's, which the loss begins with; what depends on the present probabilities is put into its inputs."""
            found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
            if kwargs.get("compute_entropy"):
                self._complete(found[0].detach(), found[1])
            return found

        def _complete(self, logps: Any, entropies: Any) -> None:
            inputs = self._inputs
            mask, recorded = inputs["tool_mask"], inputs["recorded"].unsqueeze(1).bool()
            sampled = torch.where(recorded, inputs["recorded_logps"], logps)
            log_ratio = (logps - sampled) * mask
            inputs["old_per_token_logps"] = sampled if correction.ratio and not correction.importance else logps
            inputs["old_per_token_logps"] = inputs["old_per_token_logps"] * mask + logps * (1 - mask)
            inputs["sampling_per_token_logps"] = sampled * mask + logps * (1 - mask)
            if correction.importance:
                inputs["advantages"] = inputs["advantages"].unsqueeze(1) * importance_weights(
                    log_ratio, mask, correction.importance, correction.clip_max, correction.clip_min
                )
            self._entropy_sum = (entropies * mask).sum()
            low = (log_ratio < math.log1p(-self.epsilon_low)) & (inputs["advantages"].reshape(len(mask), -1) < 0)
            high = (log_ratio > math.log1p(self.epsilon_high)) & (inputs["advantages"].reshape(len(mask), -1) > 0)
            sums = {
                "entropy": self._entropy_sum.detach(),
                "log_ratio": -log_ratio.sum(),
                "clipped": ((low | high) & mask.bool()).sum(),
            }
            for name, value in sums.items():
                self._sums[name] += value
            self._largest = torch.maximum(self._largest, log_ratio.abs().max().exp())

        def _observe(self, parts: Sequence[Sequence[Sequence[Row]]], tokens: int) -> None:
            sums = self.accelerator.reduce(torch.stack([self._sums[name].float() for name in _SUMS]), reduction="sum")
            means = {name: float(value) / max(1, tokens) for name, value in zip(_SUMS, sums, strict=True)}
            self.observed = {
                "entropy": means["entropy"],
                "sampler_kl": means["log_ratio"],
                "clipped_share": means["clipped"],
                "largest_ratio": float(self.accelerator.gather(self._largest).max()),
                "padding_share": padding_share([rows for part in parts for rows in part]),
                "micro_batches": sum(len(rows) > 0 for part in parts for rows in part),
            }

        def _refuse_spoilt(self, loss: Any) -> None:
            value, largest = float(loss), self.observed["largest_ratio"]
            if not math.isfinite(value):
                self._spoilt(f"the loss is {value}")
            if correction.largest_ratio is not None and largest > correction.largest_ratio:
                self._spoilt(
                    f"the policy gives a token {largest:.3g} times (or one part in as many of) the probability that it was "
                    f"sampled with, beyond {correction.largest_ratio:g}"
                )

        def _spoilt(self, why: str) -> None:
            spoilt(self.taken, why)

        def _clip_grad_norm(self, model: Any) -> Any:
            norm = super()._clip_grad_norm(model)
            if norm is not None and not math.isfinite(float(norm)):
                self._spoilt(f"the gradient norm is {float(norm)}")
            return norm

        def _reference(self, inputs: dict[str, Any]) -> Any:
            """Log-probabilities of the policy that the run began from, for the KL term; shape (B, C)."""
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            seen = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            width = inputs["completion_ids"].size(1)
            score = super()._get_per_token_logps_and_entropies
            with torch.no_grad():
                if self.ref_model is not None:
                    return score(self.ref_model, ids, seen, width)[0]
                adapted = self.accelerator.unwrap_model(self.model)
                with use_adapter(adapted, adapter_name="ref" if "ref" in adapted.peft_config else None):
                    return score(self.model, ids, seen, width)[0]

    return RecordedTrainer


_SUMS = ("entropy", "log_ratio", "clipped")


def importance_weights(log_ratio: Any, mask: Any, mode: str, highest: float | None, lowest: float | None) -> Any:
    """Weights of pi_trainer / pi_sampler, shape (B, C) or (B, 1), bounded as TRL's vllm_importance_sampling_mode says.

    log_ratio: trainer minus sampler, 0 where mask is 0. `token_*`: a ratio a token; `sequence_*`: the product over the
    sequence's own tokens. `*_truncate`: brought to the bounds; `*_mask`: 0 beyond them.
    """
    import torch

    log_weight = log_ratio if mode.startswith("token") else (log_ratio * mask).sum(dim=1, keepdim=True)
    weight = torch.exp(log_weight)
    if mode.endswith("truncate"):
        return weight.clamp(min=lowest, max=highest) if (lowest, highest) != (None, None) else weight
    inside = torch.ones_like(weight, dtype=torch.bool)
    if highest is not None:
        inside &= weight <= highest
    if lowest is not None:
        inside &= weight >= lowest
    return torch.where(inside, weight, torch.zeros_like(weight))


class _Steps:
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
