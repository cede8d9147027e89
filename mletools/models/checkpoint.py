"""What the engines in this process share about a policy's folder: where its parts lie, its version, its prompts' tokens.

Covered: model folders, hub names, LoRA adapter folders; turns that go on from recorded token ids.
Not covered: loading weights (hf, vllm_engine).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..records.errors import RecordError, ToolError
from . import ContextExceeded, Request


@dataclass(frozen=True)
class Checkpoint:
    """base: folder or hub name of the model; adapter: the LoRA folder on top of it, or None; tokenizer: where that is.

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
    """Raises ContextExceeded of the first whose prompt and answer may have more tokens than `context` (None: no bound)."""
    for index, (prompt, request) in enumerate(zip(prompts, requests, strict=True)):
        if context is not None and len(prompt) + request.max_tokens > context:
            error = ContextExceeded(
                f"the prompt has {len(prompt)} tokens, which with {request.max_tokens} for the answer is over "
                f"the model's context of {context}: shorten the task's text, or allow fewer tokens"
            )
            error.index = index
            raise error


def prompt_ids(tokenizer: Any, messages: Sequence[dict[str, Any]]) -> list[int]:
    """Token ids of a conversation up to the point where the assistant speaks.

    Messages that carry token_ids up to an assistant's turn are taken as they are, and only what the template adds
    after that turn is tokenised, so that the policy reads on from exactly what it wrote.
    """
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    whole = _templated(tokenizer, plain, True)
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant" and message.get("token_ids")]
    if not turns:
        return _token_ids(tokenizer, whole)
    past = turns[-1] + 1
    known = [token for message in messages[:past] for token in message.get("token_ids") or ()]
    rendered = _templated(tokenizer, plain[:past], False)
    if not whole.startswith(rendered):
        raise RecordError("the chat template rewrites earlier turns, so the recorded token ids cannot be gone on from")
    end = tokenizer.eos_token
    spoken = rendered[rendered.rindex(end) :] if end and end in rendered else ""
    if spoken and known[-1] == tokenizer.eos_token_id:
        spoken = spoken[len(end) :]
    return known + _token_ids(tokenizer, spoken + whole[len(rendered) :])


def _token_ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _templated(tokenizer: Any, messages: list[dict[str, Any]], ask: bool) -> str:
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask))
    except (TemplateError, ValueError) as error:
        raise RecordError(f"the model's chat template refuses the messages: {error}") from error


def _base(config: Path) -> str:
    """The base model that an adapter names: a folder beside it, a folder from the current directory, or a hub name."""
    base = json.loads(config.read_text()).get("base_model_name_or_path")
    if not base:
        raise ToolError(f"{config}: names no base model (base_model_name_or_path)")
    for candidate in (config.parent.resolve() / base, Path(base)):
        if candidate.is_dir():
            return str(candidate.resolve())
    return str(base)
