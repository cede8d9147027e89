"""The folder through which prime-rl's trainer takes batches and gives weights.

    DIR/rollouts/step_N/rank_R.bin   a batch, N from 1: the micro-batches of data-parallel rank R, in MessagePack
    DIR/broadcasts/step_N/           the weights after step N; whole once there is a file STABLE, deleted two steps later

As commit 559b44772e471d1538537b8805cc77f3824a5e64 (v0.8.1.dev67, 2026-08-21) reads and writes it, with filesystem for
rollout_transport and weight_broadcast; 0.8.0 and older read another format. Covered: text, the policy-gradient loss. Not
covered: images, replay of experts' routing, log-probabilities of a reference, transports over a network.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base.errors import ToolError
from .checkpoints import sync
from .microbatches import Layout, cut
from .steps import OptimiserStep, Row

ROLLOUTS, BROADCASTS, STABLE = "rollouts", "broadcasts", "STABLE"
ENVIRONMENT = "mletools"  # prime-rl's metrics are by environment


class MicroBatch(msgspec.Struct, array_like=True):
    """Sequences one behind the other: an array of arrays, in this order. All but the lengths have a value per token.

    inference_logprobs, temperatures: of the sampler. sequence_lengths, seq_lens: tokens of each sequence, for the loss and
    for attention; the last one's hold the padding. What follows in prime-rl's record is optional.
    """

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    seq_lens: list[int]


def pack(
    step: OptimiserStep, temperature: float, tokens: int, ranks: int = 1, multiple: int = 1
) -> list[list[MicroBatch]]:
    """The micro-batches of each rank: as many for one as for another, of at most `tokens` tokens each.

    Each token with loss has its row's advantage. multiple: micro-batches are padded to one of this number. Where a rank has
    no rows left, it gets another's without loss. Every row has logprobs.
    """
    layout = Layout(max(1, len(step.rows)), tokens // multiple * multiple, pack=True)
    shares = cut(step.rows, layout, ranks)
    made = [[_micro_batch(rows, temperature, multiple) for rows in share if rows] for share in shares]
    for share in made[1:]:
        share += [_without_loss(other) for other in made[0][len(share) :]]
    return made


def _micro_batch(rows: Sequence[Row], temperature: float, multiple: int) -> MicroBatch:
    made = MicroBatch([], [], [], [], [], [], [], [], [])
    for row in rows:
        ids, logprobs = row.tokens.input_ids, row.tokens.logprobs
        assert logprobs is not None
        # the probability of a first token would be that behind the sequence before
        mask = [False, *(loss == 1 for loss in row.tokens.loss_mask[1:])]
        made.input_ids += ids
        made.loss_mask += mask
        made.advantages += [row.advantage if loss else 0.0 for loss in mask]
        made.inference_logprobs += logprobs
        made.position_ids += range(len(ids))
        made.seq_lens.append(len(ids))
    padding = -len(made.input_ids) % multiple
    made.input_ids += made.input_ids[-1:] * padding
    made.loss_mask += [False] * padding
    made.advantages += [0.0] * padding
    made.inference_logprobs += [0.0] * padding
    made.position_ids += range(made.seq_lens[-1], made.seq_lens[-1] + padding)
    made.seq_lens[-1] += padding
    made.sequence_lengths = list(made.seq_lens)
    made.temperatures = [temperature] * len(made.input_ids)
    made.env_names = [ENVIRONMENT] * len(made.input_ids)
    return made


def _without_loss(batch: MicroBatch) -> MicroBatch:
    nothing = len(batch.input_ids)
    return msgspec.structs.replace(batch, loss_mask=[False] * nothing, advantages=[0.0] * nothing)


class WeightsGone(Exception):
    """The trainer deleted or rewrote weights while they were copied."""


@dataclass(frozen=True)
class TrainerFolder:
    """prime-rl's output_dir. A batch is prepared under a name that the trainer does not see, and then handed over at once."""

    path: Path

    def handed_over(self) -> int:
        """The last step that there is a batch for, 0 without."""
        return max(_steps(self.path / ROLLOUTS), default=0)

    def published(self) -> int | None:
        """The last step whose weights are there and whole, None before the first; 0 are those that it began with."""
        folder = self.path / BROADCASTS
        return next((step for step in _steps(folder)[::-1] if (folder / f"step_{step}" / STABLE).exists()), None)

    def prepare(self, step: int, batch: Sequence[Sequence[MicroBatch]]) -> None:
        """Write a batch, micro-batches by rank, to the disk; `hand_over` shows it to the trainer."""
        folder = self._prepared(step)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for rank, micro_batches in enumerate(batch):
            with open(folder / f"rank_{rank}.bin", "wb") as file:
                file.write(msgspec.msgpack.encode(micro_batches))
                file.flush()
                os.fsync(file.fileno())
        sync(folder)

    def hand_over(self, step: int) -> None:
        """Let the trainer see a batch that is prepared. ToolError: it has one for this step."""
        final = self._batch(step)
        try:
            os.rename(self._prepared(step), final)
        except OSError as error:
            if not final.exists():
                raise
            raise ToolError(
                f"{final}: is there already, and not of this run: one run hands batches over here"
            ) from error
        sync(final.parent)

    def settle(self, step: int) -> None:
        """Stand where a run stood that had decided on `step` batches: hand the last over, remove one that was prepared later.

        ToolError: the folder holds batches or weights of another run, or lacks the run's.
        """
        if self._prepared(step).exists() and not self._batch(step).exists():
            self.hand_over(step)
        handed, trained = self.handed_over(), self.published() or 0
        if max(handed, trained) > step:
            raise ToolError(
                f"{self.path}: has step {max(handed, trained)}, and this run has handed over {step}: it is another run's: "
                "take an empty folder for both --engine-dir and the trainer's output_dir, or go on with --resume"
            )
        if handed < step and trained < step:
            raise ToolError(f"{self._batch(step)}: is not there: is this the run's --engine-dir?")
        for left in (self.path / ROLLOUTS).glob(".step_*.partial"):
            shutil.rmtree(left)

    def take_weights(self, step: int, folder: Path) -> None:
        """Put the weights after `step` into `folder`; large files become links. WeightsGone: try again, there are newer."""
        from safetensors import SafetensorError, safe_open

        source = self.path / BROADCASTS / f"step_{step}"
        try:
            before = _contents(source)
            for name in before.keys() - {STABLE}:
                _link(source / name, folder / name)
                if name.endswith(".safetensors"):
                    safe_open(folder / name, "np")  # compares its length with what its header says
            whole = STABLE in before and _contents(source) == before
        except (FileNotFoundError, SafetensorError) as error:
            raise WeightsGone from error
        if not whole:
            raise WeightsGone

    def _batch(self, step: int) -> Path:
        return self.path / ROLLOUTS / f"step_{step}"

    def _prepared(self, step: int) -> Path:
        return self.path / ROLLOUTS / f".step_{step}.partial"


def _steps(folder: Path) -> list[int]:
    """The numbers of folders named step_N, in order."""
    numbers = (path.name.removeprefix("step_") for path in folder.glob("step_*"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def _contents(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Each file's number, size and time of change."""
    stats = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _link(source: Path, target: Path) -> None:
    """Full weights come under their names by renaming, so a link keeps its content; all else is written in place."""
    if source.name.startswith("model") and source.suffix == ".safetensors":
        try:
            os.link(source, target)
            return
        except OSError:  # another file system
            target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
