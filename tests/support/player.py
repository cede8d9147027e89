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
from typing import Any

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


def hf(path: str, **options: Any) -> Any:
    from mletools.models.hf import HfModel

    engine = HfModel(path, threads=1, **options)
    generate, reply = engine._model.generate, engine._reply

    def generated(ids: Any, attention_mask: Any, **more: Any) -> Any:
        output = generate(ids, attention_mask=attention_mask, **more)
        prompts = [row[mask.bool()].tolist() for row, mask in zip(ids, attention_mask, strict=True)]
        written = output[:, ids.size(1) :].tolist()
        engine.now = list(zip(prompts, written, strict=True))
        return output

    def replied(request: Any, prompt: list[int], row: list[int], logprobs: list[float]) -> Any:
        made = reply(request, prompt, row, logprobs)
        sent, written = engine.now.pop(0)
        count = len(made.token_ids)
        given.append((sent, written[:count], logprobs[:count]))
        return made

    engine._model.generate, engine._reply = generated, replied
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
