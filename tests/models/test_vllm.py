"""Sampling with vLLM in a process of ours: the same distributions, records and turns as with transformers; adapters.

vLLM has versions of its own, so it runs in the Python of MLETOOLS_VLLM_PYTHON (or of .vllm/): there, DRIVER does what the
lines that it is sent say, and the commands run from this checkout.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import records, without_times
from model_server import long_tiny, tiny_adapter, vllm_environment, vllm_python

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mletools.base.errors import ToolError
from mletools.models import Request, open_model
from mletools.models.hf import HfModel, distribution

CONTEXT = 4096
SAME = 3e-4  # logprobs of vLLM and of transformers, which sum in another order
QUESTIONS = ["What does mle-grade do?", "Go.", "A rather longer question about forests and their depth, in one line."]
DRIVER = """
import json, multiprocessing, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from mletools.models import Request
from mletools.models.following import FollowingModel
from mletools.models.vllm_engine import VllmModel
from mletools.base.errors import ToolError

def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engines = []
    def opened(path):
        engines.append(VllmModel(path, merge=sys.argv[2] == "merge"))
        return engines[-1]
    model = FollowingModel(Path(sys.argv[1]), None, opened)
    pool = ThreadPoolExecutor(32)
    def ask(fields):
        try:
            (reply,) = model.sample([Request(**fields)])
            return asdict(reply)
        except ToolError as error:
            return {"error": type(error).__name__, "message": str(error)}
    begun = []
    for line in sys.stdin:
        kind, said = json.loads(line)
        if kind == "begin":
            begun = [pool.submit(ask, fields) for fields in said]
            while model._calls < len(begun):
                time.sleep(0.01)
            answer = None
        elif kind == "end":
            answer = [each.result() for each in begun]
        elif kind == "ask":
            answer = list(pool.map(ask, said))
        elif kind == "state":
            children = sorted(child.pid for child in multiprocessing.active_children())
            answer = {"version": model.version, "engines": len(engines), "children": children}
        answers.write(json.dumps(answer) + "\\n")
        answers.flush()
    model.close()

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return vllm_environment()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="needs the [train] extra")
    return long_tiny(tmp_path_factory.mktemp("vllm") / "tiny", CONTEXT)


def publish(base: Path, folder: Path, version: int) -> Path:
    """Make the adapter of that number the newest in `folder`; number 0 changes nothing."""
    made = folder / f"policy-{version:06d}"
    tiny_adapter(base, made, version or None)
    return published(made, version)


def published(made: Path, version: int) -> Path:
    folder = made.parent
    (made / "state.json").write_text(json.dumps({"policy_version": version}))
    os.symlink(made.name, folder / "new")
    os.replace(folder / "new", folder / "latest")
    return made


class Driven:
    """A process that answers with the newest policy of `folder`; adapters: "merge", or "apart" as on a GPU."""

    def __init__(self, folder: Path, environment: dict[str, str], adapters: str) -> None:
        command = [vllm_python(), "-c", DRIVER, str(folder), adapters]
        self.folder = folder
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )

    def say(self, kind: str, said: Any = None) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([kind, said]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process has ended: see its stderr"
        return json.loads(line)

    def ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replies, asked from a thread each."""
        return self.say("ask", requests)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture(scope="module")
def driven(tiny: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    folder = tmp_path_factory.mktemp("published")
    publish(tiny, folder, 0)
    found = Driven(folder, environment, "apart")
    yield found
    found.close()


@pytest.fixture(scope="module")
def hf(tiny: Path) -> HfModel:
    return HfModel(tiny, device="cpu", threads=1)


def asked(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        {"messages": [{"role": "user", "content": QUESTIONS[n % 3]}], "seed": 2**61 + n, "max_tokens": 24, **changes}
        for n in range(count)
    ]


def rescored(model: HfModel, reply: dict[str, Any], temperature: float, top_p: float = 1.0) -> list[float]:
    """Log-probabilities of the reply's tokens from one pass of transformers over prompt and answer."""
    import torch

    prompt, tokens = reply["prompt_token_ids"], reply["token_ids"]
    with torch.no_grad():
        logits = model._model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    each = [torch.full((len(tokens), 1), value, dtype=torch.float64) for value in (temperature, top_p)]
    return distribution(logits, *each).log()[range(len(tokens)), tokens].tolist()


def test_who_lacks_vllm_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ToolError) as error:
        open_model("vllm:somewhere")
    assert str(error.value) == "vllm: needs vllm: pip install 'mletools[vllm]'"
    with pytest.raises(ToolError, match="vllm:: vllm needs a folder or a model's name"):
        open_model("vllm:")


def test_no_engine_outlives_a_command_that_was_killed() -> None:
    code = (
        "import subprocess, sys, time; from mletools.models.vllm_engine import watch\n"
        "engine = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "watch([engine.pid]); print(engine.pid, flush=True); time.sleep(600)"
    )
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert command.stdout
    arguments = Path(f"/proc/{int(command.stdout.readline())}/cmdline")  # empty once it has ended
    time.sleep(1)
    assert b"sleep" in arguments.read_bytes()
    command.kill()
    command.wait()
    until = time.monotonic() + 60
    while arguments.exists() and arguments.read_bytes() and time.monotonic() < until:
        time.sleep(0.1)
    assert not arguments.exists() or not arguments.read_bytes()


ARGUED = """
import sys
from mletools.base.errors import ToolError
from mletools.models import open_model

if __name__ == "__main__":
    try:
        model = open_model(f"vllm:{sys.argv[1]}", engine={"max_model_len": 512, **dict(word.split("=") for word in sys.argv[2:])})
        print(model.context)
        model.close()
    except ToolError as error:
        print(error)
"""


@pytest.mark.nightly
def test_arguments_of_the_engine(tiny: Path, environment: dict[str, str]) -> None:
    def said(*words: str) -> str:
        command = [vllm_python(), "-c", ARGUED, str(tiny), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=280)
        return done.stdout.splitlines()[-1]

    assert said() == "512" != str(CONTEXT)
    assert (
        said("max_lengths=2")
        == f"{tiny}: cannot be loaded by vLLM: its engine has no argument max_lengths (--engine-option)"
    )


@pytest.mark.nightly
def test_greedy_answers_are_those_of_transformers(driven: Driven, hf: HfModel) -> None:
    requests = asked(3, temperature=0.0)
    expected = hf.sample([Request(**fields) for fields in requests])
    for reply, other in zip(driven.ask(requests), expected, strict=True):
        assert (reply["prompt_token_ids"], reply["token_ids"]) == (other.prompt_token_ids, other.token_ids)
        assert reply["finish_reason"] == other.finish_reason
        # vLLM withholds a character whose bytes have not all come, transformers writes U+FFFD for each
        assert reply["text"].rstrip("\ufffd") == other.text.rstrip("\ufffd")
        assert reply["logprobs"] == [0.0] * 24
        assert (reply["prompt_tokens"], reply["completion_tokens"]) == (len(other.prompt_token_ids or ()), 24)


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (0.7, 0.6)])
def test_logprobs_are_those_of_the_distribution_sampled_from(
    driven: Driven, hf: HfModel, temperature: float, top_p: float
) -> None:
    replies = driven.ask(asked(12, temperature=temperature, top_p=top_p))
    for reply in replies:
        assert reply["logprobs"] == pytest.approx(rescored(hf, reply, temperature, top_p), abs=SAME)
    assert min(value for reply in replies for value in reply["logprobs"]) < -3


@pytest.mark.slow
def test_a_seed_gives_the_same_answer_alone_and_among_others(driven: Driven) -> None:
    together = driven.ask(asked(24))
    assert [driven.ask([each])[0]["token_ids"] for each in asked(24)[5:8]] == [r["token_ids"] for r in together[5:8]]
    assert len({reply["text"] for reply in together}) == 24


@pytest.mark.slow
def test_a_next_turn_goes_on_from_the_very_tokens(driven: Driven) -> None:
    (first,) = driven.ask(asked(1))
    known = first["prompt_token_ids"] + first["token_ids"]
    messages = [
        {"role": "user", "content": QUESTIONS[0], "token_ids": first["prompt_token_ids"]},
        {"role": "assistant", "content": first["text"], "token_ids": first["token_ids"]},
        {"role": "user", "content": "Go on."},
    ]
    (second,) = driven.ask([{"messages": messages, "seed": 1, "max_tokens": 4}])
    assert second["prompt_token_ids"][: len(known)] == known and len(second["prompt_token_ids"]) > len(known)


@pytest.mark.slow
def test_a_stop_text_ends_the_answer_and_is_left_out(driven: Driven) -> None:
    (whole,) = driven.ask(asked(1))
    stop = whole["text"][len(whole["text"]) // 2 :][:2]
    (cut,) = driven.ask(asked(1, stop=[stop]))
    assert cut["text"] == whole["text"].split(stop)[0] and cut["finish_reason"] == "stop"
    count = len(cut["token_ids"])
    assert cut["token_ids"] == whole["token_ids"][:count] and len(cut["logprobs"]) == count < 24


@pytest.mark.slow
def test_what_does_not_fit_is_refused_before_sampling(driven: Driven) -> None:
    long, tools = driven.ask([*asked(1, max_tokens=CONTEXT), *asked(1, tools=[{"type": "function"}])])
    assert long["error"] == "ContextExceeded" and "over the model's context of 4096: shorten" in long["message"]
    assert (
        tools["error"] == "ToolError" and "does not support tool calls: leave --tool-calls at tags" in tools["message"]
    )


@pytest.mark.nightly
def test_adapters_are_exchanged_while_answers_are_in_flight(driven: Driven, tiny: Path, hf: HfModel) -> None:
    before, greedy, seen = driven.say("state"), asked(2, temperature=0.0), []
    model = hf
    for version in (1, 2):
        long = asked(2, max_tokens=400)
        driven.say("begin", long)
        made = publish(tiny, driven.folder, version)
        replies = driven.ask(greedy)
        for reply in driven.say("end"):  # of the weights that they were begun with, to the last token
            assert reply["logprobs"] == pytest.approx(rescored(model, reply, 1.0), abs=SAME)
        model = HfModel(made, device="cpu", threads=1)
        expected = model.sample([Request(**fields) for fields in greedy])
        assert [reply["token_ids"] for reply in replies] == [other.token_ids for other in expected]
        seen.append([reply["token_ids"] for reply in replies])
        for reply in driven.ask(asked(4, temperature=0.7)):
            assert reply["logprobs"] == pytest.approx(rescored(model, reply, 0.7), abs=SAME)
    assert seen[0] != seen[1]
    assert driven.say("state") == {**before, "version": 2} and before["engines"] == 1


@pytest.mark.nightly
def test_all_weights_and_merged_adapters_are_exchanged_in_the_idle_engine(
    tiny: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    other = long_tiny(tmp_path / "other", CONTEXT, seed=1)
    publish(tiny, tmp_path, 0)
    driven = Driven(tmp_path, environment, "merge")
    before, requests, seen = driven.say("state"), [*asked(2), *asked(2, temperature=0.0)], []
    for version in range(4):  # adapters of one model, another model, an adapter of it
        if version == 2:
            published(Path(shutil.copytree(other, tmp_path / "policy-000002")), 2)
        elif version:
            publish(other if version == 3 else tiny, tmp_path, version)
        model = HfModel(tmp_path / f"policy-{version:06d}", device="cpu", threads=1)
        replies = driven.ask(requests)
        for reply in replies[:2]:
            assert reply["logprobs"] == pytest.approx(rescored(model, reply, 1.0), abs=SAME)
        expected = model.sample([Request(**fields) for fields in requests[2:]])
        assert [reply["token_ids"] for reply in replies[2:]] == [answer.token_ids for answer in expected]
        seen.append(tuple(replies[0]["logprobs"]))
    assert driven.say("state") == {**before, "version": 3} and before["engines"] == 1
    assert len(set(seen)) == 4
    driven.close()


@pytest.fixture(scope="module")
def rolled_out(
    stages: dict[str, Any], environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[dict[str, Any]]]:
    """Runs mle-rollout in vLLM's Python on the tasks of `stages`; the records, ordered by id."""
    folder = tmp_path_factory.mktemp("rollouts")

    def run(*options: str) -> list[dict[str, Any]]:
        command = [vllm_python(), "-c", "from mletools.commands.rollout import main\nmain()"]
        fixed = ["--prompt", "single-brief", "-g", "4", "--temperature", "0.7", "--max-tokens", "20", "--data"]
        done = subprocess.run(
            [*command, *fixed, str(stages["folder"]), *options, str(stages["tasks"])],
            env=environment, cwd=folder, capture_output=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return sorted(records(done.stdout), key=lambda record: record["id"])

    return run


@pytest.mark.nightly
def test_an_adapter_with_a_tokenizer_is_loaded_in_silence(
    stages: dict[str, Any], tiny: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    adapter = publish(tiny, tmp_path, 0)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):  # as the trainer does
        shutil.copy(tiny / name, adapter)
    done = subprocess.run(
        [vllm_python(), "-c", "from mletools.commands.rollout import main\nmain()", "-q", "-m", f"vllm:{adapter}",
         "--prompt", "single-brief", "--max-tokens", "20", "--data", str(stages["folder"]), str(stages["tasks"])],
        env=environment, cwd=tmp_path, capture_output=True, timeout=280, check=True,
    )  # fmt: skip
    assert len(records(done.stdout)) == 2
    assert b"ERROR" not in done.stderr and b"%|" not in done.stderr, done.stderr.decode()


@pytest.mark.slow
def test_records_repeat_and_train(rolled_out: Callable[..., list[dict[str, Any]]], tiny: Path, tmp_path: Path) -> None:
    from mletools.training.grpo import GrpoOptions, GrpoRun

    made = rolled_out("-m", f"vllm:{tiny}", "-j", "8")
    assert len(made) == 8 and {record["policy"]["version"] for record in made} == {None}
    again = rolled_out("-m", f"vllm:{tiny}", "-j", "3")
    for one, other in zip(made, again, strict=True):
        one, other = without_times(one), without_times(other)
        for message, twin in zip(one["messages"], other["messages"], strict=True):
            assert message.pop("logprobs", []) == pytest.approx(twin.pop("logprobs", []), abs=1e-5)
        assert one == other
    rewarded = [{**record, "reward": float(record["sample"])} for record in made]
    options = GrpoOptions(groups_per_step=2, micro_batch=8, lora_rank=4, largest_ratio=1.001)
    (step,) = GrpoRun(str(tiny), tmp_path / "run", options).train(rewarded)
    assert step["rollouts"] == 8 and step["largest_ratio"] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.nightly
def test_a_run_that_follows_tells_the_version(
    rolled_out: Callable[..., list[dict[str, Any]]], tiny: Path, tmp_path: Path
) -> None:
    publish(tiny, tmp_path, 3)
    made = rolled_out("-m", "vllm:", "--follow", str(tmp_path), "-j", "8")
    assert len(made) == 8 and {record["policy"]["version"] for record in made} == {3}
