"""The stand-in model of the rehearsals recites its replies, with a vocabulary of whole words."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from conftest import ROOT

from mletools import prompts

FILLER = "A task about 17 essays, which says nothing of what is asked for.\n" * 20


class Words:
    """A tokenizer of words, digits, and runs of signs."""

    eos_token_id = 0

    def __init__(self) -> None:
        self.known = {"<|im_end|>": 0}

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        parts = re.findall(r"<\|\w+\|>| ?[A-Za-z_]+|[0-9]| ?[^\sA-Za-z0-9_]+|\s", text)
        return {"input_ids": [self.known.setdefault(part, len(self.known)) for part in parts]}

    def __len__(self) -> int:
        return 8000

    def decode(self, tokens: list[int]) -> str:
        texts = list(self.known)
        return "".join(texts[token] for token in tokens)

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool) -> str:
        assert add_generation_prompt and not tokenize
        parts = [f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages]
        return "".join(parts) + "<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def examples() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "examples"))
    import rehearsal_model

    yield rehearsal_model
    sys.path.remove(str(ROOT / "examples"))


@pytest.fixture(scope="module")
def model(examples: Any) -> tuple[Any, Words]:
    tokenizer = Words()
    return examples.stand_in(tokenizer, bos_token_id=0), tokenizer


def prompted(name: str, *later: tuple[str, str]) -> list[dict[str, str]]:
    role = "system" if name.endswith("-system") else "user"
    messages = [(role, re.sub(r"\{\{.*?\}\}", FILLER, prompts.text(name))), ("user", FILLER), *later]
    return [{"role": role, "content": content} for role, content in messages]


def least_likely(examples: Any, model: tuple[Any, Words], messages: list[dict[str, str]], text: str) -> float:
    """The smallest probability of a token of the reply, in terms of what it should be; a choice is its first word."""
    import torch

    network, tokenizer = model
    before = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    begin = tokenizer(before, add_special_tokens=False)["input_ids"]
    wanted = [*examples.choices(tokenizer, text), ((tokenizer.eos_token_id, 1.0),)]
    ids = [*begin, *(choice[0][0] for choice in wanted)]
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0, len(begin) - 1 : -1]
    probabilities = logits.softmax(1)
    return min(
        float(of_all[token]) / probability
        for of_all, choice in zip(probabilities, wanted, strict=True)
        for token, probability in choice
    )


def check(examples: Any, model: tuple[Any, Words], messages: Any, replies: Sequence[tuple[float, str]]) -> None:
    """That each reply comes at least half as often as it should: the codes of choices are not quite independent."""
    total = sum(weight for weight, _ in replies)
    for weight, text in replies:
        share = least_likely(examples, model, messages, text)
        assert share > 0.5 * weight / total, (messages[0]["content"][-60:], text, share)


@pytest.mark.slow
def test_it_recites_each_reply_to_each_prompt(examples: Any, model: tuple[Any, Words]) -> None:
    for name, replies in examples.REPLIES.items():
        check(examples, model, prompted(name), replies.first)


@pytest.mark.slow
def test_a_score_in_the_context_decides_the_next_turn(examples: Any, model: tuple[Any, Words]) -> None:
    score = ("user", "The program ended.\n\nsubmission.csv is valid. The score on the validation rows: 0.5.")
    for name in ("react-system", "codeact-system", "memory-system"):
        replies = examples.REPLIES[name]
        begun = ("assistant", replies.first[0][1].replace("<<digit>>", "7"))
        check(examples, model, prompted(name, begun, score), replies.scored)
        check(examples, model, prompted(name, begun, ("user", "The program failed.")), replies.first)


@pytest.mark.slow
def test_without_a_known_prompt_the_reply_is_empty(examples: Any, model: tuple[Any, Words]) -> None:
    assert least_likely(examples, model, [{"role": "user", "content": FILLER}], "") > 0.9


def test_its_template_drops_what_was_thought_before_the_last_question(examples: Any) -> None:
    jinja2 = pytest.importorskip("jinja2", reason="needs the [train] extra")
    thought = "<think>\nHm.\n</think>\n\nYes."
    messages = [("user", "One?"), ("assistant", thought), ("user", "Two?"), ("assistant", thought)]
    told = [{"role": role, "content": content} for role, content in messages]
    text = jinja2.Template(examples.TEMPLATE).render(messages=told, add_generation_prompt=True)
    assert text.split("<|im_end|>\n") == [
        "<|im_start|>user\nOne?", "<|im_start|>assistant\nYes.", "<|im_start|>user\nTwo?",
        f"<|im_start|>assistant\n{thought}", "<|im_start|>assistant\n",
    ]  # fmt: skip
    # all that a policy says in turns begins with a thought
    for name in ("single", "codeact-system", "memory-system", "react-system", "ideator"):
        of_prompt = examples.REPLIES[name]
        said = [text for _, text in (*of_prompt.first, *of_prompt.scored) if text != "There is nothing to be done."]
        assert all(text.startswith("<think>") for text in said), name


def test_replies_that_go_on_in_two_ways_are_refused(examples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = "a b c d e f g h i j k l m n"
    replies = examples.REPLIES["single"]._replace(first=[(1.0, f"{twice}. {twice}!")])
    monkeypatch.setattr(examples, "REPLIES", {"single": replies})
    with pytest.raises(SystemExit, match="go on in two ways after the same 12 tokens"):
        examples.continuations(Words())


def test_each_prompt_has_words_that_no_other_has(examples: Any) -> None:
    runs = examples.markers(Words())
    assert len(runs) == len(examples.REPLIES) + 1 and len(examples.REPLIES) < examples.FLAGS
