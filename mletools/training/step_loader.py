"""Optimiser steps for one training process or several.

Covered: reading steps on the first process, broadcasting them, the end of the steps. Not covered: the trainer
(recorded_trainer, trl_trainer), the composition of a step (steps, pool).
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

from .steps import OptimiserStep


class EndOfSteps(Exception):
    """No more steps come: the training loop ends here."""


class Steps:
    """A data loader of optimiser steps: the first process reads them and broadcasts each to the others."""

    def __init__(self, steps: Iterator[OptimiserStep], world: int, rank: int) -> None:
        self.steps, self.world, self.rank = steps, world, rank
        self.group = long_timeout_group() if world > 1 else None

    def __iter__(self) -> Iterator[dict[str, OptimiserStep]]:
        while True:
            step = next(self.steps, None) if self.rank == 0 else None
            if self.world > 1:
                step = broadcast(step, self.group)
            if step is None:
                raise EndOfSteps
            yield {"step": step}


def processes() -> int:
    """Number of training processes (torchrun, accelerate launch)."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def leads() -> bool:
    """Whether this is the process that reads and writes, of several of a command (torchrun, accelerate launch)."""
    return os.environ.get("RANK", "0") == "0"


@functools.cache
def long_timeout_group() -> Any:
    """A process group with a timeout of 30 days: a stream may be silent for longer than the default timeout."""
    from datetime import timedelta

    import torch

    return torch.distributed.new_group(backend="gloo", timeout=timedelta(days=30))


def of_the_first(value: Any) -> Any:
    """The first process's value, in all of them; all come here."""
    if processes() == 1:
        return value
    from accelerate import PartialState

    PartialState()
    return broadcast(value, long_timeout_group())


def broadcast(value: Any, group: Any) -> Any:
    """Broadcast the value of the first process to all processes of the group."""
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0, group=group)
    return box[0]
