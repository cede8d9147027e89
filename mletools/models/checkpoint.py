"""A policy's folder, for the engines in this process: its parts, its version, the tokens of its prompts.

Covered: model folders, hub names, LoRA adapter folders; prompts that reuse the recorded token ids of earlier turns.
Not covered: loading weights (hf, vllm_engine).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.chat_template import Conversation
from ..base.errors import RecordError, ToolError
from ..base.hub import check_weights
from ..records.rollout import Message
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
    """The parts of the policy in `path`. ToolError: no such folder, files that are cut off, an adapter without a base."""
    folder = Path(path)
    if not folder.is_dir() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise ToolError(f"{path}: no such folder")
    config = folder / "adapter_config.json"
    base = base_of(config) if config.is_file() else path
    check_weights(folder)
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


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation, with the template's prompt for the assistant's next turn.

    Where the template tells the past as it was, the prompt goes on from the exact tokens that the policy was asked and
    sampled: the `prompt_token_ids` of the last message that has them, and the `token_ids` from there on. Where it tells it
    in another way (without earlier thoughts, say), all of its text is tokenised. Marks that a content spells are its
    text (chat_template). RecordError: a turn has ids, and what it was asked has none.
    """
    conversation = Conversation(tokenizer, messages)
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant" and message.get("token_ids")]
    rest = conversation.after(turns[-1]) if turns else None
    if rest is None:
        return conversation.token_ids(conversation.text(len(messages), True))
    begin = max((i for i in turns if messages[i].get("prompt_token_ids")), default=0)
    if begin == 0 and not any(message.get("token_ids") for message in messages[: turns[0]]):
        raise RecordError(f"message {turns[0]} has token_ids, but the messages before it have none")
    recorded = list(messages[begin].get("prompt_token_ids") or ())
    recorded += [token for message in messages[begin : turns[-1] + 1] for token in message.get("token_ids") or ()]
    end = tokenizer.convert_ids_to_tokens(recorded[-1])
    if end in tokenizer.all_special_tokens:
        rest = rest.removeprefix(end)
    return recorded + conversation.token_ids(rest)


def base_of(config: Path) -> str:
    """The base model that an adapter names: a folder beside it, a folder from the current directory, or a hub name."""
    try:
        base = json.loads(config.read_text()).get("base_model_name_or_path")
    except ValueError as error:
        raise ToolError(f"{config}: is no JSON ({error}): copy or save the adapter again") from error
    if not base:
        raise ToolError(f"{config}: names no base model (base_model_name_or_path)")
    for candidate in (config.parent.resolve() / base, Path(base)):
        if candidate.is_dir():
            return str(candidate.resolve())
    return str(base)
