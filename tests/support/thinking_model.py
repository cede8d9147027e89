"""A model that thinks, whatever it is asked, and chat templates that tell its past in ways of their own.

Its next token follows from the last one; which of three endings an answer has, from all tokens before. So the logprobs of
endings tell which prompt they were sampled from. It is made, not trained. The templates have the traits of those of real
families: earlier thoughts are dropped, at the next question or at once; a prompt opens the thought; an answer without a
thought gets an empty one; the system prompt goes to the last question; tool calls have a form of their own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from played import FAST, made_task
from played_checks import answers
from player import Given

THOUGHT, SPOKEN = "<think>Look first</think>", "Then act."
SAID = THOUGHT + SPOKEN
# Of react: a program that fails. Tokens span no digits.
CALL = '<tool_call>{"name": "PythonInterpreter", "arguments": {"code": "x"}}</tool_call>'
SAME = 1e-4  # logprobs of two engines, which sum in another order
ENDINGS = (SPOKEN, "Or wait.", CALL)
_PARTS = ("<think>", "Look first", "</think>", *ENDINGS, "\n")

_ANSWER = "{{ '<|assistant|>' + %s + '<|end|>' }}"
_OTHER = "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
_ASK = "{% if add_generation_prompt %}{{ '<|assistant|>PROMPT' }}{% endif %}"
_SPOKEN = "m['content'].split('</think>')[-1]"


def _template(answer: str, other: str = _OTHER, opened: str = "", before: str = "") -> str:
    loop = f"{{% for m in messages %}}{{% if m['role'] == 'assistant' %}}{answer}{{% else %}}{other}{{% endif %}}{{% endfor %}}"
    last = "{% set asked = namespace(at=0) %}{% for m in messages %}{% if m['role'] == 'user' %}"
    last += "{% set asked.at = loop.index0 %}{% endif %}{% endfor %}"
    return last + before + loop + _ASK.replace("PROMPT", opened)


TEMPLATES = {
    "keeps thoughts": _template(_ANSWER % "m['content']"),
    "drops earlier thoughts": _template(
        "{% if loop.index0 > asked.at %}" + _ANSWER % "m['content']" + "{% else %}" + _ANSWER % _SPOKEN + "{% endif %}"
    ),
    "opens the thought and tells none": _template(_ANSWER % _SPOKEN, opened="<think>"),
    "inserts empty thoughts": _template(_ANSWER % f"'<think></think>' + {_SPOKEN}"),
    "moves the system prompt": _template(
        _ANSWER % "m['content']",
        "{% if m['role'] != 'system' %}{{ '<|' + m['role'] + '|>' }}{% if loop.index0 == asked.at and messages[0]['role'] == "
        "'system' %}{{ messages[0]['content'] }}{% endif %}{{ m['content'] + '<|end|>' }}{% endif %}",
    ),
    "tells calls its own way": _template(
        "{{ '<|assistant|>' + m['content'] }}{% for call in m['tool_calls'] or [] %}"
        "{{ '[' + call.function.name + ']' + (call.function.arguments | tojson) }}{% endfor %}{{ '<|end|>' }}"
    ),
}
REWRITES = {
    "drops earlier thoughts",
    "opens the thought and tells none",
    "inserts empty thoughts",
    "moves the system prompt",
}


def make_thinker(folder: Path, template: str) -> Path:
    """A model folder whose answers are THOUGHT and one of ENDINGS; where the prompt has opened the thought, the rest of it."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    from mletools.training import tiny

    tiny.PRESETS["thinker"] = {"vocab": 480, "hidden": 512, "layers": 1, "heads": 4, "inner": 8, "context": 16384}
    try:
        tiny.make_tiny([{"messages": [{"content": part} for part in _PARTS]}] * 2, folder, "thinker")
    finally:
        del tiny.PRESETS["thinker"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, tie_word_embeddings=False)
    said = tokenizer(THOUGHT, add_special_tokens=False)["input_ids"]
    endings = [tokenizer(ending, add_special_tokens=False)["input_ids"] for ending in ENDINGS]
    assert tokenizer.convert_ids_to_tokens(said[0]) == "<think>" and len(said) == 3
    assert [len(ending) for ending in endings] == [1] * len(ENDINGS)
    size, width, count = len(tokenizer), model.config.hidden_size, len(ENDINGS)
    following = torch.full((size,), tokenizer.eos_token_id)
    chain = [tokenizer.convert_tokens_to_ids("<|assistant|>"), *said]
    following[chain[:-1]] = torch.tensor(chain[1:])
    # Attention is the mean over all tokens of what each says of the endings: marks and phrases far more than letters.
    says = torch.randn(count, size, generator=torch.Generator().manual_seed(366))  # no ending is rare
    says *= torch.tensor([0.1 if len(token) == 1 else 60.0 for token in tokenizer.convert_ids_to_tokens(range(size))])
    layer = model.model.layers[0]
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, width))
        layer.self_attn.v_proj.weight[:count, :size] = says / width**0.5
        layer.self_attn.o_proj.weight[size : size + count, :count] = torch.eye(count)
        model.lm_head.weight[following, torch.arange(size)] = 10.0
        model.lm_head.weight[following[said[-1]], said[-1]] = 0.0
        for place, (ending,) in enumerate(endings):
            model.lm_head.weight[ending, said[-1]] = 10.0
            model.lm_head.weight[ending, size + place] = 0.2
    model.save_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def rendered(tokenizer: Any, messages: Iterable[Mapping[str, Any]]) -> str:
    """The prompt that the tokenizer's template makes of the messages, with calls as templates want them."""
    told = []
    for message in messages:
        told.append({name: message[name] for name in ("role", "content", "tool_call_id") if name in message})
        if calls := message.get("tool_calls"):
            functions = [{**each["function"], "arguments": json.loads(each["function"]["arguments"])} for each in calls]
            told[-1]["tool_calls"] = [{**each, "function": of} for each, of in zip(calls, functions, strict=True)]
    return str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))


def check_played(records: Iterable[Mapping[str, Any]], tokenizer: Any, model: Any) -> list[Given]:
    """Records hold what was sampled, after the prompts that the template makes, and train each sampled token once.

    The logprobs are those of transformers' `model` after the recorded prompts. Returns (prompt, sampled tokens, logprobs) of
    each answer, in order.
    """
    import torch

    from mletools.training.samples import sample_of

    found = []
    for record in records:
        own: list[Given] = []
        for turn, message, prompt, shown in answers(record):
            ids, usage = message["token_ids"], turn.get("usage", record["usage"])
            assert tokenizer.decode(prompt) == rendered(tokenizer, shown)
            if not message.get("tool_calls"):
                assert tokenizer.decode(ids, skip_special_tokens=True) == message["content"]
            assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len(prompt), len(ids))
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + ids]), logits_to_keep=len(ids) + 1).logits[0, :-1]
            expected = logits.log_softmax(-1)[range(len(ids)), ids].tolist()
            assert message["logprobs"] == pytest.approx(expected, abs=SAME) and len(message["logprobs"]) == len(ids)
            own.append((prompt, ids, message["logprobs"]))
        sequences = sample_of(dict(record)).sequences
        assert len(sequences) == 1 + sum("prompt_token_ids" in message for message in record["messages"])
        trained = [token for each in sequences for token in each.loss_of(each.input_ids)]
        assert trained == [token for _, ids, _ in own for token in ids]
        scores = [score for each in sequences for score in each.loss_of(each.logprobs or ())]
        assert scores == [score for _, _, logprobs in own for score in logprobs]
        found += own
    return found


def weights_of(folder: Path) -> Any:
    """The folder's model, in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def tokenizer_of(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


SHORT = ("--max-answer-tokens", "20")
TURNS = ("--max-turns", "3", *SHORT)
# What each scaffold is played with: its options; each record of react and codeact has three answers.
PLAYED = {
    "react": TURNS,
    "codeact": TURNS,
    "single": ("--max-tokens", "20"),
    "idea": ("--implementer", "scripted", *SHORT),
    "search": ("--preset", "rd-agent", "--max-turns", "1", "--write-steps", "steps.jsonl", *SHORT),
    "memory": (*TURNS, "--max-traces", "2"),
}


def ready_to_play(folder: Path) -> Path:
    """`folder`, with a task, and for `idea` a state to begin from."""
    (folder / "tasks.jsonl").write_text(json.dumps(made_task(folder)) + "\n")
    asks = ("--scaffold", "codeact", "--ideator", "null", "--write-states", "states.jsonl", "-g", "3", *FAST)
    run_command("mle-rollout", *asks, "-o", "asked.jsonl", "tasks.jsonl", cwd=folder)
    states = (folder / "states.jsonl").read_text().splitlines(keepends=True)
    (folder / "states.jsonl").write_text(states[0])
    return folder


def arguments_of(scaffold: str) -> tuple[str, ...]:
    """Of mle-rollout in a folder that is ready, but for the model; what is played is in `played_records`."""
    tasks = "states.jsonl" if scaffold == "idea" else "tasks.jsonl"
    return ("--scaffold", scaffold, *PLAYED[scaffold], *FAST, "-o", "out.jsonl", "--force", tasks)


def played_records(folder: Path, scaffold: str) -> list[dict[str, Any]]:
    """The records of the policy's answers: rollouts, of a search its steps."""
    found = records((folder / ("steps.jsonl" if scaffold == "search" else "out.jsonl")).read_bytes())
    assert found
    return found


def check_steps(folder: Path, model: Path, played: Sequence[Mapping[str, Any]]) -> None:
    """The records go into one step of each trainer, in sequences; the sampler's probabilities are the trainer's."""
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.samples import sample_of
    from mletools.training.sft import SftOptions, SftRun

    # in groups of two, whose rewards differ
    pairs = played[: len(played) // 2 * 2]
    rewarded = [
        {**record, "id": str(at), "group": str(at // 2), "group_size": 2, "sample": at % 2, "reward": float(at % 2)}
        for at, record in enumerate(pairs)
    ]
    of_grpo, of_sft = (
        (len(given), sum(len(sample_of(dict(each)).sequences) for each in given)) for given in (rewarded, played)
    )
    options = GrpoOptions(groups_per_step=len(pairs) // 2, lora_rank=0, largest_ratio=1.001)
    (step,) = GrpoRun(str(model), folder / "grpo", options).train(rewarded)
    assert (step["rollouts"], step["sequences"]) == of_grpo and step["largest_ratio"] == pytest.approx(1, abs=1e-3)
    assert step["tokens"] == sum(sample_of(dict(each)).loss_tokens for each in pairs)
    (taught,) = SftRun(str(model), folder / "sft", SftOptions(batch=of_sft[1], micro_batch=1, lora_rank=0)).train(
        map(dict, played)
    )
    assert (taught["rollouts"], taught["sequences"]) == of_sft
    assert taught["tokens"] == sum(sample_of(dict(each)).loss_tokens for each in played)
