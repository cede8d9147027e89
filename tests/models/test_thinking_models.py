"""Models that think, under templates that tell the past in ways of their own: played in turns, trained on."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from played import FAST, made_task
from player import Player
from thinking_model import (
    PLAYED,
    REWRITES,
    SAID,
    SAME,
    SPOKEN,
    TEMPLATES,
    arguments_of,
    check_played,
    check_steps,
    make_thinker,
    played_records,
    ready_to_play,
    rendered,
    tokenizer_of,
    weights_of,
)

pytest.importorskip("torch", reason="needs the [train] extra")

from mletools.models.checkpoint import prompt_ids
from mletools.training.samples import render, sample_of

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
AGAIN = {"role": "user", "content": "And now?"}
OPENED = "opens the thought and tells none"
# Scaffold and template: each of both once, and so on.
GRID = [(each, name) for shift in range(1, 7) for each, name in zip(PLAYED, (2 * [*TEMPLATES])[shift:], strict=False)]


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("thinkers")
    return cache(lambda name: make_thinker(folder / name.replace(" ", "-"), TEMPLATES[name]))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_what_the_template_tells_and_goes_on_from_what_was_sampled_where_that_is_the_same(
    name: str, thinker: Callable[[str], Path]
) -> None:
    tokenizer = tokenizer_of(thinker(name))
    prompt = prompt_ids(tokenizer, ASKED)
    assert tokenizer.decode(prompt) == rendered(tokenizer, ASKED)
    # Tokens that no text would give: the prompt goes on from them only where the template tells the answer as it was.
    opened = tokenizer.decode(prompt).endswith("<think>")
    answer = SAID.removeprefix("<think>") if opened else SAID
    sampled = [token for letter in answer for token in tokenizer(letter, add_special_tokens=False)["input_ids"]]
    sampled.append(tokenizer.eos_token_id)
    messages = [
        *ASKED[:1],
        {**ASKED[1], "token_ids": prompt},
        {"role": "assistant", "content": answer, "token_ids": sampled},
    ]
    ids = prompt_ids(tokenizer, [*messages, AGAIN])
    assert tokenizer.decode(ids) == rendered(tokenizer, [*messages, AGAIN])
    assert (ids[: len(prompt) + len(sampled)] == prompt + sampled) == (name not in REWRITES)
    # What was asked in another sequence goes on from that one.
    second = {"role": "assistant", "content": answer, "prompt_token_ids": ids, "token_ids": sampled}
    further = prompt_ids(tokenizer, [*messages, AGAIN, second, AGAIN])
    assert tokenizer.decode(further) == rendered(tokenizer, [*messages, AGAIN, second, AGAIN])
    assert (further[: len(ids) + len(sampled)] == ids + sampled) == (name not in REWRITES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_text_without_ids_is_trained_on_as_the_policy_would_be_asked_and_would_answer(
    name: str, thinker: Callable[[str], Path]
) -> None:
    tokenizer = tokenizer_of(thinker(name))
    messages = [*ASKED, {"role": "assistant", "content": SAID}, AGAIN, {"role": "assistant", "content": SAID}]
    sequences = render(messages, tokenizer)
    assert len(sequences) == (2 if name in REWRITES - {"inserts empty thoughts"} else 1)
    written = [
        tokenizer.decode([token for token, own in zip(each.input_ids, each.loss_mask, strict=True) if own])
        for each in sequences
    ]
    differently = {"inserts empty thoughts": "<think></think>" + SPOKEN, OPENED: SAID.removeprefix("<think>")}
    said = differently.get(name, SAID)
    assert "".join(written) == 2 * (said + "<|end|>")
    for sequence, asked in zip(sequences, (messages[:2], messages[:4]), strict=False):
        prompt = tokenizer.decode(sequence.input_ids[: sequence.prompt_length])
        assert prompt == rendered(tokenizer, asked)


def test_a_reasoning_that_a_server_took_off_is_what_the_prompts_tag_holds(thinker: Callable[[str], Path]) -> None:
    tokenizer = tokenizer_of(thinker(OPENED))
    for reasoning, thought in (("I look.", "I look."), (None, "")):
        answer = {"role": "assistant", "content": SPOKEN, **({"reasoning": reasoning} if reasoning else {})}
        (sequence,) = render([*ASKED, answer], tokenizer)
        told = tokenizer.decode(sequence.input_ids)
        assert told.endswith(f"<|assistant|><think>{thought}\n</think>\n\n{SPOKEN}<|end|>")


def test_calls_are_trained_on_as_the_template_tells_them_and_cannot_spell_its_marks(
    thinker: Callable[[str], Path],
) -> None:
    tokenizer = tokenizer_of(thinker("tells calls its own way"))
    call = {"type": "function", "function": {"name": "execute", "arguments": '{"code": "<|end|><|user|>"}'}}
    (sequence,) = render([*ASKED, {"role": "assistant", "content": "", "tool_calls": [{**call, "id": "a"}]}], tokenizer)
    own = [token for token, loss in zip(sequence.input_ids, sequence.loss_mask, strict=True) if loss]
    assert tokenizer.decode(own) == '[execute]{"code": "<|end|><|user|>"}<|end|>'
    assert [token for token in own if token in tokenizer.all_special_ids] == [tokenizer.eos_token_id]


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with Player("hf", sys.executable, dict(os.environ)) as process:
        yield process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_to_play(tmp_path_factory.mktemp("played"))


@pytest.fixture(scope="module")
def weights(thinker: Callable[[str], Path]) -> Any:
    return weights_of(thinker("keeps thoughts"))  # the same in all


@pytest.mark.parametrize("played", mostly_slow(GRID, 1), ids=lambda each: ", ".join(each))
@pytest.mark.slow
def test_what_is_played_is_what_was_sampled_and_each_sampled_token_is_trained_on_once(
    played: tuple[str, str], thinker: Callable[[str], Path], player: Player, folder: Path, weights: Any
) -> None:
    scaffold, name = played
    given = player.play(folder, "-m", f"hf:{thinker(name)}", *arguments_of(scaffold))
    made = played_records(folder, scaffold)
    found = check_played(made, tokenizer_of(thinker(name)), weights)
    of_no_node = 2 if scaffold == "search" else 0  # its plan's question, asked twice
    assert [answer[:2] for answer in found] == [answer[:2] for answer in given[of_no_node:]]
    if scaffold in ("react", "codeact"):
        assert [len(sample_of(record).sequences) for record in made] == [3 if name in REWRITES else 1]


@pytest.mark.nightly
def test_what_each_scaffold_plays_goes_into_steps_of_both_trainers(
    thinker: Callable[[str], Path], player: Player, folder: Path, tmp_path: Path
) -> None:
    played = []
    for scaffold, name in GRID[: len(PLAYED)]:
        player.play(folder, "-m", f"hf:{thinker(name)}", *arguments_of(scaffold))
        played += played_records(folder, scaffold)
    check_steps(tmp_path, thinker("keeps thoughts"), played)


def test_logprobs_of_answers_tell_a_prompt_by_its_marks(thinker: Callable[[str], Path], weights: Any) -> None:
    import torch

    tokenizer = tokenizer_of(thinker("keeps thoughts"))
    text = "All that is known of the task. " * 20
    prompt = prompt_ids(tokenizer, [*ASKED, {"role": "assistant", "content": SAID}, {"role": "user", "content": text}])
    said = tokenizer(SAID, add_special_tokens=False)["input_ids"]

    def score(prompt: list[int]) -> float:
        with torch.inference_mode():
            return float(weights(torch.tensor([prompt + said])).logits[0, -2].log_softmax(-1)[said[-1]])

    assert len(prompt) > 400
    marks = {*tokenizer.all_special_ids, *said}
    for place in [at for at, token in enumerate(prompt) if token in marks]:
        assert abs(score(prompt[:place] + prompt[place + 1 :]) - score(prompt)) > 3 * SAME


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_the_text_of_played_turns_is_taught_under_each_template(
    name: str, thinker: Callable[[str], Path], player: Player, folder: Path, tmp_path: Path
) -> None:
    from mletools.training.sft import SftOptions, SftRun

    player.play(folder, "-m", f"hf:{thinker(name)}", *arguments_of("react"))
    (made,) = played_records(folder, "react")
    plain = [{"role": each["role"], "content": each["content"]} for each in made["messages"]]
    sequences = render(plain, tokenizer_of(thinker(name)))
    options = SftOptions(batch=4, micro_batch=1, lora_rank=0)
    (step,) = SftRun(str(thinker(name)), tmp_path / "sft", options).train([{**made, "messages": plain}])
    assert (step["rollouts"], step["sequences"]) == (1, len(sequences))
    assert step["tokens"] == sum(each.loss_tokens for each in sequences) and step["grad_norm"] is not None


@pytest.mark.slow
def test_the_commands_of_both_trainers_take_played_turns(thinker: Callable[[str], Path], tmp_path: Path) -> None:
    model = thinker("drops earlier thoughts")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(made_task(tmp_path)) + "\n")
    played = (
        "mle-rollout",
        "--scaffold",
        "react",
        "-m",
        f"hf:{model}",
        "--max-turns",
        "2",
        "-g",
        "2",
        *FAST,
        "tasks.jsonl",
    )
    made = records(run_command(*played, cwd=tmp_path).stdout)
    rewarded = "".join(json.dumps({**record, "reward": float(at)}) + "\n" for at, record in enumerate(made)).encode()
    plain = [{"role": each["role"], "content": each["content"]} for each in made[0]["messages"]]
    taught = (json.dumps({**made[0], "messages": plain}) + "\n").encode()
    for command, input, rollouts in (
        (("mle-train-grpo", "--model", model, "--run-dir", "grpo", "--groups-per-step", "1"), rewarded, 2),
        (("mle-train-sft", "--model", model, "--run-dir", "sft", "--batch", "2"), taught, 1),
    ):
        (step, *_) = records(run_command(*map(str, command), "--lora-rank", "0", input=input, cwd=tmp_path).stdout)
        assert step["rollouts"] == rollouts and step["loss"] is not None and step["grad_norm"] is not None
