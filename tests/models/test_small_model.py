"""Real language models under every scaffold, served by vLLM and by hf:. SmolLM2-135M-Instruct and
Qwen2.5-Coder-0.5B-Instruct, of `make small-model`.

Neither solves a task for sure, so no test asserts a success: whatever they say, the records must hold exactly what was
sampled, and their counts must agree.
"""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, records, run_command
from model_server import RealServer, real_server
from played_checks import answers

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed: no real language model is tested")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: no real model is tested")

from mletools.models import Reply, Request, ServerOptions  # noqa: E402
from mletools.models.hf import HfModel  # noqa: E402
from mletools.models.http import HttpModel  # noqa: E402
from mletools.scaffolds.react import TOOLS  # noqa: E402
from mletools.scaffolds.reading import as_functions  # noqa: E402

CONTEXT = "4096"  # of 8192: at its start the server fills it once, which takes half a minute
ANSWER_TOKENS = 24
FORMAT_PROBLEMS = {"length", "missing", "several", "malformed", "unknown", "early"}
QUESTION = {"role": "user", "content": "What is the capital of France?"}
TURNS = ("--max-turns", "2", "--max-answer-tokens", str(ANSWER_TOKENS))
SCAFFOLDS = {
    "single": ("--max-tokens", str(ANSWER_TOKENS)),
    "improve": TURNS,
    "react": TURNS,
    "react-tools": (*TURNS, "--tool-calls", "openai"),
    "codeact": TURNS,
    "memory": (*TURNS, "--max-traces", "1"),
}


@pytest.fixture(scope="module", params=["smollm2", "qwen2.5-coder-0.5b"])
def checkpoint(request: pytest.FixtureRequest) -> Path:
    folder = ROOT / str(request.param)
    if not (folder / "config.json").is_file():
        pytest.skip(f"no real language model: no {folder.name}/, which make small-model MODEL={folder.name} writes")
    return folder.resolve()


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture(scope="module")
def weights(checkpoint: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[RealServer]:
    with real_server(checkpoint, "--max-model-len", CONTEXT) as running:
        yield running


@pytest.fixture(scope="module")
def folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run for a checkpoint, with a task in t.jsonl."""
    folder = tmp_path_factory.mktemp("small")
    run_command("mle-gen-task", "--source", "sklearn:wine", "-n", "1", "--backend", "none", "-o", "t.jsonl", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def play(server: RealServer, folder: Path) -> Callable[..., list[dict[str, Any]]]:
    """play(scaffold, *options) runs mle-rollout against the server, to exit code 0, and returns the records."""

    def rollouts(scaffold: str, *options: str, model: str = server.name) -> list[dict[str, Any]]:
        command = ("mle-rollout", "--scaffold", scaffold, "-m", model, "--model-url", server.url)
        done = run_command(*command, *options, cwd=folder, no_proxy="127.0.0.1", OPENAI_API_KEY="")
        return records(done.stdout)

    return rollouts


def as_shown(message: dict[str, Any]) -> dict[str, Any]:
    """The message as a server gives it to a template: arguments of calls are objects there."""
    shown = {name: message[name] for name in ("role", "content") if name in message}
    if calls := message.get("tool_calls"):
        functions = [call["function"] for call in calls]
        shown["tool_calls"] = [{"function": {**each, "arguments": json.loads(each["arguments"])}} for each in functions]
    return shown


def check_answers(record: dict[str, Any], tokenizer: Any) -> int:
    """Every answer of the policy is what was sampled, after the prompt that its messages make; how many there are."""
    count = 0
    tools = as_functions(TOOLS) if record.get("settings", {}).get("tool_calls") == "openai" else None
    for turn, message, prompt, shown in answers(record):
        ids = message["token_ids"]
        assert tokenizer.decode(prompt) == tokenizer.apply_chat_template(
            [as_shown(each) for each in shown], tools=tools, tokenize=False, add_generation_prompt=True
        )
        text = tokenizer.decode(ids, skip_special_tokens=True)
        assert text.startswith(message["content"]) if "tool_calls" in message else text == message["content"]
        ended = ids[-1] == tokenizer.eos_token_id
        assert tokenizer.eos_token_id not in ids[:-1] and (ended or len(ids) == ANSWER_TOKENS)
        assert len(message["logprobs"]) == len(ids)
        assert all(math.isfinite(logprob) and logprob <= 0 for logprob in message["logprobs"])
        usage = turn.get("usage", record["usage"])
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len(prompt), len(ids))
        if turn.get("problem") == "length":
            assert not ended
        count += 1
    return count


def check_sums(record: dict[str, Any]) -> None:
    """The record's own figures are those of its turns."""
    turns = record["turns"]
    for name in ("prompt_tokens", "completion_tokens"):
        assert record["usage"][name] == sum(turn["usage"][name] for turn in turns)
    assert record["stop_reason"] != "max_turns" or len(turns) == record["settings"]["max_turns"]
    faults = [turn["problem"] in FORMAT_PROBLEMS for turn in turns]
    assert not any(fault and ("execution" in turn or "cell" in turn) for fault, turn in zip(faults, turns, strict=True))
    if record["scaffold"] != "react":  # whose rate is of messages that begin with a reasoning part
        exact = [turn["format"]["read"] == "exact" for turn in turns]
        assert record["format_rate"] == sum(exact) / len(exact)


def check_logprobs(record: dict[str, Any], weights: Any) -> None:
    """The logprobs are transformers' in the server's float32.

    4e-5 apart on one kind of CPU and 6e-3 on another; 0.17 in bfloat16, 0.12 with one token of the prompt's end left out.
    """
    for _, message, prompt, _ in answers(record):
        ids = message["token_ids"]
        with torch.inference_mode():
            logits = weights(torch.tensor([prompt + ids]), logits_to_keep=len(ids) + 1).logits[0, :-1]
        expected = logits.log_softmax(-1)[range(len(ids)), ids]
        assert message["logprobs"] == pytest.approx(expected.tolist(), abs=0.02)
        assert min(message["logprobs"]) < -0.1


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_a_rollout_holds_what_was_sampled(
    name: str, play: Callable[..., list[dict[str, Any]]], tokenizer: Any, weights: Any
) -> None:
    group = ("-g", "2", "-j", "2") if name in ("single", "react") else ()
    rollouts = play(name.removesuffix("-tools"), *SCAFFOLDS[name], *group, "t.jsonl")
    assert len(rollouts) == (2 if group else 1)
    for record in rollouts:
        assert check_answers(record, tokenizer) == (1 if name == "single" else len(record["turns"]))
        if name == "single":
            ended = record["messages"][-1]["token_ids"][-1] == tokenizer.eos_token_id
            assert record["stop_reason"] in (("format", "finished") if ended else ("length",))
        else:
            check_sums(record)
    if name in ("single", "react"):
        check_logprobs(rollouts[0], weights)
        first, second = ([message for message in each["messages"] if message.get("loss")] for each in rollouts)
        assert first[0]["token_ids"] != second[0]["token_ids"]


@pytest.mark.nightly
def test_ideas_from_its_own_advice(
    play: Callable[..., list[dict[str, Any]]], folder: Path, tokenizer: Any, weights: Any
) -> None:
    """As ideator it advises the scripted agent; from the states it is policy and implementer of one idea."""
    short = ("--max-answer-tokens", str(ANSWER_TOKENS), "--trajectory-tokens", "300")
    helped = ("--ideator", "tiny", "--max-turns", "6", "--write-states", "s.jsonl")
    (advised,) = play("codeact", *helped, *short, "t.jsonl", model="scripted")
    replies = [turn["help"] for turn in advised["turns"] if "help" in turn]
    states = (folder / "s.jsonl").read_text().splitlines()
    assert len(states) == len(replies) > 0
    (folder / "first.jsonl").write_text(states[0] + "\n")
    for record in play("idea", "--implementer", "tiny", *short, "first.jsonl"):
        assert check_answers(record, tokenizer) == 1
        assert record["stop_reason"] in ("format", "finished", "length")
        check_logprobs(record, weights)


@pytest.mark.nightly
def test_steps_of_a_search_hold_what_was_sampled(
    play: Callable[..., list[dict[str, Any]]], folder: Path, tokenizer: Any
) -> None:
    (record,) = play("search", *TURNS, "--write-steps", "steps.jsonl", "t.jsonl")
    assert len(record["turns"]) == 2
    steps = records((folder / "steps.jsonl").read_bytes())
    assert [check_answers(step, tokenizer) for step in steps] == [1] * len(steps)
    for name in ("prompt_tokens", "completion_tokens"):
        for turn in record["turns"]:
            number = turn["node"]["number"]
            assert turn["usage"][name] == sum(step["usage"][name] for step in steps if step["step"]["node"] == number)
        # what is asked beside the nodes (the role in the system prompt) counts in the record and makes no step
        assert record["usage"][name] > sum(turn["usage"][name] for turn in record["turns"]) > 0


def test_it_answers_a_question_alike_from_both_engines(
    server: RealServer, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights survive the conversion, an end token ends an answer, and greedy answers have the same tokens."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    served = HttpModel(server.name, ServerOptions(server.url, timeout=240, retries=1))
    here = HfModel(checkpoint, device="cpu")

    def both(messages: list[dict[str, Any]]) -> Reply:
        request = Request(messages, 1, temperature=0.0, max_tokens=32, training=True)
        remote, local = (model.sample([request])[0] for model in (served, here))
        assert (remote.text, remote.finish_reason) == (local.text, local.finish_reason)
        assert (remote.prompt_token_ids, remote.token_ids) == (local.prompt_token_ids, local.token_ids)
        return remote

    first = both([QUESTION])
    assert "Paris" in first.text and first.finish_reason == "stop"
    said = {"role": "assistant", "content": first.text, "token_ids": first.token_ids}
    asked = {**QUESTION, "token_ids": first.prompt_token_ids}
    second = both([asked, said, {"role": "user", "content": "And of Italy?"}])
    sequence = [*(first.prompt_token_ids or ()), *(first.token_ids or ())]
    assert (second.prompt_token_ids or [])[: len(sequence)] == sequence
    served.close()
    here.close()


@pytest.mark.nightly
def test_rollouts_in_this_process(checkpoint: Path, folder: Path, tokenizer: Any, weights: Any) -> None:
    command = ("mle-rollout", "-m", f"hf:{checkpoint}", "--max-tokens", str(ANSWER_TOKENS), "t.jsonl")
    rollouts = records(run_command(*command, cwd=folder).stdout)
    assert [check_answers(record, tokenizer) for record in rollouts] == [1]
    check_logprobs(rollouts[0], weights)
