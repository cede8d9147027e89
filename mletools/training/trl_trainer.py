"""The part of the trainer that needs TRL at hand: its GRPOTrainer with recorded steps, micro-batch by micro-batch.

A module of its own, for importing it takes seconds: recorded_trainer does when training begins. Not covered: how a trainer is
set up, the steps (recorded_trainer), how a step is cut (microbatches).
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from trl import GRPOTrainer
from trl.trainer.grpo_trainer import use_adapter

from ..base.errors import ToolError
from . import mismatch, packing, shards
from .algorithms import MEANS_OVER_ROWS, MEANS_OVER_TOKENS
from .microbatches import Block, Layout, blocks, cut, tensors_of, work
from .mismatch import Correction
from .policy import require_of_trl
from .step_loader import Steps
from .steps import OptimiserStep, Row

# What RecordedTrainer puts in the place of TRL's, and what it reads and sets.
_METHODS = (
    "get_train_dataloader", "training_step", "_compute_loss", "_get_per_token_logps_and_entropies", "_clip_grad_norm",
    "get_off_policy_mask", "compute_loss_context_manager",
)  # fmt: skip
_FIELDS = (
    "aux_loss_enabled", "beta", "epsilon_low", "epsilon_high", "importance_sampling_level", "loss_type", "off_policy_mask_threshold", "ref_model", "_tokenizer",
)  # fmt: skip


class RecordedTrainer(GRPOTrainer):
    """GRPOTrainer with recorded steps in place of sampling; after a step `observed` tells what was seen in it.

    steps, layout, correction, merged, abort_step, say: as recorded_trainer says; the rest goes to GRPOTrainer.
    """

    observed: dict[str, float]
    taken: OptimiserStep

    def __init__(
        self,
        steps: Iterator[OptimiserStep],
        layout: Layout,
        correction: Correction,
        merged: bool,
        abort_step: Callable[[OptimiserStep, str], None],
        say: Callable[[str], None],
        **trl: Any,
    ) -> None:
        require_of_trl(GRPOTrainer, _METHODS)
        self._merged = merged
        self.steps, self.layout, self.correction, self.abort_step, self.say = steps, layout, correction, abort_step, say
        self._halved = False
        super().__init__(**trl)
        require_of_trl(self, _FIELDS)
        self.aux_loss_enabled = False  # of experts, it would depend on how the step is cut
        why = (
            packing.refusal(self.accelerator.unwrap_model(self.model), self.accelerator.mixed_precision)
            if layout.pack
            else None
        )
        if why is not None:
            say(f"this model's rows are padded, and each computes its prompt anew: {why}")
            self.layout = replace(layout, pack=False, share=False)
        if (
            layout.tokens is not None and self.accelerator.num_processes > 1
        ):  # every process cuts the same micro-batches
            bounds = self.accelerator.gather(torch.tensor(layout.tokens, device=self.accelerator.device))
            self.layout = replace(self.layout, tokens=int(bounds.min()))

    @property
    def ref_model(self) -> Any:
        """The policy that the run began from; None where there is no KL term, or adapters are switched off for it."""
        return self._ref_model

    @ref_model.setter
    def ref_model(self, model: Any) -> None:
        self._ref_model = model
        if model is not None and self._merged:  # TRL has loaded it by the policy's name, which is the base's
            if shards.sharded(self):
                raise ToolError(
                    "the KL term wants the policy that the run begins from once more, and an adapter cannot be merged into shards: "
                    "give the full model (RUN_DIR/merged of a training with --export-merged) as --model, or --beta 0"
                )
            policy: Any = self.model
            model.load_state_dict(policy.state_dict())
            self._merged = False  # what comes next is the same one, prepared

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        shards.settle(self.accelerator)

    def get_train_dataloader(self) -> Any:
        return Steps(self.steps, self.accelerator.num_processes, self.accelerator.process_index)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Gradients of a whole step; returns this process's part of the loss, times the number of processes.

        Where the GPU's memory does not suffice, the step begins anew with half the micro-batch, once in a run. ToolError:
        then too, or among several processes, which cannot begin anew one by one.
        """
        model.train()
        step = self.taken = inputs["step"]
        try:
            return self._gradients(model, step)
        except torch.OutOfMemoryError as error:
            rows, tokens = self._tried
            size = f"a micro-batch of {rows} rows and {tokens} tokens"
            if self._halved or rows < 2 or self.accelerator.num_processes > 1:
                raise ToolError(
                    f"the GPU's memory does not suffice for {size}: give a smaller --micro-batch or --micro-tokens, or "
                    f"leave out longer rollouts ({str(error).splitlines()[0]})"
                ) from error
        # Out of the handler: its traceback holds the tensors of the micro-batch.
        self._halved = True
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.layout = replace(self.layout, rows=max(1, rows // 2), tokens=max(1, tokens // 2))
        self.say(f"the GPU's memory did not suffice for {size}: goes on with {rows // 2} rows, {tokens // 2} tokens")
        return self._gradients(model, step)

    def _gradients(self, model: Any, step: OptimiserStep) -> Any:
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        # a row that neither pays nor is held back by another term has no gradient
        plain = self.beta == 0.0 and self.correction.entropy_coef == 0.0
        used = [row for row in step.rows if row.advantage or not plain]
        parts = cut(used, self.layout, world)
        self._sums = dict.fromkeys(mismatch.SUMS, torch.zeros((), dtype=torch.double, device=self.accelerator.device))
        self._largest = torch.zeros((), device=self.accelerator.device)
        total = torch.zeros((), device=self.accelerator.device)
        for index, rows in enumerate(parts[rank]):
            last = index + 1 == len(parts[rank])
            self._tried = len(rows), work([rows], self.layout).positions
            self.accelerator.gradient_state._set_sync_gradients(last)
            at_once = last or self.accelerator.gradient_state.plugin_kwargs.get("sync_each_batch")
            with contextlib.nullcontext() if at_once else self.accelerator.no_sync(model):
                loss = self._part(model, rows, step, world)
                self.accelerator.backward(loss)
            total += loss.detach()
        self._observe(parts, sum(row.tokens.loss_tokens for row in used))
        self._check_finite(self.accelerator.reduce(total.clone(), reduction="mean"))
        return total

    def _part(self, model: Any, rows: Sequence[Row], step: OptimiserStep, world: int) -> Any:
        """The loss of one micro-batch, as a part of the step's."""
        tokens = max(1, sum(row.tokens.loss_tokens for row in step.rows))
        read, inputs = (
            {name: tensor.to(self.accelerator.device) for name, tensor in tensors.items()}
            for tensors in tensors_of(rows, self._tokenizer.pad_token_id)
        )
        inputs["num_items_in_batch"] = torch.tensor(float(tokens), device=self.accelerator.device)
        self._read, self._inputs = read, inputs
        self._blocks = blocks(rows, self.layout) if self.layout.pack else []
        if self.beta != 0.0:
            inputs["ref_per_token_logps"] = self._reference()
        with self.compute_loss_context_manager():
            loss = super()._compute_loss(model, inputs)
        if self.loss_type in MEANS_OVER_ROWS:
            loss = loss * (inputs["advantages"].size(0) * world / max(1, step.rollouts))
        if self.loss_type in MEANS_OVER_TOKENS and rows:
            # Of a rollout that is not whole, which has the micro-batch for itself; of all others the share is 1.
            here = {row.sample.id for row in rows}
            whole = sum(row.tokens.loss_tokens for row in step.rows if row.sample.id in here)
            loss = loss * (sum(row.tokens.loss_tokens for row in rows) / whole)
        if self.correction.entropy_coef:
            loss = loss - self.correction.entropy_coef * self._entropy_sum * world / tokens
        return loss

    def _get_per_token_logps_and_entropies(self, model: Any, *_: Any, **kwargs: Any) -> Any:
        """In place of TRL's, which the loss begins with; what depends on the present probabilities goes into its inputs.

        Returns (log-probabilities, entropies) of shape (R, C), 0 where a rollout has no token, and no balancing loss of
        experts.
        """
        logps, entropies = self._scores(model, self._blocks)
        self._compare(logps.detach(), entropies.detach())
        self._entropy_sum = (entropies * self._inputs["completion_mask"]).sum()
        return logps, entropies, None

    def _scores(self, model: Any, laid: Sequence[Block] = ()) -> tuple[Any, Any]:
        """Log-probabilities and entropies of the loss tokens of the micro-batch, shape (R, C); see tensors_of.

        laid: how the rows are packed; without, they go as they are. No mask hides the padding: it comes after every token
        that counts, and causal attention looks back alone. A mask would keep PyTorch from its flash kernel and take L * L
        entries a row.
        """
        ids, targets = self._read["ids"], self._read["targets"]
        with self.accelerator.autocast():
            if not laid:
                outputs = model(input_ids=ids, shift_labels=targets, fused_lm_head=True)
                found = [outputs.log_probs, outputs.entropy]
            else:
                packed = packing.pack(ids, targets, laid)
                with packing.packing():
                    outputs = model(**packing.arguments(packed), shift_labels=packed.labels, fused_lm_head=True)
                found = [packing.unpack(outputs.log_probs, packed), packing.unpack(outputs.entropy, packed)]
        where = self._inputs["completion_mask"].bool()
        with_loss = targets != -100
        logps, entropies = (
            None if each is None else each.new_zeros(where.shape).masked_scatter(where, each[with_loss])
            for each in found
        )  # no entropies of a reference model
        return logps, entropies

    def _compare(self, logps: Any, entropies: Any) -> None:
        """Put the sampler's log-probabilities and what corrects for them into the loss's inputs, and add up what is seen."""
        inputs, correction = self._inputs, self.correction
        mask, recorded = inputs["completion_mask"], inputs["recorded"].unsqueeze(1).bool()
        sampled = torch.where(recorded & mask.bool(), inputs["recorded_logps"], logps)
        log_ratio = (logps - sampled) * mask
        inputs["sampling_per_token_logps"] = sampled
        inputs["old_per_token_logps"] = sampled if correction.mode == "clip" else logps
        given = inputs["advantages"]
        clipped = masked = torch.zeros_like(mask, dtype=torch.bool)
        if correction.weighs:
            weights, clipped = correction.weights(log_ratio, logps, mask, given)
            masked = weights == 0.0
            inputs["advantages"] = given.unsqueeze(1) * weights
        elif correction.mode == "clip":
            settings: Any = self.args
            clipped = mismatch.clipped(
                log_ratio, mask, given, self.loss_type, self.importance_sampling_level, self.epsilon_low, self.epsilon_high,
                settings.delta,
            )  # fmt: skip
        if self.off_policy_mask_threshold is not None:
            masked = (
                masked
                | ~self.get_off_policy_mask(
                    given.unsqueeze(1), logps, sampled, mask, self.off_policy_mask_threshold
                ).bool()
            )
        seen = {"entropy": entropies * mask, "clipped": clipped & mask.bool(), "masked": masked & mask.bool()}
        for name, value in {**seen, **mismatch.terms(log_ratio, mask)}.items():
            self._sums[name] = self._sums[name] + value.sum()
        self._largest = torch.maximum(self._largest, log_ratio.abs().max())

    def _observe(self, parts: Sequence[Sequence[Sequence[Row]]], tokens: int) -> None:
        stacked = torch.stack([self._sums[name] for name in mismatch.SUMS])
        sums = dict(zip(mismatch.SUMS, self.accelerator.reduce(stacked, reduction="sum").tolist(), strict=True))
        total = work([rows for part in parts for rows in part], self.layout)
        means = {name: value / max(1, tokens) for name, value in sums.items()}
        largest = float(self.accelerator.gather(self._largest).max())
        self.observed = {
            "entropy": means["entropy"],
            "sampler_kl": means["k3"],
            "effective_sample_size": mismatch.effective_sample_size(sums["ratio"], sums["squared"], tokens),
            "largest_ratio": math.exp(min(largest, mismatch.LARGEST)),
            "clipped_share": means["clipped"],
            "masked_share": means["masked"],
            "sequence_tokens": total.tokens,
            "padding_share": total.padding_share,
            "shared_share": total.shared_share,
            "micro_batches": sum(len(rows) > 0 for part in parts for rows in part),
        }

    def _check_finite(self, loss: Any) -> None:
        value, largest = float(loss), self.observed["largest_ratio"]
        if not math.isfinite(value):
            self.abort_step(self.taken, f"the loss is {value}")
        if self.correction.largest_ratio is not None and largest > self.correction.largest_ratio:
            self.abort_step(
                self.taken,
                f"the policy gives a token {largest:.3g} times (or one part in as many of) the probability that it was "
                f"sampled with, beyond {self.correction.largest_ratio:g}",
            )

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        if norm is not None and not math.isfinite(float(norm)):
            self.abort_step(self.taken, f"the gradient norm is {float(norm)}")
        return norm

    def _reference(self) -> Any:
        """Log-probabilities of the policy that the run began from, for the KL term; shape (R, C)."""
        with torch.no_grad():
            if self.ref_model is not None:
                return self._scores(self.ref_model)[0]
            adapted = self.accelerator.unwrap_model(self.model)
            with use_adapter(adapted, adapter_name="ref" if "ref" in adapted.peft_config else None):
                return self._scores(self.model, self._blocks)[0]
