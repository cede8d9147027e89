"""One walk of TRL's trainer through its steps: before and after each, its record, checkpoint, validation, publishing.

The trainer runs in a thread of its own, so that records come out of a generator as the steps are done. Of several processes the first
writes; those of a sharded model help it. Not covered: what a run is (runs), what a step trains on.
"""

import contextlib
import gc
import json
import math
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..base.errors import ToolError
from ..base.ids import derive_seed
from ..records.training import StepResult
from . import checkpoints, policy, shards
from .checkpoints import SHARDS, TRAINER_STATE
from .runs import OTHER_OUTPUT, TrainingRun
from .step_loader import EndOfSteps, broadcast, long_timeout_group
from .throughput import throughput
from .validation import validation_reward

Facts = dict[str, float | None]  # of a step, by the fields of its record


@dataclass
class Session:
    """Callbacks around the optimiser steps of one `drive` call; only the first process writes."""

    run: TrainingRun
    trainer: Any
    describe: Callable[[int], Facts]
    learning_rate: Callable[[int], float]
    finished: Callable[[int], bool]
    put: Callable[[Any], None]
    index: int = 0
    rate: float = 0.0
    started: float = 0.0
    saved: int = -1
    _patient: Any = None  # a process group

    def __post_init__(self) -> None:
        self.saved = self.run.step

    @property
    def writes(self) -> bool:
        return bool(self.trainer.args.process_index == 0)

    def before_step(self, index: int, optimizer: Any) -> None:
        import torch

        self.started = time.monotonic()
        self.index, self.rate = index, self.learning_rate(index)
        torch.manual_seed(derive_seed(self.run.options.seed, self.run.algorithm, self.run.step))
        for group in optimizer.param_groups:
            group["lr"] = self.rate

    def after_step(self, loss: float, grad_norm: float) -> bool:
        """Count the step, save it when due, hand its record out; True when it was the last of the session."""
        run = self.run
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise ToolError(
                f"step {run.step + 1}: the loss is {loss} and the gradient norm {grad_norm}: nothing was saved; "
                f"go on from the last checkpoint with a lower learning rate; {OTHER_OUTPUT}"
            )
        duration = time.monotonic() - self.started
        run.count_step(duration)
        # several processes stop together, when the first has no more steps for them
        last = self.finished(self.index) or (run.stopping and self.trainer.args.world_size == 1)
        due = last or run.step % run.options.save_steps == 0
        facts = self.describe(self.index)
        facts |= throughput(self.trainer, facts["sequence_tokens"] or 0, duration)
        if due and run.options.validate:
            facts["validation_reward"] = self._validate(run.options.validate)
        fields = {
            "algorithm": run.algorithm,
            "step": run.step,
            "loss": loss,
            "grad_norm": grad_norm,
            "learning_rate": self.rate,
            "duration_s": duration,
            "policy_version": run.policy_version,
            "checkpoint": str(run.out / checkpoints.checkpoint_name(run.step)) if due else None,
            **facts,
        }
        record = cast(StepResult, fields)
        if run.options.logger != "none":
            numbers = {name: value for name, value in record.items() if isinstance(value, (int, float))}
            self.trainer.log(
                {name: float(value) for name, value in numbers.items() if name not in ("loss", "grad_norm")}
            )
        run.history.append(record)
        run.taken.clear()
        if run.stopping:
            run.taken.set()
        self.put(record)
        if due:
            # the caller has written the record before the checkpoint is there: a kill in between repeats the step and its
            # record, and never loses them
            if self.writes:
                run.taken.wait()
            self.save()
        run.publish(self.trainer, last)
        return last

    def _validate(self, command: str) -> float | None:
        """The policy's reward by the user's command, and whether it is the best so far; None on the other processes."""
        run, folder = self.run, self.run.out / "validating"
        if self.writes:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        run.write_policy(folder, self.trainer)
        self._give_memory_back()
        reward = None
        if self.writes:
            (folder / checkpoints.STATE).write_text(json.dumps({"policy_version": run.policy_version}))
            reward = validation_reward(command, folder.resolve())
            shutil.rmtree(folder)
        if self.trainer.args.world_size > 1:  # the command may take longer than collective operations wait
            self._patient = self._patient or long_timeout_group()
            broadcast(None, self._patient)
        if reward is None:
            return None
        best = run.state.get("best")
        if best is None or reward > best["reward"]:
            run.state["best"] = {"step": run.step, "reward": reward}
        return reward

    def _give_memory_back(self) -> None:
        """Free what the allocator of each process holds of its GPU and does not use: the command may need the same one."""
        if self.trainer.args.device.type == "cuda":
            import torch

            gc.collect()
            torch.cuda.empty_cache()
            self.trainer.accelerator.wait_for_everyone()

    def save(self) -> None:
        """A checkpoint; of several processes the first writes it, and those of a sharded model their parts."""
        run = self.run
        if self.writes:
            best = run.state.get("best")
            checkpoints.save(run.out, run.step, self._write, run.state, run.options.keep, best=best and best["step"])
            run.saved()
        elif shards.sharded(self.trainer):
            partial = run.out / (checkpoints.checkpoint_name(run.step) + checkpoints.PARTIAL)
            run.write_policy(partial, self.trainer, resumable=True)
            shards.save(self.trainer, partial / TRAINER_STATE / SHARDS)
        self.saved = run.step

    def _write(self, folder: Path) -> None:
        self.run.write(folder, self.trainer)

    def end(self) -> None:
        """Write the final checkpoint where the steps ended earlier than planned, validate it, and say the reward: the step's
        record has been written. Publish the final policy."""
        if self.run.step > self.saved:
            if self.run.options.validate:
                reward = self._validate(self.run.options.validate)
                if reward is not None:
                    self.run.say(f"step {self.run.step}: validation reward {reward:.4g}")
            self.save()
        self.run.publish(self.trainer, True)


def callback(session: Session) -> Any:
    from transformers import TrainerCallback

    class StepCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            session.run.begin(session.trainer, kwargs["optimizer"])
            session.run.publish(session.trainer, False)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            session.before_step(state.global_step, kwargs["optimizer"])

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs and "grad_norm" in logs:
                last = session.after_step(float(logs["loss"]), float(logs["grad_norm"]))
                control.should_training_stop = control.should_training_stop or last

    return StepCallback()


def walk(session: Session, put: Callable[[Any], None]) -> None:
    """Take all steps; call it in the thread that trains. What was raised goes to `put`, at the end None."""
    from . import products

    try:
        device = session.trainer.args.device
        _use_device(device)
        with contextlib.suppress(EndOfSteps), products.on(device):
            session.trainer.train()
        session.end()
        put(None)
    except BaseException as error:
        put(error)


def _use_device(device: Any) -> None:
    """Make `device` the current one of this thread: a new thread begins with the first GPU, whatever the process's is."""
    import torch

    if device.type == "cuda":
        torch.cuda.set_device(device)


def drive(
    run: TrainingRun,
    trainer: Any,
    describe: Callable[[int], Facts],
    learning_rate: Callable[[int], float],
    finished: Callable[[int], bool],
) -> Iterator[StepResult]:
    """Run the trainer and yield one record per optimiser step, as it is done.

    describe(i), learning_rate(i) and finished(i) answer for the i-th step of the ones still to do, from 0: what it trained
    on, the rate it is done at, whether the session ends with it. Leaving the generator early ends the training
    after the step in hand, with a checkpoint.
    """
    from transformers import PrinterCallback

    if text := policy.unused_gpus(f"mle-train-{'sft' if run.algorithm == 'sft' else 'grpo'}"):
        run.say(text)

    done: queue.Queue[StepResult | BaseException | None] = queue.Queue()
    session = Session(run, trainer, describe, learning_rate, finished, done.put)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(callback(session))
    thread = threading.Thread(target=walk, args=(session, done.put), daemon=True)
    with checkpoints.lock(run.out) if session.writes else contextlib.nullcontext():
        if session.writes:
            run.check_alone()
            checkpoints.clean(run.out)
        thread.start()
        try:
            while (item := done.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                if session.writes:
                    yield item
                run.taken.set()
        finally:
            run.stopping = True
            run.taken.set()
            thread.join()
