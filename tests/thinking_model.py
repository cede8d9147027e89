"""A model that thinks, whatever it is asked, and chat templates that tell its past in ways of their own.

Its next token follows from the last one alone: it is made, not trained. The templates have the traits of those of real
families: earlier thoughts are dropped, at the next question or at once; a prompt opens the thought; an answer without a
thought gets an empty one; the system prompt goes to the last question; tool calls have a form of their own.
"""

from pathlib import Path

THOUGHT, SPOKEN = "<think>Look first</think>", "Then act."
SAID = THOUGHT + SPOKEN
_PARTS = ("<think>", "Look first", "</think>", SPOKEN, "\n")

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
    """A model folder whose answers are SAID; where the prompt has opened the thought, what follows `<think>`."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    from mletools.training import tiny

    tiny.PRESETS["thinker"] = {"vocab": 384, "hidden": 384, "layers": 1, "heads": 1, "inner": 8, "context": 16384}
    try:
        tiny.make_tiny([{"messages": [{"content": part} for part in _PARTS]}] * 2, folder, "thinker")
    finally:
        del tiny.PRESETS["thinker"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, tie_word_embeddings=False)
    said = tokenizer(SAID, add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(said[0]) == "<think>" and len(set(said)) == len(said)
    size = len(tokenizer)
    following = torch.full((size,), tokenizer.eos_token_id)
    chain = [tokenizer.convert_tokens_to_ids("<|assistant|>"), *said]
    following[chain[:-1]] = torch.tensor(chain[1:])
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, model.config.hidden_size))
        model.lm_head.weight[following, torch.arange(size)] = 10.0
    model.save_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder
