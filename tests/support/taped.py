"""An episode's environment with the tape of real ones and the models and programs of a test's own."""

from types import SimpleNamespace
from typing import Any

from mletools.base.tape import Tape
from mletools.rollout.environment import TaskEnvironment


class Taped(TaskEnvironment):
    """`fake` answers `ask`, `run`, `cell` and `similar`, which are kept on the tape; all else is its own."""

    def __init__(self, fake: Any, tape: Tape):
        self.fake, self._tape, self.sent, self._answered = fake, tape, {}, set()
        self._resources: Any = SimpleNamespace(models=self)
        self._task: Any = None
        for name in ("fact", "look", "submission", "ensemble", "at_once", "graph", "progress"):
            setattr(self, name, getattr(fake, name, None))

    def __getitem__(self, who: str) -> Any:
        return SimpleNamespace(ask=lambda *asked: self.fake.ask(who, *asked[:-1]), count_tokens=lambda messages: None)

    def _run(self, code: str, wall_s: float, seed: int, judged: bool, arguments: Any, rows: str) -> dict[str, Any]:
        return self.fake.run(code, wall_s, seed, judged, arguments=arguments, rows=rows)

    def _cell(
        self, kind: str, text: str, wall_s: float, before: Any, seed: int, known: str | None, outputs: Any
    ) -> dict[str, Any]:
        return self.fake.cell(kind, text, wall_s, before=before, seed=seed, known=known)

    def _similar(self, texts: Any) -> list[float]:
        return self.fake.similar(texts)
