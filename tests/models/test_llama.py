"""GGUF files in llama.cpp's engine: exact tokens and log-probabilities, JSON under a grammar, and all that can end it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from hypothesis import given
from hypothesis import strategies as st
from played import made_task

from mletools.base.errors import ToolError
from mletools.models import ContextExceeded, Request, ServerOptions, check_model, open_model
from mletools.models.gguf_header import read_header

pytest.importorskip("xllamacpp", reason="needs the [local] extra")
pytest.importorskip("gguf", reason="writes a GGUF file")
from tiny_gguf import CONTEXT, SPECIAL, write_tiny_gguf

from mletools.models.llama import SLOTS, context_of

BEGIN, END = 256, 257


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def model(file: Path) -> Iterator[Any]:
    opened = open_model(f"llama:{file}")
    yield opened
    opened.close()


def asked(content: str = "hi", **more: Any) -> Request:
    return Request([{"role": "user", "content": content}], **{"seed": 1, "max_tokens": 24, **more})


def prompt_of(content: str) -> list[int]:
    return [BEGIN, *f"user\n{content}".encode(), END, 10, BEGIN, *b"assistant\n"]


def test_prompt_and_answer_are_exact_tokens(model: Any) -> None:
    replies = [model.sample([asked(seed=seed)])[0] for seed in range(8)]
    for reply in replies:
        assert reply.prompt_token_ids == prompt_of("hi") and reply.prompt_tokens == len(reply.prompt_token_ids)
        ended = reply.token_ids[-1] == END
        assert bytes(reply.token_ids[: -1 if ended else None]).decode(errors="replace") == reply.text
        assert reply.finish_reason == ("stop" if ended else "length")
        assert reply.completion_tokens == len(reply.token_ids) == (24 if not ended else reply.completion_tokens)
        assert reply.logprobs is None or len(reply.logprobs) == len(reply.token_ids)
    assert len({reply.text for reply in replies}) > 4


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.3, 0.8)])
def test_logprobs_are_those_of_the_sampling_distribution(
    model: Any, file: Path, temperature: float, top_p: float
) -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    weights = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    compared = 0
    for seed in range(40):
        (reply,) = model.sample([asked(seed=seed, max_tokens=2, temperature=temperature, top_p=top_p)])
        if reply.logprobs is None:
            continue
        ids = [*reply.prompt_token_ids, *reply.token_ids]
        with torch.no_grad():
            logits = weights(torch.tensor([ids])).logits[0, len(reply.prompt_token_ids) - 1 : -1] / temperature
        probabilities = logits.double().softmax(-1)
        for row, token, logprob in zip(probabilities, reply.token_ids, reply.logprobs, strict=True):
            ordered, order = row.sort(descending=True)
            before = ordered.cumsum(0) - ordered
            kept = torch.zeros_like(row)
            kept[order[before < top_p]] = row[order[before < top_p]]
            assert logprob == pytest.approx(float((kept / kept.sum())[token].log()), abs=0.02)
            compared += 1
    assert compared > 20


def test_an_answer_that_was_sampled_stays_the_tokens_that_it_was(model: Any) -> None:
    (first,) = model.sample([asked(seed=3)])
    said = {"role": "assistant", "content": first.text, "token_ids": first.token_ids}
    said["prompt_token_ids"] = first.prompt_token_ids
    messages = [{"role": "user", "content": "hi"}, said, {"role": "user", "content": "more"}]
    (second,) = model.sample([Request(messages, seed=1, max_tokens=4)])
    whole = [*first.prompt_token_ids, *first.token_ids]
    assert second.prompt_token_ids[: len(whole)] == whole
    assert second.prompt_token_ids[-len(prompt_of("more")) :] == prompt_of("more")


def test_a_mark_in_a_content_is_its_characters(model: Any) -> None:
    (reply,) = model.sample([asked(f"a{SPECIAL[1]}b")])
    assert reply.prompt_token_ids == prompt_of(f"a{SPECIAL[1]}b") and reply.prompt_token_ids.count(END) == 1


def test_json_is_kept_to_its_schema_unless_it_is_trained_on(model: Any, file: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    whole = 0
    for seed in range(6):
        (reply,) = model.sample([asked(seed=seed, max_tokens=250, schema=schema)])
        assert reply.text.lstrip().startswith("{")
        if reply.finish_reason == "stop":
            answer = json.loads(reply.text)
            whole += list(answer) == ["reasoning", "a"] and isinstance(answer["a"], int)
    assert whole
    (free,) = model.sample([asked(schema={})])  # of any object, which a small model would end behind its reasoning
    assert free.prompt_token_ids == prompt_of("hi")
    (free,) = model.sample([asked(schema=schema, training=True)])
    assert free.prompt_token_ids == prompt_of("hi")
    off = open_model(f"llama:{file}", ServerOptions(structured="off"))
    assert off.sample([asked(schema=schema)])[0].prompt_token_ids == prompt_of("hi")
    off.close()


def test_many_ask_at_once_and_stop_texts_end_an_answer(model: Any) -> None:
    with ThreadPoolExecutor(3 * SLOTS) as pool:
        replies = list(pool.map(lambda seed: model.sample([asked(seed=seed, stop=("a", "e"))])[0], range(3 * SLOTS)))
    assert all("a" not in reply.text and "e" not in reply.text for reply in replies)
    assert {reply.finish_reason for reply in replies} == {"stop", "length"}


def test_a_prompt_over_the_context_is_refused_before_it_is_computed(model: Any) -> None:
    with pytest.raises(ContextExceeded, match=f"over the model's context of {CONTEXT}"):
        model.sample([asked("x" * CONTEXT)])
    with pytest.raises(ToolError, match="leave --tool-calls at tags"):
        model.sample([asked(tools=[{"type": "function", "function": {"name": "f"}}])])


def test_an_engine_that_is_killed_says_so(file: Path) -> None:
    model: Any = open_model(f"llama:{file}")
    model._child.send_signal(signal.SIGKILL)
    with pytest.raises(ToolError, match=r"tiny.gguf: the engine has ended: .*killed by signal 9"):
        model.sample([asked()])
    model.close()


def test_the_engine_ends_with_a_command_that_was_killed(file: Path) -> None:
    code = (
        "import sys, time; from mletools.models import open_model; model = open_model(sys.argv[1]);"
        " print(model._child.pid, flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", code, f"llama:{file}"], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        command.kill()
    end = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_files_that_cannot_be_loaded(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for name, content, said in (
        ("config.json", b"{}", "is no GGUF file"),
        ("empty.gguf", b"", "is no GGUF file"),
        ("head.gguf", whole[:100], "its head cannot be read"),
        ("cut.gguf", whole[: len(whole) // 2], "cannot be loaded: .*"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ToolError, match=said):
            open_model(f"llama:{tmp_path / name}")
    with pytest.raises(ToolError, match="No such file or directory: llama needs a GGUF file"):
        check_model(f"llama:{tmp_path / 'none.gguf'}", None)  # type: ignore[arg-type]
    with pytest.raises(ToolError, match=r"llama needs a GGUF file, e\.g\."):
        open_model("llama:")
    with pytest.raises(ToolError, match=r"x\.gguf: a GGUF file is run as llama:x\.gguf"):
        open_model("x.gguf")


@given(st.integers(4, 3000), st.integers(0, 255), st.integers(4, 8000))
def test_a_head_with_faults_is_read_or_refused(file: Path, at: int, byte: int, length: int) -> None:
    content = bytearray(file.read_bytes()[: max(at + 1, length)])
    content[at] = byte
    broken = file.with_name(f"broken-{os.getpid()}.gguf")
    broken.write_bytes(content)
    try:
        read_header(str(broken))
    except ToolError as error:
        assert "head cannot be read" in str(error)


def test_the_context_is_what_the_memory_has_room_for() -> None:
    header = {"general.architecture": "qwen2", "qwen2.context_length": 131_072, "qwen2.embedding_length": 896,
              "qwen2.attention.head_count": 14, "qwen2.attention.head_count_kv": 2}  # fmt: skip
    assert context_of({**header, "qwen2.block_count": 1}) == 32_768
    assert context_of({**header, "qwen2.block_count": 10**6}) == 2048
    assert context_of({**header, "qwen2.block_count": 1, "qwen2.context_length": 4096}) == 4096


def test_the_command_plays_it(file: Path, tmp_path: Path) -> None:
    task = made_task(tmp_path)
    task["description"] = "Predict y."
    line = json.dumps(task).encode() + b"\n"
    done = run_command(
        "mle-rollout", "-m", f"llama:{file}", "-g", "3", "-j", "3", "--max-tokens", "20", "--prompt", "p.md",
        input=line, cwd=with_prompt(tmp_path),
    )  # fmt: skip
    found = records(done.stdout)
    assert len(found) == 3 and {record["policy"]["model"] for record in found} == {f"llama:{file}"}
    assert all(record["messages"][-1]["token_ids"] for record in found)
    follow = run_command("mle-rollout", "-m", "llama:x.gguf", "--follow", "pub", input=line, cwd=tmp_path, check=False)
    assert b"loads no published policy" in follow.stderr


def with_prompt(folder: Path) -> Path:
    (folder / "p.md").write_text("{{name}}")
    return folder
