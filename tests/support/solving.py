"""What the tests of every sandbox share: a task with answers to steal, a run, and a look at processes from outside."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

from mletools.sandbox import Limits, Outcome, Sandbox

SECRET = "the-answer-is-" + format(random.SystemRandom().getrandbits(64), "x")


def make_public(folder: Path) -> Path:
    """The public folder of a small task below `folder`, with SECRET in the answers beside it."""
    public = folder / "task" / "public"
    public.mkdir(parents=True)
    (public / "train.csv").write_text("x,y\n" + "".join(f"{row % 7},{row % 7 // 4}\n" for row in range(70)))
    (public / "test.csv").write_text("x\n1\n2\n5\n6\n")
    private = folder / "task" / "private"
    private.mkdir()
    (private / "answers.csv").write_text(SECRET)
    return public


def run(sandbox: Sandbox, public: Path, code: str, seed: int = 0, **limits: Any) -> Outcome:
    return sandbox.run(textwrap.dedent(code), public, Limits(**{"wall_s": 20.0, **limits}), seed)


def printed(outcome: Outcome) -> str:
    assert outcome.status == "ok", outcome
    return outcome.stdout.decode()


def processes_with(token: str) -> list[int]:
    """Processes that run `sleep token`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:2] == [b"sleep", token.encode()]:
            found.append(int(entry.name))
    return found
