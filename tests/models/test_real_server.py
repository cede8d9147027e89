"""The model over HTTP against a real server, vLLM where it is installed, of a tiny checkpoint."""

import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from model_server import RealServer, long_tiny, real_server, tiny_adapter

from mletools.models import ContextExceeded, Reply, Request, ServerOptions
from mletools.models.http import HttpModel

pytestmark = pytest.mark.slow

CONTEXT = 4096
ASK: list[dict[str, Any]] = [
    {"role": "system", "content": "You solve a task in turns."},
    {"role": "user", "content": "What does mle-grade do?"},
]
TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="needs the [train] extra")
    return long_tiny(tmp_path_factory.mktemp("real") / "tiny", CONTEXT)


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[RealServer]:
    with real_server(checkpoint) as found:
        yield found


@pytest.fixture
def engine(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpModel]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    model = HttpModel(server.name, ServerOptions(server.url, timeout=120, retries=1))
    yield model
    model.close()


def ask(engine: HttpModel, messages: list[dict[str, Any]], seed: int, **options: Any) -> Reply:
    return engine.sample([Request(messages, seed, **{"max_tokens": 24, "training": True, **options})])[0]


def ids(reply: Reply) -> tuple[list[int], list[int]]:
    assert reply.prompt_token_ids and reply.token_ids and reply.logprobs
    assert len(reply.logprobs) == len(reply.token_ids) == reply.completion_tokens
    assert len(reply.prompt_token_ids) == reply.prompt_tokens
    return reply.prompt_token_ids, reply.token_ids


def test_a_conversation_of_two_turns(engine: HttpModel) -> None:
    first = ask(engine, ASK, 5)
    result = {"role": "tool", "content": "exit code 0", "tool_call_id": "c1", "name": "run"}
    second = ask(engine, [*ASK, {"role": "assistant", "content": first.text}, result], 6)
    assert first.finish_reason in ("stop", "length") and first.prompt_tokens and second.prompt_tokens
    assert second.prompt_tokens > first.prompt_tokens


def test_the_same_seed_gives_the_same_text_alone_and_among_others(engine: HttpModel) -> None:
    alone = ask(engine, ASK, 2**61 + 3)
    with ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(lambda seed: ask(engine, ASK, seed), [*range(20), 2**61 + 3, *range(20, 30)]))
    assert crowd[20].text == alone.text == ask(engine, ASK, 2**61 + 3).text
    assert len({reply.text for reply in crowd}) > 20


def test_logprobs_are_those_of_the_model(engine: HttpModel, checkpoint: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    for seed in range(4):
        reply = ask(engine, ASK, seed, max_tokens=40)
        prompt, tokens = ids(reply)
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + tokens])).logits[0]
        expected = logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(tokens) - 1), tokens]
        assert reply.logprobs == pytest.approx(expected.tolist(), abs=1e-3)
        assert min(expected) < -1


def test_the_next_prompt_begins_with_what_was_said_only_where_its_text_gives_the_same_tokens(
    engine: HttpModel, checkpoint: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    seen = set()
    for seed in range(24):
        first = ask(engine, ASK, seed, max_tokens=2)
        said = {"role": "assistant", "content": first.text}
        second = ask(engine, [*ASK, said, {"role": "user", "content": "Go on."}], seed, max_tokens=2)
        prompt, tokens = ids(first)
        following, _ = ids(second)
        assert following[: len(prompt)] == prompt
        words = [token for token in tokens if token != tokenizer.eos_token_id]
        same = tokenizer.encode(first.text, add_special_tokens=False) == words
        assert (following[: len(prompt) + len(words)] == prompt + words) == same
        seen.add(same)
    assert seen == {True, False}  # an untrained model also writes what no tokenizer would


def test_a_full_context(engine: HttpModel) -> None:
    digits = CONTEXT - 3  # a token each, and the template's three
    with pytest.raises(ContextExceeded, match="share the model's context"):
        ask(engine, [{"role": "user", "content": "7" * (digits + 1)}], 1)
    with pytest.raises(ContextExceeded):
        ask(engine, [{"role": "user", "content": "7" * digits}], 1)
    last = ask(engine, [{"role": "user", "content": "7" * (digits - 2)}], 1)
    assert (last.finish_reason, last.prompt_tokens, last.completion_tokens) == ("length", CONTEXT - 2, 2)


def test_tools_and_stop_texts_are_taken(engine: HttpModel) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    messages = [*ASK, {"role": "assistant", "content": "", "tool_calls": [called]}]
    messages.append({"role": "tool", "content": "2", "tool_call_id": "c1", "name": "run"})
    assert ask(engine, messages, 1, tools=TOOLS).tool_calls == ()
    whole = ask(engine, ASK, 9)
    stop = whole.text[len(whole.text) // 2 :][:2]
    stopped = ask(engine, ASK, 9, stop=(stop,))
    assert stopped.text == whole.text.split(stop)[0] and stopped.finish_reason == "stop"


@pytest.fixture(scope="module")
def asked(server: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    """Plays an agent in turns with the server's model; the records."""
    folder = tmp_path_factory.mktemp("agents")
    run_command("mle-gen-task", "--source", "sklearn:wine", "-n", "1", "--backend", "none", "-o", "t.jsonl", cwd=folder)

    def play(scaffold: str, *options: str, tasks: str = "t.jsonl") -> list[dict[str, Any]]:
        command = (
            "mle-rollout",
            "--scaffold",
            scaffold,
            "-m",
            server.name,
            "--model-url",
            server.url,
            "-g",
            "2",
            "-j",
            "2",
        )
        told = run_command(
            *command, "--max-answer-tokens", "24", *options, tasks, cwd=folder, no_proxy="127.0.0.1", OPENAI_API_KEY=""
        )
        return records(told.stdout)

    play.folder = folder  # type: ignore[attr-defined]
    return play


@pytest.mark.parametrize("scaffold", ["react", "codeact", "memory", "improve"])
def test_agents_in_turns_keep_what_was_sampled(
    scaffold: str, asked: Callable[..., list[dict[str, Any]]], server: RealServer
) -> None:
    options = ("--max-traces", "1") if scaffold == "memory" else ()
    made = asked(scaffold, "--max-turns", "3" if scaffold != "improve" else "2", *options)
    assert len(made) == 2
    for record in made:
        assert record["stop_reason"] in ("max_turns", "format", "length")  # an untrained model takes no action
        assert all(turn["problem"] for turn in record["turns"])
        own = [message for message in record["messages"] if message.get("loss")]
        assert len(own) == len(record["turns"]) == (2 if scaffold == "improve" else 3)
        if server.kind != "vllm":
            continue
        for turn, message in zip(record["turns"], own, strict=True):
            assert len(message["logprobs"]) == len(message["token_ids"]) == turn["usage"]["completion_tokens"]
        # every sequence is what the server counted as its prompt, and what it sampled
        sequence: list[int] = []
        for at, message in enumerate(record["messages"]):
            if "prompt_token_ids" in message:
                sequence = list(message["prompt_token_ids"])
            if message.get("loss"):
                turn = next(each for each in record["turns"] if each["message"] == at)
                assert len(sequence) == turn["usage"]["prompt_tokens"]
            sequence += message.get("token_ids", [])


def test_ideas_from_states(asked: Callable[..., list[dict[str, Any]]], server: RealServer) -> None:
    folder = asked.folder  # type: ignore[attr-defined]
    states = ("--scaffold", "codeact", "--ideator", "null", "--write-states", "s.jsonl")
    run_command("mle-rollout", *states, "-g", "3", "-o", "c.jsonl", "t.jsonl", cwd=folder)
    assert (folder / "s.jsonl").stat().st_size
    made = asked("idea", "--implementer", "scripted", "--trajectory-tokens", "500", tasks="s.jsonl")
    assert {record["stop_reason"] for record in made} <= {"format", "finished"}
    graded = run_command(
        "mle-grade", "--reward", "improvement", cwd=folder, input="".join(json.dumps(r) + "\n" for r in made).encode()
    )
    assert {record["reward"] for record in records(graded.stdout)} <= {-1.0, 0.0, 1.0}


def test_steps_of_a_search_keep_what_was_sampled(
    asked: Callable[..., list[dict[str, Any]]], server: RealServer
) -> None:
    folder = asked.folder  # type: ignore[attr-defined]
    made = asked("search", "--preset", "rd-agent", "--max-turns", "4", "--write-steps", "steps.jsonl")
    assert [len(record["turns"]) for record in made] == [4, 4]
    assert {turn["problem"] for record in made for turn in record["turns"]} <= {"unanswered", "no_code"}  # untrained
    steps = records((folder / "steps.jsonl").read_bytes())
    assert len(steps) >= 8
    for step in steps if server.kind == "vllm" else ():
        (usage,), answer = [turn["usage"] for turn in step["turns"]], step["messages"][-1]
        assert len(answer["logprobs"]) == len(answer["token_ids"]) == usage["completion_tokens"]
        assert sum(len(message.get("token_ids", ())) for message in step["messages"][:-1]) == usage["prompt_tokens"]


def test_a_published_adapter_answers_in_place_of_the_one_before(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mletools.models.hf import HfModel
    from mletools.training.publish import Publisher

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    # long enough that the server keeps what it has computed of the prompt: of the adapter before, if it mixed them up
    messages = [{"role": "user", "content": "What does mle-grade do? " * 40}]
    seen = []
    with real_server(checkpoint, "--enable-lora", VLLM_ALLOW_RUNTIME_LORA_UPDATING="True") as server:
        publisher = Publisher(tmp_path / "pub", (server.url,), "policy", steps=1, rollouts=8, groups=2)
        model = HttpModel("policy", ServerOptions(server.url, timeout=120, retries=1))
        for version in range(6):
            publisher.publish(version, lambda folder, seed=version or None: tiny_adapter(checkpoint, folder, seed))
            (greedy,) = model.sample([Request(messages, 1, temperature=0.0, max_tokens=24, training=True)])
            here = HfModel(tmp_path / "pub" / "latest", device="cpu", threads=1)
            (expected,) = here.sample([Request(messages, 1, temperature=0.0, max_tokens=24, training=True)])
            assert (greedy.prompt_token_ids, greedy.token_ids) == (expected.prompt_token_ids, expected.token_ids)
            seen.append(tuple(greedy.token_ids or ()))  # its text may be empty: bytes that make no character
            assert here.version == version
        model.close()
    assert len(set(seen)) >= 3 and len(greedy.prompt_token_ids or ()) > 256


def other_weights(checkpoint: Path, folder: Path, seed: int, tied: bool | None = None) -> None:
    """The checkpoint's model with weights drawn anew."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(checkpoint)
    config.tie_word_embeddings = config.tie_word_embeddings if tied is None else tied
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)


def logprobs_of(folder: Path, reply: Reply) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM

    prompt, tokens = ids(reply)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + tokens])).logits[0]
    return logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(tokens) - 1), tokens].tolist()


def sampled_tokens(server: RealServer) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics") as page:
        return float(re.search(r"(?m)^vllm:generation_tokens_total\S* (\S+)", page.read().decode())[1])


@pytest.fixture(scope="module")
def untied(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with an output layer of its own: vLLM on a CPU does not reload one that is the embedding."""
    folder = tmp_path_factory.mktemp("untied") / "tiny"
    other_weights(checkpoint, folder, 9, tied=False)
    return folder


@pytest.fixture(scope="module")
def changing(untied: Path) -> Iterator[RealServer]:
    with real_server(untied, VLLM_SERVER_DEV_MODE="1") as server:
        yield server


@pytest.mark.nightly
def test_published_weights_answer_in_place_of_those_before(
    changing: RealServer, checkpoint: Path, untied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mletools.base.errors import ToolError
    from mletools.models.following import FollowingModel
    from mletools.models.policy_servers import load_weights
    from mletools.training.publish import Publisher

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder, server = tmp_path / "pub", changing
    publisher = Publisher(folder, (server.url,), "policy", steps=1, rollouts=8, groups=2)
    publisher.publish(0, lambda at: other_weights(untied, at, 0))
    model = FollowingModel(folder, HttpModel(server.name, ServerOptions(server.url, timeout=120, retries=1)), None)
    # long enough that the server keeps what it has computed of the prompt
    question = [{"role": "user", "content": "What does mle-grade do? " * 40}]
    asked = Request(question, 1, temperature=1.0, max_tokens=24, training=True)
    seen = []
    for version in range(4):
        if version:
            publisher.publish(version, lambda at, seed=version: other_weights(untied, at, seed))
        assert model.version == version
        (reply,) = model.sample([asked])
        assert reply.logprobs == pytest.approx(logprobs_of(folder / "latest", reply), abs=1e-3)
        assert len(ids(reply)[0]) > 256
        seen.append(tuple(ids(reply)[1]))
    assert len(set(seen)) == 4

    # answers in progress go on with the new weights: each token's logprob is that of the weights that sampled it
    before, so_far = (folder / "latest").resolve(), sampled_tokens(server)
    with ThreadPoolExecutor(8) as pool:
        futures = [
            pool.submit(model.sample, [Request(ASK, seed, max_tokens=2000, temperature=1.0, training=True)])
            for seed in range(8)
        ]
        while sampled_tokens(server) < so_far + 80:
            pass
        publisher.publish(4, lambda at: other_weights(untied, at, 4))
        answers = [future.result()[0] for future in futures]
    changed = 0
    for answer in answers:
        assert answer.logprobs is not None
        old, new = logprobs_of(before, answer), logprobs_of(folder / "latest", answer)
        at = next((n for n, (a, b) in enumerate(zip(old, answer.logprobs, strict=True)) if abs(a - b) > 1e-3), len(old))
        assert answer.logprobs[:at] == pytest.approx(old[:at], abs=1e-3)
        assert answer.logprobs[at:] == pytest.approx(new[at:], abs=1e-3)
        changed += 0 < at < len(old)
    assert changed

    with pytest.raises(ToolError, match="keeps the output layer of a model with tied embeddings"):
        load_weights(server.url, checkpoint)

    # weights that cannot be read: no answer before there are some that can
    with pytest.raises(ToolError, match=r"can the server read this folder.*The server stays paused"):
        load_weights(server.url, tmp_path / "nothing")
    waiting = threading.Thread(target=model.sample, args=([asked],), daemon=True)
    waiting.start()
    waiting.join(2)
    assert waiting.is_alive()
    publisher.publish(5, lambda at: other_weights(untied, at, 1))
    waiting.join(60)
    assert not waiting.is_alive() and tuple(ids(model.sample([asked])[0])[1]) == seen[1]
    model.close()


def test_training_all_weights_publishes_to_the_server(
    changing: RealServer, untied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    run_command(
        "mle-gen-task", "--source", "sklearn:wine", "-n", "1", "--backend", "none", "-o", "t.jsonl", cwd=tmp_path
    )
    load = ("mle-rollout", "-m", changing.name, "--model-url", changing.url, "-g", "8", "--max-tokens", "16", "t.jsonl")
    played = records(run_command(*load, cwd=tmp_path, no_proxy="127.0.0.1", OPENAI_API_KEY="").stdout)
    graded = "".join(json.dumps({**record, "reward": float(n % 2)}) + "\n" for n, record in enumerate(played))
    run_command(
        "mle-train-grpo", "--model", str(untied), "--lora-rank", "0", "--learning-rate", "1e-2", "--run-dir", "run",
        "--groups-per-step", "1", "--publish", "pub", "--publish-url", changing.url, cwd=tmp_path, input=graded.encode(),
    )  # fmt: skip
    model = HttpModel(changing.name, ServerOptions(changing.url, timeout=120, retries=1))
    (reply,) = model.sample([Request(ASK, 1, temperature=1.0, max_tokens=24, training=True)])
    assert reply.logprobs == pytest.approx(logprobs_of(tmp_path / "run" / "latest", reply), abs=1e-3)
    assert reply.logprobs != pytest.approx(logprobs_of(untied, reply), abs=1e-2)
    model.close()
