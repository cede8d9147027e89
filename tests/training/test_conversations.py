"""Lines of chat data as training data: what is read of them, and a step on them."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command

from mletools.base.errors import RecordError
from mletools.training.conversations import as_rollout

CALLS = [{"id": "c", "function": {"name": "add", "arguments": '{"to": 1}'}}]
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "what is "}, {"type": "text", "text": "1 + 1?"}]},
    {"role": "assistant", "content": None, "reasoning_content": "easy", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c", "content": "2"},
    {"role": "assistant", "content": "2"},
]


def test_messages_as_others_spell_them() -> None:
    told: Any = as_rollout(TALK)  # type: ignore[arg-type]
    assert [message["content"] for message in told["messages"]] == ["be brief", "what is 1 + 1?", "", "2", "2"]
    assert told["messages"][2]["reasoning"] == "easy" and told["messages"][3]["tool_call_id"] == "c"
    assert as_rollout([{"role": "developer", "content": "x"}, *TALK[1:]])["messages"][0]["role"] == "system"  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{"role": "user", "content": "x"}], "none is the assistant's"),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}, *TALK[4:]],
            r"messages\[0\].content has a part that is no text",
        ),
        *(
            (
                [{"role": "assistant", "content": "", "tool_calls": [*CALLS, call]}],
                r"messages\[0\].tool_calls\[1\]: a call is ",
            )
            for call in (
                {"name": "add", "arguments": {"to": 1}},
                {"function": {"name": "now"}},
                {"function": "now"},
                {"function": {"name": "add", "arguments": [1]}},
            )
        ),
    ],
)
def test_what_cannot_be_learnt_from(messages: Any, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        as_rollout(messages)


def test_wrong_lines_are_rejected_with_their_place(tmp_path: Path) -> None:
    lines: list[Any] = [{"messages": TALK}, {"messages": []}, {"messages": [{"role": "robot"}]}, {"text": "x"}]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run_command(
        "mle-train-sft", "--from-scratch", "tiny", "--run-dir", "run", "--max-rejects", "3", "--dry-run", "chat.jsonl",
        cwd=tmp_path,
    )  # fmt: skip
    told = done.stderr.decode()
    assert done.returncode == 0 and "would train tiny on 1 rollout for" in told, told
    assert (
        "chat.jsonl:2: messages" in told
        and "chat.jsonl:3: messages[0].role" in told
        and "chat.jsonl:4: no rollout" in told
    )


@pytest.mark.slow
def test_a_model_learns_from_them(tmp_path: Path) -> None:
    line = json.dumps({"messages": [TALK[0], {"role": "user", "content": "what is 1 + 1?"}, TALK[4]]})
    (tmp_path / "chat.jsonl").write_text(f"{line}\n" * 8)
    done = run_command(
        "mle-train-sft", "--from-scratch", "tiny", "--run-dir", "run", "--batch", "4", "--epochs", "6", "chat.jsonl", cwd=tmp_path
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    losses = [record["loss"] for record in records(done.stdout)]
    assert len(losses) == 12 and losses[-1] < losses[0]
