"""What every training run does alike: its folder, going on from a checkpoint, steps that come out as they are done.

A run is a fixed list of optimiser steps laid out before the first. TRL's trainer walks through the list in a thread of
its own; after each step a callback writes the checkpoint when one is due and hands the step's record to the caller.
Everything random is seeded per step, so a run that went on from a checkpoint repeats the undisturbed one.
Not covered: what a step trains on (grpo, sft); writing checkpoints of models sharded by FSDP or DeepSpeed.
"""

import contextlib
import functools
import json
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mletools.records.errors import ToolError
from mletools.records.ids import derive_seed
from mletools.training import checkpoints, policy
from mletools.training.samples import Sample, sample_of

TRAINER_STATE = "trainer"


class Run:
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
        self.history: list[dict[str, Any]] = []
        self.stopping = False
        self.taken = threading.Event()
        self.resumed_from = checkpoints.load_latest(self.out)
        if self.resumed_from is None:
            self.state = self._first_state()
        elif not resume:
            raise ToolError(f"{self.out}: holds a run already: go on with it (--resume), or choose another folder")
        else:
            self.state = checkpoints.read_state(self.resumed_from)
            self._check_unchanged()
            steps = (self.resumed_from / TRAINER_STATE / "steps.jsonl").read_text(encoding="utf-8")
            self.history = [json.loads(line) for line in steps.split("\n") if line]

    def _first_state(self) -> dict[str, Any]:
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
        now = {"algorithm": self.algorithm, "model": self.model, **asdict(self.options)}
        before = {"algorithm": self.state["algorithm"], "model": self.state["model"], **self.state["options"]}
        for name, value in now.items():
            if name not in self.free and name in before and before[name] != value:
                raise ToolError(
                    f"{self.out}: was begun with {name} {before.get(name)!r}, and now it is {value!r}: "
                    "give the old value, or train into another folder"
                )

    @property
    def step(self) -> int:
        return int(self.state["step"])

    @property
    def policy_version(self) -> int:
        return int(self.state["policy_version"])

    @functools.cached_property
    def tokenizer(self) -> Any:
        tokenizer = policy.load_tokenizer(self.model)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @functools.cached_property
    def vocabulary_size(self) -> int:
        return policy.vocabulary_size(self.model)

    def sample(self, record: dict[str, Any]) -> Sample:
        """The training sample of a rollout record; RecordError when the record cannot be one."""
        return sample_of(record, self.vocabulary_size)

    def write(self, folder: Path, model: Any, optimizer: Any) -> None:
        """Fill a checkpoint folder: weights, tokenizer, optimiser state, the records of the steps so far."""
        import torch

        policy.write_weights(model, policy.adapter_base(self.model) or self.model, folder)
        self.tokenizer.save_pretrained(folder)
        inside = folder / TRAINER_STATE
        inside.mkdir()
        torch.save(optimizer.state_dict(), inside / "optimizer.pt")
        lines = "".join(json.dumps(step, allow_nan=False) + "\n" for step in self.history)
        (inside / "steps.jsonl").write_text(lines, encoding="utf-8")

    def begin(self, model: Any, optimizer: Any) -> None:
        """Put the state of the checkpoint that the run goes on from into a model and an optimiser built afresh."""
        if self.resumed_from is not None:
            import torch

            policy.restore_weights(model, self.resumed_from)
            saved = torch.load(self.resumed_from / TRAINER_STATE / "optimizer.pt", map_location="cpu")
            optimizer.load_state_dict(saved)

    def common_arguments(self) -> dict[str, Any]:
        """Arguments that both trainers share: nothing printed, nothing reported, nothing saved by the trainer itself."""
        return {
            "output_dir": str(self.out),
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "num_train_epochs": 1,
            "learning_rate": self.options.learning_rate,
            "lr_scheduler_type": "constant",
            "weight_decay": 0.0,
            "max_grad_norm": self.options.max_grad_norm,
            "seed": self.options.seed % 2**32,
            **policy.device_settings(),
        }

    def drive(
        self,
        trainer: Any,
        describe: Callable[[int], dict[str, Any]],
        learning_rate: Callable[[int], float],
        finished: Callable[[int], bool],
    ) -> Iterator[dict[str, Any]]:
        """Run the trainer and yield one record per optimiser step, as it is done.

        describe(i), learning_rate(i) and finished(i) answer for the i-th step of the ones still to do, from 0: what it trained
        on, the rate it is done at, whether the session ends with it. Leaving the generator early ends the training
        after the step in hand, with a checkpoint.
        """
        from transformers import PrinterCallback

        done: queue.Queue[Any] = queue.Queue()
        session = _Session(self, trainer, describe, learning_rate, finished, done.put)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_callback(session))
        thread = threading.Thread(target=_train, args=(trainer, done.put), daemon=True)
        with checkpoints.lock(self.out) if session.writes else contextlib.nullcontext():
            if session.writes:
                checkpoints.clean(self.out)
            thread.start()
            try:
                while (item := done.get()) is not None:
                    if isinstance(item, BaseException):
                        raise item
                    if session.writes:
                        yield item
                    self.taken.set()
            finally:
                self.stopping = True
                self.taken.set()
                thread.join()


def _train(trainer: Any, put: Callable[[Any], None]) -> None:
    try:
        trainer.train()
        put(None)
    except BaseException as error:
        put(error)


@dataclass
class _Session:
    """What happens around the optimiser steps of one call of `drive`; of several processes only the first writes."""

    run: Run
    trainer: Any
    describe: Callable[[int], dict[str, Any]]
    learning_rate: Callable[[int], float]
    finished: Callable[[int], bool]
    put: Callable[[Any], None]
    index: int = 0
    rate: float = 0.0
    started: float = 0.0

    @property
    def writes(self) -> bool:
        return self.trainer.args.process_index == 0

    def before_step(self, index: int, optimizer: Any) -> None:
        import torch

        self.started = time.monotonic()
        self.index, self.rate = index, self.learning_rate(index)
        torch.manual_seed(derive_seed(self.run.options.seed, self.run.algorithm, self.run.step))
        for group in optimizer.param_groups:
            group["lr"] = self.rate

    def after_step(self, loss: float, grad_norm: float, optimizer: Any) -> bool:
        """Count the step, save it when due, hand its record out; True when it was the last of the session."""
        run = self.run
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise ToolError(
                f"step {run.step + 1}: the loss is {loss} and the gradient norm {grad_norm}: nothing was saved; "
                "go on from the last checkpoint with a lower learning rate"
            )
        duration = time.monotonic() - self.started
        run.state.update(
            step=run.step + 1,
            policy_version=run.policy_version + 1,
            seconds=run.state["seconds"] + duration,
            options=asdict(run.options),
        )
        last = run.stopping or self.finished(self.index)
        due = self.writes and (last or run.step % run.options.save_steps == 0)
        record = {
            "algorithm": run.algorithm,
            "step": run.step,
            "loss": loss,
            "grad_norm": grad_norm,
            "learning_rate": self.rate,
            "duration_s": duration,
            "policy_version": run.policy_version,
            "checkpoint": str(run.out / checkpoints.checkpoint_name(run.step)) if due else None,
            **self.describe(self.index),
        }
        run.history.append(record)
        run.taken.clear()
        if run.stopping:
            run.taken.set()
        self.put(record)
        if due:
            # the caller has written the record before the checkpoint is there: a kill in between repeats the step and its
            # record, and never loses them
            run.taken.wait()
            save = functools.partial(run.write, model=self.trainer.model, optimizer=optimizer)
            checkpoints.save(run.out, run.step, save, run.state, run.options.keep)
        return last


def _callback(session: _Session) -> Any:
    from transformers import TrainerCallback

    class StepCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            session.run.begin(session.trainer.model, kwargs["optimizer"])

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            session.before_step(state.global_step, kwargs["optimizer"])

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs and "grad_norm" in logs:
                last = session.after_step(float(logs["loss"]), float(logs["grad_norm"]), kwargs["optimizer"])
                control.should_training_stop = control.should_training_stop or last

    return StepCallback()
