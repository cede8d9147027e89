"""The part common to all training runs: the folder, resuming from a checkpoint, yielding step records.

TRL's trainer walks through the optimiser steps in a thread of its own; after each step a callback writes the checkpoint
when one is due and hands the step's record to the caller. Everything random is seeded per step, so a run that went on from
a checkpoint repeats the undisturbed one. Not covered: what a step trains on (grpo, sft).
"""

import functools
import json
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from ..base.errors import RecordError, ToolError
from ..base.ids import content_id
from ..base.jsonl import Line
from ..base.options import flag_of
from ..records.rollout import Rollout
from ..records.training import StepResult, TrainStep
from . import checkpoints, policy, shards, stream
from .account import account, left_out
from .checkpoints import SHARDS, TRAINER_STATE
from .logits import set_tiles
from .samples import Sample, sample_of
from .step_loader import leads

OTHER_OUTPUT = "with other options, -o needs a new file"


class Best(TypedDict):
    """The step with the best validation reward so far."""

    step: int
    reward: float


class RunState(TypedDict):
    """Where a run stands: state.json of its checkpoints."""

    algorithm: str
    model: str
    options: dict[str, object]
    step: int
    policy_version: int
    seconds: float
    best: NotRequired[Best]
    input: NotRequired[str]  # sft: the digest of the samples


class TrainingRun:
    """One training run in the folder `out`, begun from `model` or gone on with.

    `dropped` counts, by reason, the records that were given and not trained on. `history` holds the records of all
    steps up to the checkpoint that the run went on from. `free` names the options that may change between sessions.
    """

    algorithm = ""
    free: frozenset[str] = frozenset()

    def __init__(self, model: str, out: Path, options: Any, resume: bool) -> None:
        self.model = policy.resolve_model(model)
        self.out = Path(out)
        self.options = options
        self.dropped: Counter[str] = Counter()
        self.history: list[StepResult] = []
        self.stopping = False
        self.first: StepResult | None = None  # of this command, not of those that it goes on from
        self.last: StepResult | None = None
        self.say: Callable[[str], None] = lambda text: None
        self.taken = threading.Event()
        self.resumed_from = checkpoints.load_latest(self.out)
        if not resume and (self.resumed_from is not None or stream.has_spooled(self.out)):
            raise checkpoints.in_use(self.out)
        if self.resumed_from is None:
            self.state: RunState = self._first_state()
        else:
            self.state = cast(RunState, checkpoints.read_state(self.resumed_from))
            if "algorithm" not in self.state:
                raise ToolError(f"{self.out}: holds published policies and no run: choose another folder")
            self._check_unchanged()
            self.history = checkpoints.read_lines(self.resumed_from / TRAINER_STATE / "steps.jsonl")

    def _first_state(self) -> RunState:
        return {
            "algorithm": self.algorithm,
            "model": self.model,
            "options": asdict(self.options),
            "step": 0,
            "policy_version": checkpoints.policy_version(self.model),
            "seconds": 0.0,
        }

    def _check_unchanged(self) -> None:
        """ToolError that names the first option which defines the run and is not what it was."""
        now: dict[str, object] = {"algorithm": self.algorithm, "model": self.model, **asdict(self.options)}
        before: dict[str, object] = {
            "algorithm": self.state["algorithm"],
            "model": self.state["model"],
            **self.state["options"],
        }
        for name, value in now.items():
            if name not in self.free and name in before and before[name] != value:
                raise ToolError(
                    f"{self.out}: was begun with {name if name == 'algorithm' else flag_of(name)} {before.get(name)!r}, "
                    f"and now it is {value!r}: "
                    "give the old value, or train into another folder"
                )

    @property
    def step(self) -> int:
        return self.state["step"]

    def check_alone(self) -> None:
        """ToolError where another process has gone on with the run since this one read its state. Call it under the lock."""
        latest = checkpoints.load_latest(self.out)
        if latest is not None and (step := checkpoints.read_state(latest)["step"]) != self.step:
            raise ToolError(
                f"{self.out}: another process has gone on from step {self.step} to {step} meanwhile: go on from there (--resume)"
            )

    def count_step(self, seconds: float) -> None:
        """One more optimiser step was taken, in so many seconds."""
        self.state["step"] += 1
        self.state["policy_version"] += 1
        self.state["seconds"] += seconds
        self.state["options"] = asdict(self.options)

    @property
    def nothing_left(self) -> bool:
        """True if a session has no steps left because earlier sessions took them all."""
        return self.step > 0

    @property
    def policy_version(self) -> int:
        return self.state["policy_version"]

    @functools.cached_property
    def tokenizer(self) -> Any:
        tokenizer = policy.load_tokenizer(self.model)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @functools.cached_property
    def vocabulary_size(self) -> int:
        return policy.vocabulary_size(self.model)

    def sample(self, record: Rollout) -> Sample:
        """The training sample of a rollout record; RecordError when the record cannot be one."""
        return sample_of(record, self.vocabulary_size)

    def samples(self, lines: Iterable[Line[Rollout]], reject: Callable[[Line[Rollout], str], None]) -> Iterator[Sample]:
        """The training samples of the lines; a record that cannot be one is given to `reject` with the reason."""
        for line in lines:
            try:
                yield self.sample(line.record)
            except RecordError as error:
                reject(line, str(error))

    def record_steps(
        self,
        steps: Iterable[StepResult],
        emit: Callable[[TrainStep], object],
        say: Callable[[str], None],
        export_merged: bool = False,
        allow_empty: bool = False,
    ) -> Counter[str]:
        """Give `emit` a train_step record of every step as it is done; the counts of what was not trained on.

        export_merged: at the end write the policy into out/merged. ToolError where no step could be taken and
        `allow_empty` does not say that this may be.
        """
        self.say = say
        for step in steps:
            self.first = self.first or step
            self.last = step
            identity = content_id("train_step", step["algorithm"], str(self.out), step["step"])
            emit({"kind": "train_step", "version": 1, "id": identity, "lineage": [], **step})
        if export_merged and leads() and (latest := checkpoints.load_latest(self.out)) is not None:
            say(f"the policy as one model: {policy.export_merged(latest, self.out / 'merged')}")
        counted = {reason.replace("_", " "): count for reason, count in self.dropped.items() if count}
        if not (self.first or self.nothing_left or allow_empty) and leads():
            counts = ", ".join(f"{count} {reason}" for reason, count in counted.items()) or "no rollout came"
            ungraded = "; mle-grade gives rollouts a reward" if "no reward" in counted else ""
            raise ToolError(
                f"nothing to train on, no step was taken: {counts}{ungraded}; where that may be, --allow-empty takes it"
            )
        return Counter({f"not trained on ({reason})": count for reason, count in counted.items()})

    def account_lines(self) -> Iterator[str]:
        """Human-readable lines about the session, after `record_steps`."""
        if self.first is not None and self.last is not None:
            latest = self.out / checkpoints.LATEST
            steps = self.last["step"] - self.first["step"] + 1
            yield account(self.first, self.last, steps, latest if latest.exists() else None)
        if text := left_out(self.dropped):
            yield text

    def write(self, folder: Path, trainer: Any) -> None:
        """Fill a checkpoint folder: weights, tokenizer, optimiser state, the records of the steps so far."""
        import torch

        self.write_policy(folder, trainer, resumable=True)
        inside = folder / TRAINER_STATE
        inside.mkdir()
        if shards.sharded(trainer):
            shards.save(trainer, inside / SHARDS)
        else:
            torch.save(trainer.optimizer.state_dict(), inside / "optimizer.pt")
        self.write_history(inside)

    def write_history(self, folder: Path) -> None:
        """Write the part of a checkpoint that is not about weights: the records of the steps so far."""
        lines = "".join(json.dumps(step, allow_nan=False) + "\n" for step in self.history)
        (folder / "steps.jsonl").write_text(lines, encoding="utf-8")

    def begin(self, trainer: Any, optimizer: Any) -> None:
        """Put the state of the checkpoint that the run goes on from into a model and an optimiser built afresh."""
        model = trainer.model
        if self.resumed_from is not None and shards.sharded(trainer):
            shards.load(trainer, self.resumed_from / TRAINER_STATE / SHARDS)
        elif self.resumed_from is not None:
            import torch

            policy.restore_weights(model, self.resumed_from)
            file = self.resumed_from / TRAINER_STATE / "optimizer.pt"
            try:
                saved = torch.load(file, map_location="cpu")
            except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
                raise checkpoints.broken(file, error) from error
            optimizer.load_state_dict(saved)

    def saved(self) -> None:
        """A checkpoint of the present step is there."""

    def publish(self, trainer: Any, last: bool) -> None:
        """The policy stands where it stood before the first step, or after one; `last` of the session."""

    def write_policy(self, folder: Path, trainer: Any, resumable: bool = False) -> None:
        """Weights and tokenizer alone. Of a sharded model every process has to come here.

        resumable: all weights as they are; else in bfloat16 where the model computes in it, half as large.
        """
        import torch

        base = policy.adapter_base(self.model) or self.model
        weights = shards.gather(trainer) if shards.sharded(trainer) else None
        if trainer.args.process_index == 0:
            dtype = torch.bfloat16 if trainer.accelerator.mixed_precision == "bf16" and not resumable else None
            policy.write_weights(trainer.accelerator.unwrap_model(trainer.model), base, folder, weights, dtype)
            self.tokenizer.save_pretrained(folder)

    def abort_step(self, step: Any, why: str) -> None:
        """Write the rollouts of a step with a bad loss, gradient or ratio to a file, and raise ToolError."""
        path = self.out / f"spoilt-step-{self.step + 1:06d}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            for row in step.rows:
                sequence = asdict(row.tokens)
                file.write(json.dumps({"id": row.sample.id, "advantage": row.advantage, **sequence}) + "\n")
        raise ToolError(
            f"step {self.step + 1}: {why}: the step was not taken; its rollouts are in {path}. Look at them, and go on from "
            f"the last checkpoint without them{self.without} or with a lower learning rate; {OTHER_OUTPUT}"
        )

    @property
    def without(self) -> str:
        """How a run goes on without some of its rollouts, where it has kept them itself; begins with a blank."""
        return ""

    def common_arguments(self) -> dict[str, Any]:
        """Arguments that both trainers share: nothing printed and nothing saved by the trainer itself."""
        _require_logger(self.options.logger)
        set_tiles(self.options.logits_memory)
        if self.options.logger == "tensorboard":
            os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(self.out / "logs"))
        elif self.options.logger == "wandb":
            os.environ.setdefault("WANDB_PROJECT", "mletools")
        elif self.options.logger == "mlflow":
            os.environ.setdefault("MLFLOW_EXPERIMENT_NAME", "mletools")
            if "MLFLOW_TRACKING_URI" not in os.environ:
                (self.out / "logs").mkdir(parents=True, exist_ok=True)
                os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{(self.out / 'logs' / 'mlflow.db').resolve()}"
        return {
            "output_dir": str(self.out),
            "save_strategy": "no",
            "report_to": self.options.logger,
            "run_name": self.out.resolve().name,
            "project": "mletools",
            "disable_tqdm": True,
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "ddp_find_unused_parameters": False,
            "num_train_epochs": 1,
            "learning_rate": self.options.learning_rate,
            "lr_scheduler_type": "constant",
            "weight_decay": 0.0,
            "max_grad_norm": self.options.max_grad_norm,
            "seed": self.options.seed % 2**32,
            **policy.device_settings(self.options.dtype),
        }


def _require_logger(name: str) -> None:
    """ToolError: the library of --logger is not installed."""
    libraries = (name, "tensorboardX") if name == "tensorboard" else (name,)
    if name != "none" and not any(map(find_spec, libraries)):
        raise ToolError(f"--logger {name}: the library is not installed: pip install {name}")
