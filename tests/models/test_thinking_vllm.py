"""Models that think, under templates that tell the past in ways of their own, played with vLLM: in process, and its server.

One engine and one server play all templates: the weights are the same, and a request to the server names its template.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from model_server import RealServer, real_server, vllm_environment, vllm_python
from player import Given, Player

pytestmark = pytest.mark.nightly  # in process, with transformers: test_thinking_models.py
pytest.importorskip("torch", reason="needs the [train] extra")

from thinking_model import (  # noqa: E402
    REWRITES,
    TEMPLATES,
    arguments_of,
    check_played,
    check_steps,
    make_thinker,
    played_records,
    ready_to_play,
    tokenizer_of,
    weights_of,
)

from mletools.training.samples import sample_of  # noqa: E402

Record = dict[str, Any]
Play = Callable[[str, str], tuple[list[Record], list[Given]]]
SCAFFOLDS = ("react", "codeact", "memory")
GRID = list(itertools.product(SCAFFOLDS, TEMPLATES))


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("thinkers")
    return cache(lambda name: make_thinker(folder / name.replace(" ", "-"), TEMPLATES[name]))


@pytest.fixture(scope="module")
def weights(thinker: Callable[[str], Path]) -> Any:
    return weights_of(thinker("keeps thoughts"))  # the same in all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_to_play(tmp_path_factory.mktemp("played"))


@pytest.fixture(scope="module")
def in_process(thinker: Callable[[str], Path], folder: Path) -> Iterator[Play]:
    environment = vllm_environment()

    @cache
    def play(scaffold: str, name: str) -> tuple[list[Record], list[Given]]:
        given = player.play(folder, "-m", f"vllm:{thinker(name)}", *arguments_of(scaffold))
        return played_records(folder, scaffold), given

    with Player("vllm", vllm_python(), environment) as player:
        yield play


@pytest.fixture(scope="module")
def server(thinker: Callable[[str], Path]) -> Iterator[RealServer]:
    with real_server(thinker("keeps thoughts"), "--trust-request-chat-template") as found:
        yield found


def ask_server(server: RealServer, folder: Path, scaffold: str, name: str, *options: str) -> list[Record]:
    of_server = ("-m", server.name, "--model-url", server.url, "--processed-logprobs", *options)
    template = ("--model-option", f"chat_template={json.dumps(TEMPLATES[name])}")
    command = ("mle-rollout", *of_server, *template, *arguments_of(scaffold))
    run_command(*command, cwd=folder, no_proxy="127.0.0.1", OPENAI_API_KEY="")
    return played_records(folder, scaffold)


@pytest.fixture(scope="module")
def served(server: RealServer, folder: Path) -> Play:
    return cache(lambda scaffold, name: (ask_server(server, folder, scaffold, name), []))


def check_sequences(scaffold: str, name: str, made: list[Record]) -> None:
    counts = [len(sample_of(record).sequences) for record in made]
    if scaffold in ("react", "codeact"):
        assert counts == [3 if name in REWRITES else 1]
    else:
        assert len(counts) == 2 and all(count > 1 for count in counts) == (name in REWRITES)


@pytest.mark.parametrize("played", GRID, ids=", ".join)
def test_what_is_played_in_process_is_what_the_engine_was_sent_and_gave(
    played: tuple[str, str], in_process: Play, thinker: Callable[[str], Path], weights: Any
) -> None:
    made, given = in_process(*played)
    found = check_played(made, tokenizer_of(thinker(played[1])), weights)
    assert [answer[:2] for answer in found] == [answer[:2] for answer in given]
    assert [min(0.0, value) for _, _, values in given for value in values] == [
        value for *_, own in found for value in own
    ]
    check_sequences(*played, made)


@pytest.mark.parametrize("played", GRID, ids=", ".join)
def test_what_a_server_is_asked_is_what_it_tells_of_prompts_and_answers(
    played: tuple[str, str], served: Play, thinker: Callable[[str], Path], weights: Any
) -> None:
    made, _ = served(*played)
    check_played(made, tokenizer_of(thinker(played[1])), weights)
    check_sequences(*played, made)


@pytest.mark.parametrize(("engine", "shift"), [("in_process", 0), ("served", 1)])
def test_played_turns_go_into_steps_of_both_trainers(
    engine: str, shift: int, request: pytest.FixtureRequest, thinker: Callable[[str], Path], tmp_path: Path
) -> None:
    play: Play = request.getfixturevalue(engine)
    each = [(SCAFFOLDS[(at + shift) % 3], name) for at, name in enumerate(TEMPLATES)]  # twelve of the eighteen
    check_steps(tmp_path, thinker("keeps thoughts"), [record for pair in each for record in play(*pair)[0]])


def test_calls_that_a_server_reads_are_told_in_the_templates_way(
    server: RealServer, folder: Path, thinker: Callable[[str], Path], weights: Any, tmp_path: Path
) -> None:
    name = "tells calls its own way"
    made = ask_server(server, folder, "react", name, "--tool-calls", "openai", "-g", "4")
    check_played(made, tokenizer_of(thinker(name)), weights)
    calls = 0
    for record in made:
        own = [message for message in record["messages"] if message.get("loss")]
        called = ["tool_calls" in message for message in own]
        calls += sum(called)
        # behind a call, which the template tells in other words than it was written, a new sequence begins
        assert ["prompt_token_ids" in message for message in own] == [False, *called[:-1]]
    assert calls
    check_steps(tmp_path, thinker(name), made)
