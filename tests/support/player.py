"""Episodes played in a process that keeps its engine, and says what that was sent and what it gave: `python player.py hf|vllm`.

A line of its input is the arguments of an mle-rollout whose model is hf:FOLDER or vllm:FOLDER; the line that answers it is a
list of [prompt ids, sampled ids, logprobs] as the engine's own library got and gave them. vLLM's engine is started once:
further folders must have the same weights, and differ in the tokenizer's chat template alone.
Used by the tests (Player), also in a Python that has vLLM and none of what tests need.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from mletools.models.hf import RowSampler

Given = tuple[list[int], list[int], list[float]]
ROOT = Path(__file__).resolve().parents[2]


class Player:
    """The process, for as long as the context lasts; `python` has what the engine needs."""

    def __init__(self, engine: str, python: str, environment: dict[str, str]) -> None:
        self._command, self._environment = [python, __file__, engine], {**environment, "PYTHONPATH": str(ROOT)}

    def __enter__(self) -> "Player":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(self._command, text=True, env=self._environment, **pipes)
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._process.stdin.close()
        code = self._process.wait(60)
        assert code == 0 or error[0], f"the process ended with {code}: see its stderr"

    def play(self, cwd: Path, *arguments: str) -> list[Given]:
        """Run mle-rollout with the arguments in the folder `cwd`; what the engine was sent and gave, in order."""
        self._process.stdin.write(json.dumps([str(cwd), *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process has ended: see its stderr"
        return [tuple(each) for each in json.loads(line)]


given: list[Given] = []
_kept: list[Any] = []


class Heard(RowSampler):
    """hf:'s sampler; `now` has what each row of the last batch was sent and gave."""

    now: ClassVar[list[Given]] = []

    def pick(self, input_ids: Any, scores: Any) -> tuple[Any, Any]:
        tokens, logprobs = super().pick(input_ids, scores)
        if self.picked == 1:
            begins = self.padding[:, 0].tolist()
            self.rows = [(ids[begin:].tolist(), [], []) for ids, begin in zip(input_ids, begins, strict=True)]
            Heard.now = list(self.rows)
        for row, token, logprob in zip(self.rows, tokens[:, 0].tolist(), logprobs.tolist(), strict=True):
            row[1].append(token)
            row[2].append(logprob)
        return tokens, logprobs

    def keep(self, rows: Any) -> None:
        super().keep(rows)
        self.rows = [self.rows[row] for row in rows.tolist()]


def hf(path: str, **options: Any) -> Any:
    from mletools.models import hf as engines

    engines.RowSampler = Heard  # type: ignore[misc]
    engine = engines.HfModel(path, threads=1, **options)
    reply = engine._reply

    def replied(*arguments: Any) -> Any:
        made = reply(*arguments)
        count = len(made.token_ids)
        sent, written, logprobs = Heard.now.pop(0)
        given.append((sent, written[:count], logprobs[:count]))
        return made

    engine._reply = replied  # type: ignore[method-assign]
    return engine


def vllm(path: str, **options: Any) -> Any:
    from mletools.models import vllm_engine

    if not _kept:
        _kept.append(vllm_engine.VllmModel(path, **options))
        generate = _kept[0]._engine.generate

        async def generated(*arguments: Any, **more: Any) -> Any:
            async for output in generate(*arguments, **more):
                (answer,) = output.outputs
                ids = list(answer.token_ids)
                scores = [step[token].logprob for token, step in zip(ids, answer.logprobs, strict=True)]
                given.append((list(output.prompt_token_ids), ids, scores))
                yield output

        _kept[0]._engine.generate, _kept[0].end, _kept[0].close = generated, _kept[0].close, lambda: None
    from transformers import AutoTokenizer

    _kept[0]._tokenizer, _kept[0].name = AutoTokenizer.from_pretrained(path), path
    return _kept[0]


def main(engine: str) -> None:
    from mletools import models
    from mletools.commands.rollout import main as rollout

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    models.ENGINES[engine] = f"__main__:{engine}"
    for line in sys.stdin:
        folder, *arguments = json.loads(line)
        os.chdir(folder)
        given.clear()
        rollout(arguments, standalone_mode=False)  # a failure ends this process
        answers.write(json.dumps(given) + "\n")
        answers.flush()
    for each in _kept:
        each.end()


if __name__ == "__main__":
    main(sys.argv[1])
