"""A policy's folder, for the engines in this process: its parts, its version, the tokens of its prompts.

Covered: model folders, hub names, LoRA adapter folders; prompts that reuse the recorded token ids of earlier turns.
Not covered: loading weights (hf, vllm_engine).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..records.chat_template import Conversation
from ..records.errors import RecordError, ToolError
from . import ContextExceeded, Request


@dataclass(frozen=True)
class Checkpoint:
    """base: folder or hub name of the model; adapter: the LoRA folder, or None; tokenizer: its folder or hub name.

    version: the policy_version of the folder's state.json, None without one.
    """

    base: str
    adapter: str | None
    tokenizer: str
    version: int | None


def find_checkpoint(path: str) -> Checkpoint:
    """The parts of the policy in `path`. ToolError: no such folder, or an adapter that names no base."""
    folder = Path(path)
    if not folder.is_dir() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise ToolError(f"{path}: no such folder")
    config = folder / "adapter_config.json"
    base = _base(config) if config.is_file() else path
    state = folder / "state.json"
    return Checkpoint(
        base,
        path if config.is_file() else None,
        path if (folder / "tokenizer_config.json").is_file() else base,
        json.loads(state.read_text()).get("policy_version") if state.is_file() else None,
    )


def check_context(prompts: Sequence[Sequence[int]], requests: Sequence[Request], context: int | None) -> None:
    """Raise ContextExceeded for the first prompt that exceeds `context` with its `max_tokens` (None: no bound)."""
    for index, (prompt, request) in enumerate(zip(prompts, requests, strict=True)):
        if context is not None and len(prompt) + request.max_tokens > context:
            error = ContextExceeded(
                f"the prompt has {len(prompt)} tokens, which with {request.max_tokens} for the answer is over "
                f"the model's context of {context}: shorten the task's text, or allow fewer tokens"
            )
            error.index = index
            raise error


def prompt_ids(tokenizer: Any, messages: Sequence[dict[str, Any]]) -> list[int]:
    """Token ids of a conversation, with the template's prompt for the assistant's next turn.

    Recorded `token_ids` of messages are used up to the last assistant turn that has them; only the text after that turn
    is tokenised, so that the prompt continues the exact tokens that the policy sampled. Marks that a content spells are
    its text (chat_template). RecordError: the first such turn's own prompt has no ids.
    """
    conversation = Conversation(tokenizer, messages)
    text = conversation.text(len(messages), True)
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant" and message.get("token_ids")]
    if not turns:
        return conversation.token_ids(text)
    if not any(message.get("token_ids") for message in messages[: turns[0]]):
        raise RecordError(f"message {turns[0]} has token_ids, but the messages before it have none")
    past = turns[-1] + 1
    recorded = [token for message in messages[:past] for token in message.get("token_ids") or ()]
    rendered = conversation.text(past, False)
    if not text.startswith(rendered):
        raise RecordError("the chat template rewrites earlier turns, so a prompt cannot continue the recorded tokens")
    end = tokenizer.eos_token
    suffix = rendered[rendered.rindex(end) :] if end and end in rendered else ""
    if suffix and recorded[-1] == tokenizer.eos_token_id:
        suffix = suffix[len(end) :]
    return recorded + conversation.token_ids(suffix + text[len(rendered) :])


def _base(config: Path) -> str:
    """The base model that an adapter names: a folder beside it, a folder from the current directory, or a hub name."""
    base = json.loads(config.read_text()).get("base_model_name_or_path")
    if not base:
        raise ToolError(f"{config}: names no base model (base_model_name_or_path)")
    for candidate in (config.parent.resolve() / base, Path(base)):
        if candidate.is_dir():
            return str(candidate.resolve())
    return str(base)
