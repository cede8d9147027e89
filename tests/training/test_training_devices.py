"""What the trainers do about GPUs, seen on a machine that has none."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mletools.training import session


def test_the_thread_that_trains_uses_the_gpu_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[Any, int]] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.append((device, threading.get_ident())))
    trained: list[int] = []

    def train() -> None:
        assert chosen, "the first tensor may go to another process's GPU"
        trained.append(threading.get_ident())

    for device in ("cuda:1", "cpu"):
        trainer = SimpleNamespace(args=SimpleNamespace(device=torch.device(device)), train=train)
        given = SimpleNamespace(trainer=trainer, end=lambda: None)
        done: list[Any] = []
        thread = threading.Thread(target=session.walk, args=(given, done.append))
        thread.start()
        thread.join()
        assert done == [None]
    assert chosen == [(torch.device("cuda:1"), trained[0])]
    assert trained[0] != threading.get_ident()
