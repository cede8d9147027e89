"""An environment whose answers are kept on a job's tape, so that a killed episode is played again for nothing.

Covered: which arguments an answer is known by. Not covered: where answers come from (environment), the file (records.tape).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..records.tape import Tape
from .environment import TaskEnvironment

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TapedEnvironment:
    """The Environment of scaffolds.interface, for one job or a part of it."""

    environment: TaskEnvironment
    tape: Tape
    sent: dict[str, Any] = field(default_factory=dict)  # what the policy's server was really sent; see Reply.sampling

    def ask(
        self,
        who: str,
        role: str,
        messages: list[dict[str, Any]],
        seed: int,
        tools: list[dict[str, Any]] | None,
        most: int,
    ) -> dict[str, Any]:
        """See Environment.ask."""
        about = [who, role, messages, seed, tools, most]
        reply = self.tape.play("ask", about, lambda: self.environment.ask(who, role, messages, seed, tools, most))
        if who == "policy":
            self.sent.update(reply.get("sampling") or {})
        return reply

    def run(
        self,
        code: str,
        wall_s: float,
        seed: int,
        judged: bool = True,
        *,
        arguments: Sequence[str] = (),
        rows: str = "validation",
    ) -> dict[str, Any]:
        """See Environment.run. `wall_s` depends on measured times, so the answer is not known by it."""
        return self.tape.play(
            "run",
            [code, seed, judged, list(arguments), rows],
            lambda: self.environment.run(code, wall_s, seed, judged, arguments=arguments, rows=rows),
        )

    def cell(
        self, kind: str, text: str, wall_s: float, *, before: Sequence[tuple[str, str]], seed: int, known: str | None
    ) -> dict[str, Any]:
        """See Environment.cell."""
        return self.tape.play(
            "cell",
            [kind, text, list(before), seed],
            lambda: self.environment.cell(kind, text, wall_s, before=before, seed=seed, known=known),
        )

    def similar(self, texts: Sequence[str]) -> list[float]:
        """See Environment.similar."""
        cosines: list[float] = self.tape.play(
            "similar", list(texts), lambda: {"cosines": self.environment.similar(texts)}
        )["cosines"]
        return cosines

    def remember(self, what: str, about: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """See Environment.remember."""
        return self.tape.play(what, about, make)

    def part(self, name: str) -> "TapedEnvironment":
        """See Environment.part."""
        return TapedEnvironment(self.environment, self.tape.part(name), self.sent)

    def done(self) -> None:
        """See Environment.done."""
        self.tape.done()

    def fact(self, name: str) -> str:
        """See Environment.fact."""
        return self.environment.fact(name)

    def look(self, name: str | None) -> str:
        """See Environment.look."""
        return self.environment.look(name)

    def inauthentic(self, code: str, execution: Mapping[str, Any]) -> str | None:
        """See Environment.inauthentic."""
        return self.environment.inauthentic(code, execution)

    def at_once(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """See Environment.at_once."""
        return self.environment.at_once(work, items)

    def graph(self) -> tuple[Path, bool]:
        """See Environment.graph."""
        return self.environment.graph()

    def progress(self, nodes: int) -> None:
        """See Environment.progress."""
        self.environment.progress(nodes)

    def close(self) -> None:
        """See Environment.close."""
        self.environment.close()
