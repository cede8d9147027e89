"""The reward of a policy on rollouts that it is not trained on, by a command line of the user's.

Covered: any pipe that samples from the folder in MLE_POLICY and writes graded rollouts. Not covered: which tasks or states it is
given; an early end of the training.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from ..base.errors import ToolError
from .advantages import mean

VARIABLE = "MLE_POLICY"
# What torchrun and accelerate tell a process of its run: a trainer or vLLM among the command's would wait for the others.
_LAUNCHER = re.compile(r"(TORCHELASTIC|MASTER|GROUP|ROLE|LOCAL|ACCELERATE|FSDP|DEEPSPEED)_|(RANK|WORLD_SIZE)$")


def validation_reward(command: str, folder: Path) -> float:
    """The mean reward of the rollouts that `command`, run by bash with MLE_POLICY=folder, writes to its standard output.

    Rollouts without a reward do not count. ToolError: it fails (any part of its pipe), or no reward comes.
    """
    environment = {name: value for name, value in os.environ.items() if not _LAUNCHER.match(name)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**environment, VARIABLE: str(folder)},
        check=False,
    )
    if done.returncode:
        raise ToolError(f"--validate: the command ended with exit code {done.returncode}: {command}")
    rewards = []
    for number, line in enumerate(done.stdout.decode("utf-8", "replace").split("\n"), 1):
        if not line:
            continue
        try:
            rewards.append(json.loads(line)["reward"])
        except (ValueError, TypeError, KeyError) as error:
            raise ToolError(
                f"--validate: line {number} of the command's output is no graded rollout: {line[:200]}"
            ) from error
    known = [float(reward) for reward in rewards if reward is not None]
    if not rewards:
        raise ToolError(f"--validate: the command wrote no graded rollouts: {command}")
    if not known:
        raise ToolError(f"--validate: none of {len(rewards)} graded rollouts has a reward: {command}")
    return mean(known)
