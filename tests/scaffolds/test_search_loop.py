"""The loop of a search, its graph and its tape, in this process: a model and a sandbox that are a few lines here."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from conftest import ROOT, TESTS
from taped import Taped

from mletools import prompts
from mletools.base import workers
from mletools.base.errors import RecordError, ToolError
from mletools.base.tape import Tapes
from mletools.records import rollout
from mletools.scaffolds import search
from mletools.scaffolds.interface import Job
from mletools.scaffolds.search import SearchScaffold, SearchSettings
from mletools.scaffolds.search import clock as search_clock
from mletools.scaffolds.search.settings import COMPONENTS

OWN = str(TESTS / "support" / "own_search.py")
TASK = {
    "id": "task",
    "name": "mill",
    "description": "Predict y.",
    "modality": "tabular",
    "problem": "regression",
    "submission": {"id": ["id"], "target": ["y"]},
    "metric": {"name": "mae", "params": {}, "lower_is_better": True},
    "data": {"dir": "mill", "public": ["train.csv", "test.csv"]},
}
TELL_TALE = 0.31415926  # the test score of every run: no model may see it
COMPONENTS_IN_PAGE = ("planning", "paths", "reasoning", "memory", "coding", "evaluation")
USED = {"prompt_tokens": 100, "completion_tokens": 20, "seconds": 0.5, "usd": 0.01}


BARE = {"validation": None}


class Killed(Exception):
    """As kill -9 would: between an event and the next."""


class Town:
    """An environment: programs are worth what their text says; it is killed at its `kill_at`-th event."""

    def __init__(self, folder: Path, go_on: bool = False, kill_at: int | None = None, hands: int = 1):
        self.folder, self.go_on, self.kill_at, self.hands = folder, go_on, kill_at, hands
        self.events: list[str] = []
        self.prompts: list[str] = []
        self._lock = threading.Lock()

    def _event(self, what: str) -> None:
        with self._lock:
            if self.kill_at is not None and len(self.events) >= self.kill_at:
                raise Killed
            self.events.append(what)

    def ask(self, who: str, role: str, messages: Any, seed: int, tools: Any, most: int) -> dict[str, Any]:
        self._event(f"ask {role} {seed}")
        self.prompts.append(json.dumps(messages))
        worth = random.Random(seed).randrange(1, 10_000)
        text = f"A plan.\n\n```python\nprint({worth})  # {'broken' if worth % 4 == 0 else 'fine'}\n```\n"
        if role in ("search-idea", "search-select"):
            text = json.dumps(
                {"hypothesis": f"try {worth}", "component": "Model", "action": "create", "candidate": None}
            )
        if role == "search-analysis":
            fields = ("task_type", "data_type", "summary", "data", "submission", "metric")
            text = json.dumps({**dict.fromkeys(fields, "words"), "longer_limit": False})
        if role == "search-diagnosis":
            text = json.dumps({"diagnosis": f"lost at {worth}", "direction": f"towards {worth}"})
        if role == "search-check":
            text = json.dumps({"acceptable": worth % 5 > 0, "why": "so"})
        if role == "search-lesson":
            text = json.dumps({"supported": True, "lesson": f"learnt {worth}"})
        if role == "search-challenges":
            text = json.dumps([{"challenge": f"c{at}", "reason": "r", "origin": "scenario"} for at in range(2)])
        if role == "search-hypotheses":
            axes = dict.fromkeys(("alignment", "impact", "novelty", "feasibility", "risk_reward"), 5)
            text = json.dumps(
                [
                    {"hypothesis": f"h {worth} {at}", "component": "Model", "challenge": 0, "scores": axes}
                    for at in range(3)
                ]
            )
        return {"text": text, "finish_reason": "stop", "reasoning": None, "tool_calls": [], "prompt_token_ids": [1, 2],
                "token_ids": [3], "logprobs": [-0.1], **USED}  # fmt: skip

    def run(
        self, code: str, wall_s: float, seed: int, judged: bool = True, *, arguments: Any = (), rows: str = "validation"
    ) -> dict[str, Any]:
        self._event(f"run {seed}")
        worth = float(code.partition("(")[2].partition(")")[0])
        broken = "broken" in code
        said = "" if not arguments else (
            "==== Start of Debug Information ====\ndebug_time: 0.1\nestimated_time: 1\n==== End of Debug Information ====\n"
        )  # fmt: skip
        said += f"Validation score: {worth}\n"
        execution = {
            "status": "error" if broken else "ok",
            "exit_code": int(broken),
            "duration_s": 2.0,
            "stdout": {"head": said, "tail": "", "bytes": len(said)},
            "stderr": {"head": "", "tail": "", "bytes": 0},
            "submission": None if broken else {"file": "x", "digest": "d", "bytes": 1},
            "submission_problem": "no submission.csv" if broken else None,
        }
        if broken:
            return {"execution": execution, "validation": None, "grade": None}
        return {
            "execution": execution,
            "validation": {"valid": True, "reason": None, "score": worth},
            "grade": {"valid": True, "reason": None, "score": TELL_TALE},
        }

    def fact(self, name: str) -> str:
        return f"({name})"

    def submission(self, execution: Mapping[str, Any]) -> tuple[bytes, None]:
        return b"", None

    def similar(self, texts: Sequence[str]) -> list[float]:
        return [0.5 for _ in texts[1:]]

    def at_once(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        with ThreadPoolExecutor(self.hands) as pool:
            return list(pool.map(work, items))

    def progress(self, nodes: int) -> None:
        pass

    def graph(self) -> tuple[Path, bool]:
        return self.folder / "graph.jsonl", self.go_on


class BareTown(Town):
    """A place where no rows are held out."""

    def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
        return {**super().run(*ran, **more), **BARE}


def settings(*constants: str, preset: str = "aide", clock: str = "work", **more: Any) -> SearchSettings:
    return SearchScaffold().check(SearchSettings(preset=preset, set=constants, clock=clock, **more))


def job(found: SearchSettings) -> Job[SearchSettings]:
    return Job("search", "group", 1, 0, 7, TASK, {"model": "m"}, "search", found)


def play(
    folder: Path, found: SearchSettings, kind: type[Town] = Town, **town: Any
) -> tuple[list[dict[str, Any]], Town]:
    """All records of a search, and the place; a killed one leaves what it had."""
    place = kind(folder, **town)
    tapes = Tapes(folder / "tape", resume=town.get("go_on", False))
    try:
        environment: Any = Taped(place, tapes.tape("search"))
        played = SearchScaffold().play(job(found), environment)
        return [each if isinstance(each, dict) else each.record for each in played], place
    finally:
        tapes.close(complete=False)


ALL = list(search.PRESETS)
IN_ROUNDS = [preset for preset in ALL if preset not in search.PRESET_ROUNDS]  # the others: test_search_free


@pytest.mark.parametrize("preset", ALL)
def test_a_search_ends_with_its_nodes_and_hands_in_the_best(tmp_path: Path, preset: str) -> None:
    records, place = play(tmp_path, settings(preset=preset, max_turns=12, max_seconds=None))
    made = records[-1]
    assert [turn["node"]["number"] for turn in made["turns"]] == list(range(12))
    chosen = made["search"]["chosen"]
    assert made["code"] == made["turns"][chosen]["code"]
    scores = [turn["node"]["score"] for turn in made["turns"] if turn["node"]["score"] is not None]
    assert made["validation"]["score"] == min(scores)
    assert str(TELL_TALE) not in "".join(place.prompts)
    assert {prompt.count("(data_preview)") for prompt in place.prompts} == {1}
    # the whole is the sum of its parts: 0.01 USD an answer, half a second of it, two seconds a run
    asks = sum(event.startswith("ask") for event in place.events)
    runs = len(place.events) - asks
    assert made["usage"]["usd"] == pytest.approx(0.01 * asks)
    assert made["usage"]["seconds"] == pytest.approx(0.5 * asks + 2 * runs)
    assert made["usage_by_role"] == {"policy": {**made["usage"], "seconds": pytest.approx(0.5 * asks)}}
    assert len(records) == asks + 1 - (
        1 if preset in ("rd-agent", "gome", "night") else 0
    )  # the analysis is no step of a node


@pytest.mark.parametrize("preset", IN_ROUNDS)
@pytest.mark.slow
def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path: Path, preset: str) -> None:
    found = settings(preset=preset, max_turns=9, max_seconds=None)
    (tmp_path / "whole").mkdir()
    records, whole = play(tmp_path / "whole", found)
    for kill_at in range(0, len(whole.events), 5):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        with pytest.raises(Killed):
            play(folder, found, kill_at=kill_at)
        again, rest = play(folder, found, go_on=True)
        assert again == records
        assert sorted(rest.events) == sorted(whole.events[kill_at:])  # nothing is paid for twice


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    found = settings(preset="rd-agent", max_turns=9, max_seconds=None)
    (tmp_path / "whole").mkdir()
    records, _ = play(tmp_path / "whole", found, hands=3)
    seen: list[str] = []
    for _ in range(200):
        try:
            again, place = play(tmp_path, found, go_on=True, kill_at=2, hands=3)
            seen += place.events
            break
        except Killed:
            continue
    assert again == records


def test_how_many_hands_there_are_changes_nothing(tmp_path: Path) -> None:
    found = settings(preset="rd-agent", max_turns=15, max_seconds=None)
    for name in ("one", "four"):
        (tmp_path / name).mkdir()
    one, _ = play(tmp_path / "one", found, hands=1)
    four, _ = play(tmp_path / "four", found, hands=4)
    assert one == four


@pytest.mark.parametrize(
    ("bound", "nodes", "end"),
    [
        # aide: an idea (0.5 s) and a program (0.5 s) that runs for 2 s: 3 s, 0.02 USD and 40 tokens a node
        ({"max_seconds": 10.0}, 3, "too_late"),  # for a fourth there is not the time that the others took
        ({"max_usd": 0.05}, 3, "usd"),
        ({"max_tokens": 80}, 2, "tokens"),
        ({"max_turns": 4}, 4, "nodes"),
    ],
)
@pytest.mark.parametrize("rounds", [{}, {"rounds": "free", "workers": 1}], ids=["whole", "free"])
def test_a_budget_ends_it(tmp_path: Path, bound: dict[str, Any], nodes: int, end: str, rounds: dict[str, Any]) -> None:
    found = settings("debug_probability=0", **{"max_turns": 100, "max_seconds": None, **bound, **rounds})
    records, _ = play(tmp_path, found)
    assert len(records[-1]["turns"]) == nodes
    assert (records[-1]["stop_reason"], records[-1]["search"]["ended"]) == ("finished", end)


def test_the_clock_counts_what_goes_on_at_once_as_its_longest(tmp_path: Path) -> None:
    own = {"paths": f"{OWN}:FanOut", "reasoning": f"{OWN}:Numbered", "coding": "once", "evaluation": "standard"}
    found = settings("paths.width=3", max_turns=7, max_seconds=None, **own)
    made = play(tmp_path, found)[0][-1]
    # no research here: a program is asked for (0.5 s) and runs for 2 s, in each round one beside the other
    rounds = [turn["node"]["round"] for turn in made["turns"]]
    assert max(rounds.count(number) for number in rounds) == 3
    assert [turn["node"]["elapsed_s"] for turn in made["turns"]] == [2.5 * (number + 1) for number in rounds]
    assert made["search"]["elapsed_s"] == 2.5 * (rounds[-1] + 1)
    assert made["usage"]["seconds"] == 2.5 * 7


class Wall:
    """The clock on the wall, which waits for nobody."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


WALL = Wall()


class SlowTown(Town):
    """An answer takes 0.5 s, after a second of waiting; a run 2 s, after three."""

    def ask(self, *asked: Any) -> dict[str, Any]:
        reply = super().ask(*asked)
        WALL.seconds += 1.5
        return reply

    def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
        result = super().run(*ran, **more)
        WALL.seconds += 5.0
        return result


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    monkeypatch.setattr(search_clock, "time", WALL)
    return WALL


def test_by_the_wall_clock_waiting_counts(tmp_path: Path, wall: Wall) -> None:
    own = {"paths": f"{OWN}:FanOut", "reasoning": f"{OWN}:Numbered", "coding": "once", "evaluation": "standard"}
    found = settings("paths.width=3", clock="wall", max_turns=7, max_seconds=None, **own)
    made = play(tmp_path, found, SlowTown)[0][-1]
    # the place has one hand: the three nodes of a round come one after the other, 1.5 s and 5 s each
    assert made["turns"][0]["node"]["elapsed_s"] == 6.5
    assert made["search"]["elapsed_s"] == 6.5 * 7 and made["usage"]["seconds"] == 2.5 * 7
    assert made["search"]["clock"] == "wall" and made["settings"]["own"]["clock"] == "wall"
    assert found != SearchScaffold().check(SearchSettings()) and SearchSettings().clock == "wall"


@pytest.mark.parametrize(("clock", "nodes"), [("wall", 3), ("work", 10)])
def test_a_budget_in_seconds_is_the_clocks(clock: str, nodes: int, tmp_path: Path, wall: Wall) -> None:
    # aide: an idea, a program, a run: 1.5 + 1.5 + 5 s on the wall, 3 s of work
    found = settings("debug_probability=0", clock=clock, max_turns=100, max_seconds=30.0)
    made = play(tmp_path, found, SlowTown)[0][-1]
    assert len(made["turns"]) == nodes and made["search"]["clock"] == clock


@pytest.mark.parametrize("preset", ["rd-agent", "aide"])
def test_a_killed_search_goes_on_with_the_time_that_it_had_left(preset: str, tmp_path: Path, wall: Wall) -> None:
    found = settings(preset=preset, clock="wall", max_turns=100, max_seconds=120.0)
    (tmp_path / "whole").mkdir()
    records, whole = play(tmp_path / "whole", found, SlowTown)
    assert records[-1]["search"]["elapsed_s"] > 60 and len(whole.events) > 15
    for kill_at in range(1, len(whole.events), 7):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        with pytest.raises(Killed):
            play(folder, found, SlowTown, kill_at=kill_at)
        wall.seconds += 500_000  # nobody works on it
        again, rest = play(folder, found, SlowTown, go_on=True)
        assert again == records and sorted(rest.events) == sorted(whole.events[kill_at:])


def test_each_limit_is_told_once_in_a_prompt(tmp_path: Path) -> None:
    found = settings(preset="rd-agent", max_turns=12, max_seconds=43200.0)
    _, place = play(tmp_path, found)
    told = [re.findall(r"(?<!after )\b(\d[\d.]*) (?:s|seconds)\b", prompt) for prompt in place.prompts]
    # of a draft, an improvement and later: that of a run, and of a debug run, which has a sixth of it
    limits = ({"900", "150"}, {"1800", "300"}, {"3600", "600"})
    assert all(any(set(each) <= of_round for of_round in limits) for each in told)
    assert ["150", "900"] in told and ["900"] in told  # a developer's and a researcher's
    assert not any("(limits)" in prompt for prompt in place.prompts)  # which have the longest run of all rounds
    assert all("time left: about 12 hours" in prompt for prompt in place.prompts if "# Guidance" in prompt)


def test_no_run_is_said_to_take_longer_than_is_left(tmp_path: Path) -> None:
    found = settings("coding.coder_loops=1", preset="rd-agent", max_turns=30, max_seconds=40.0)
    _, place = play(tmp_path, found)
    told = [float(each) for prompt in place.prompts for each in re.findall(r"at most (\d+) seconds", prompt)]
    assert told and max(told) <= 40 and any("less than two minutes" in prompt for prompt in place.prompts)


def test_the_choice_is_run_again_on_all_rows(tmp_path: Path) -> None:
    class Counting(Town):
        def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
            self.events.append(more["rows"])
            return super().run(*ran, **more)

    own = {"evaluation": "standard", "coding": "once", "refit": True}
    (tmp_path / "long").mkdir()
    records, place = play(tmp_path / "long", settings(max_turns=4, max_seconds=None, **own), Counting)
    made, rows = records[-1], [event for event in place.events if event in ("all", "validation")]
    assert rows == ["validation"] * 4 + ["all"] and made["refit"] == {"used": True}
    assert made["validation"] == made["turns"][made["search"]["chosen"]]["validation"]
    # 3 s a node; of 10 s a quarter at most is kept for the refit of 2.2 s: two nodes, 8 s with it
    made = play(tmp_path, settings("debug_probability=0", max_turns=9, max_seconds=10.0, **own))[0][-1]
    assert len(made["turns"]) == 2 and made["search"]["elapsed_s"] == 8.0


def test_where_programs_report_their_scores_all_have_all_rows() -> None:
    assert settings(preset="aide").validation == settings(preset="rd-agent", evaluation="agent").validation == 0
    assert settings(preset="aide", evaluation="standard").validation == 0.2


def test_without_held_out_rows_a_search_goes_by_what_its_programs_print(tmp_path: Path) -> None:
    asked = settings(preset="rd-agent", max_turns=8, max_seconds=None)
    found = SearchScaffold().without_validation(asked)
    assert (found.validation, found.evaluation) == (0.0, "agent")
    records, place = play(tmp_path, found, BareTown)
    made = records[-1]
    assert made["search"]["evaluation_asked"] == "aggregated"
    assert made["search"]["components"]["evaluation"] == {"name": "agent", "constants": {}}
    scores = [turn["node"]["score"] for turn in made["turns"] if turn["node"]["score"] is not None]
    assert scores and made["turns"][made["search"]["chosen"]]["node"]["score"] == min(scores)
    assert any("Validation score: 0.8123" in prompt for prompt in place.prompts)  # they are asked to print it
    assert "evaluation_asked" not in made["settings"]["own"] and str(TELL_TALE) not in "".join(place.prompts)


def test_constants_of_the_evaluation_go_with_it() -> None:
    found = SearchScaffold().without_validation(settings("evaluation.candidates=3", preset="rd-agent"))
    assert (found.evaluation, found.constants["evaluation"], found.evaluation_asked) == ("agent", {}, "aggregated")


def test_presets_have_constants_of_their_own() -> None:
    shipped = {name: settings(preset=name).constants["paths"] for name in ("aira-greedy", "aira-mcts", "aira-evo")}
    assert [each["debug_depth"] for each in shipped.values()] == [20, 20, 20]
    assert shipped["aira-greedy"]["debug_probability"] == shipped["aira-evo"]["debug_probability"] == 1.0
    assert {name: shipped["aira-mcts"][name] for name in ("c", "children")} == {"c": 0.25, "children": 5}
    assert settings(preset="aide").constants["paths"]["debug_depth"] == 3
    night = settings(preset="night")
    assert (night.rounds, night.workers, night.constants["coding"]["edits"]) == ("free", 3, True)
    assert night.constants["planning"]["growth"] == night.constants["coding"]["growth"] == 3.0
    assert settings(preset="night", rounds="whole").workers is None
    assert settings("debug_depth=2", preset="aira-mcts").constants["paths"]["debug_depth"] == 2  # --set goes first
    assert settings(preset="aira-mcts", paths="greedy").constants["paths"]["debug_depth"] == 3  # another component


def test_whether_a_lesson_supports_the_hypothesis_is_kept_and_told(tmp_path: Path) -> None:
    records, place = play(tmp_path, settings(preset="rd-agent", max_turns=9, max_seconds=None))
    assert {turn["node"]["supported"] for turn in records[-1]["turns"]} <= {True, None}
    lessons = [turn["node"] for turn in records[-1]["turns"] if turn["node"]["lesson"].startswith("learnt")]
    assert lessons and all(node["supported"] is True for node in lessons)
    assert any("(hypothesis supported: learnt " in prompt for prompt in place.prompts)


def test_components_of_ones_own_are_found_by_name(tmp_path: Path) -> None:
    own = {"paths": f"{OWN}:FanOut", "reasoning": f"{OWN}:Numbered"}
    found = settings("paths.width=3", "word=try", max_turns=7, max_seconds=None, **own)
    made = play(tmp_path, found)[0][-1]
    assert made["search"]["components"]["paths"] == {"name": f"{OWN}:FanOut", "constants": {"width": 3}}
    rounds = [turn["node"]["round"] for turn in made["turns"]]
    assert rounds == sorted(rounds)
    last_draft = max(turn["node"]["number"] for turn in made["turns"] if turn["action"] == "draft")
    after = [turn["node"] for turn in made["turns"][last_draft + 1 :]]
    assert [node["hypothesis"] for node in after] == [f"try {node['number']}" for node in after]
    assert all(rounds.count(number) == 3 for number in set(rounds) if number > last_draft and number != rounds[-1])


@pytest.mark.parametrize(
    ("own", "constants", "told"),
    [
        ({"paths": "spiral"}, (), "--paths spiral: known are chain, greedy, .*; one of your own is module:Name or"),
        ({"paths": "nowhere:Spiral"}, (), "--paths nowhere:Spiral: No module named 'nowhere'"),
        ({"paths": "nowhere.py:Spiral"}, (), r"--paths nowhere\.py:Spiral: nowhere\.py: no such file"),
        ({"paths": f"{OWN}:Spiral"}, (), "has no Spiral"),
        ({"memory": f"{OWN}:FanOut"}, (), "FanOut: no component for memory: it has no recall and no lesson"),
        ({}, ("drafts",), "--set drafts: which constant"),
        ({}, ("wings=2",), r"--set wings=2: which constant\? These components have .*paths\.drafts=5"),
        ({}, ("drafts=few",), "--set drafts=few: no int, as its default 5 is"),
        ({"preset": "aide3"}, (), "--preset aide3: known are rd-agent, aide"),
        ({"evaluation": "standard", "validation": 0.0}, (), "--evaluation standard needs scores on held-out rows"),
    ],
)
def test_what_makes_no_search_is_refused(own: dict[str, Any], constants: tuple[str, ...], told: str) -> None:
    with pytest.raises(ToolError, match=told):
        settings(*constants, **own)


def test_steps_hold_the_exact_tokens_and_what_came_of_them(tmp_path: Path) -> None:
    records, _ = play(tmp_path, settings(max_turns=6, max_seconds=None))
    steps, made = records[:-1], records[-1]
    assert len({step["id"] for step in steps}) == len(steps)
    for step in steps:
        node = made["turns"][step["step"]["node"]]
        assert [message["role"] for message in step["messages"]] == ["user", "assistant"]
        assert step["messages"][0]["token_ids"] == [1, 2]
        assert step["messages"][1]["token_ids"] == [3]
        assert step["messages"][1]["loss"] is True
        assert step["code"] == node["code"]
        parents = node["node"]["parents"]
        before = made["turns"][parents[0]]["node"]["score"] if parents else None
        assert step["state"]["validation"] == before


@pytest.mark.parametrize("preset", ["aide", "rd-agent"])
def test_an_answer_without_a_program_is_no_well_formed_step(tmp_path: Path, preset: str) -> None:
    class Mute(Town):
        def ask(self, who: str, role: str, *rest: Any) -> dict[str, Any]:
            reply = super().ask(who, role, *rest)
            return {**reply, "text": "I would rather not."} if role == "search-draft" else reply

    steps = play(tmp_path, settings(preset=preset, max_turns=3, max_seconds=None), Mute)[0][:-1]
    told = {(step["format_rate"], step["stop_reason"], step["turns"][0]["problem"]) for step in steps
            if step["step"]["role"] == "search-draft"}  # fmt: skip
    assert told == {(0.0, "format", "malformed")}
    assert {step["format_rate"] for step in steps if step["step"]["role"] != "search-draft"} == {1.0}


def test_a_model_beside_the_policy_is_asked_and_not_trained(tmp_path: Path) -> None:
    records, _ = play(tmp_path, settings(max_turns=3, max_seconds=None, research_model="thinker"))
    assert {step["step"]["phase"] for step in records[:-1]} == {"develop"}
    made = records[-1]
    assert set(made["usage_by_role"]) == {"policy", "researcher"}
    assert made["usage_by_role"]["researcher"] == made["search"]["cost"]["research"]  # which runs no programs
    assert made["usage_by_role"]["policy"]["usd"] == made["search"]["cost"]["develop"]["usd"] > 0


def test_the_page_names_every_component_and_what_presets_choose() -> None:
    page = (ROOT / "docs/search.md").read_text()
    for kind, known in COMPONENTS.items():
        assert f"| `--{kind}` | " in page
        assert all(f"| `{name}` | " in page for name in known)
    for preset, chosen in search.PRESETS.items():
        assert f"| `{preset}` | {' | '.join(chosen[kind] for kind in COMPONENTS_IN_PAGE)} |" in page


def test_the_schema_knows_every_operation() -> None:
    assert ", ".join(get_args(rollout.Operation)) in " ".join(Path(rollout.__file__).read_text().split())


def test_every_prompt_of_a_search_is_part_of_what_a_record_depends_on() -> None:
    found = {path.stem for path in (Path(prompts.__file__).parent).glob("search-*.md")}
    assert found | {"task"} == {*search.PROMPTS, *search.LATER_PROMPTS}
    plain, edited = (settings(*each, preset="rd-agent") for each in ((), ("coding.edits=true",)))
    (one, _), (other, _) = (SearchScaffold().start(TASK, each, 7) for each in (plain, edited))  # type: ignore[arg-type]
    assert len(one) == 3 and prompts.text("search-edits") in other[3]


# --- a server that refuses, and errors ---------------------------------------------------------------------------------


class Refusing(Town):
    """Its server refuses the first question for a draft, or every question."""

    every = False

    def ask(self, who: str, role: str, messages: Any, seed: int, tools: Any, most: int) -> dict[str, Any]:
        with self._lock:
            first = role == "search-draft" and not (self.folder / "refused").exists()
            if first or self.every:
                (self.folder / "refused").touch()
                raise RecordError("http://there: 400: I would rather not")
        return super().ask(who, role, messages, seed, tools, most)


@pytest.mark.parametrize("rounds", [{}, {"rounds": "free", "workers": 1}], ids=["whole", "free"])
def test_a_question_that_a_server_refuses_costs_a_node_and_no_search(tmp_path: Path, rounds: dict[str, Any]) -> None:
    found = settings(preset="rd-agent", max_turns=6, max_seconds=None, **rounds)
    (tmp_path / "whole").mkdir()
    records, whole = play(tmp_path / "whole", found, Refusing)
    problems = [turn["problem"] for turn in records[-1]["turns"]]
    assert len(problems) == 6 and problems.count("unanswered") == 1 and records[-1]["search"]["chosen"] is not None
    for kill_at in range(5, 40, 9):  # a resumed search does not ask again
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        with pytest.raises(Killed):
            play(folder, found, Refusing, kill_at=kill_at)
        again, rest = play(folder, found, Refusing, go_on=True)
        assert again == records and sorted(rest.events) == sorted(whole.events[kill_at:])


def test_a_server_that_answers_nothing_ends_the_search(tmp_path: Path) -> None:
    class Deaf(Refusing):
        every = True

    with pytest.raises(RecordError, match="400: I would rather not"):
        play(tmp_path, settings(preset="rd-agent", max_turns=6, max_seconds=None), Deaf)


def test_after_an_error_the_other_nodes_of_the_round_ask_for_nothing_more(tmp_path: Path) -> None:
    late, broken, others, failed = list[str](), threading.Lock(), threading.Semaphore(0), threading.Event()

    class Broken(Town):
        """The first program finds no place to run, while two others run."""

        def at_once(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            results = []
            for _, result, error in workers.run(work, items, 3, keep_order=True):
                if error is not None:
                    raise error
                results.append(result)
            return results

        def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
            if broken.acquire(blocking=False):
                assert others.acquire(timeout=20) and others.acquire(timeout=20)
                failed.set()
                raise ToolError("no place")
            others.release()
            failed.wait(20)
            time.sleep(0.2)
            return super().run(*ran, **more)

        def ask(self, *asked: Any) -> dict[str, Any]:
            if failed.is_set():
                late.append(asked[1])
            return super().ask(*asked)

    before = set(threading.enumerate())
    with pytest.raises(ToolError, match="no place"):
        play(tmp_path, settings(preset="rd-agent", max_turns=40, max_seconds=None), Broken)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert late == []


# --- answers with faults ------------------------------------------------------------------------------------------


def python_literals(text: str) -> str:
    return repr(json.loads(text))


def trailing_comma(text: str) -> str:
    return f"{text[:-1]},{text[-1]}"


def words_in_values(text: str) -> str:
    """Labels, numbers and flags as models also write them; hypotheses and lessons as they are."""
    words = {"Model": "MODEL", "create": "Created", "scenario": "Scenario ", True: "yes", False: "No."}

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [changed(item) for item in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value}"
        return words.get(value, value)

    return json.dumps(changed(json.loads(text)))


FAULTS: dict[str, Callable[[str], str]] = {
    "trailing comma": trailing_comma,
    "Python literals": python_literals,
    "comment": lambda text: f"{text[0]} // as asked\n{text[1:]}",
    "no closing bracket": lambda text: text[:-1],
    "fence and words": lambda text: f"Here [so]:\n```JSON\n{trailing_comma(text)}\n```\nThat is {{all}}.",
    "words in values": words_in_values,
}
QUESTIONS = {
    "rd-agent": {"search-analysis", "search-challenges", "search-hypotheses", "search-select", "search-check"}
    | {"search-lesson"},
    "aide": {"search-idea", "search-choose"},
}


class FaultyTown(Town):
    """Changes the text of every answer in JSON; `only`: of these questions."""

    def __init__(self, folder: Path, fault: Callable[[str], str], only: set[str] | None = None, **more: Any):
        super().__init__(folder, **more)
        self.fault, self.only, self.asked = fault, only, list[str]()

    def ask(self, who: str, role: str, messages: Any, seed: int, tools: Any, most: int) -> dict[str, Any]:
        reply = super().ask(who, role, messages, seed, tools, most)
        if role == "search-choose":
            listed = messages[-1 if len(messages) == 1 else 0]["content"].partition("- experiment ")[2]
            reply["text"] = json.dumps({"experiment": int(listed.partition(":")[0]), "why": "so"})
        self.asked.append(role)
        if reply["text"][0] in "[{" and (self.only is None or role in self.only):
            reply["text"] = self.fault(reply["text"])
        return reply


def play_with(town: FaultyTown, found: SearchSettings) -> dict[str, Any]:
    tapes = Tapes(town.folder / "tape", resume=False)
    try:
        environment: Any = Taped(town, tapes.tape("search"))
        *_, record = SearchScaffold().play(job(found), environment)
    finally:
        tapes.close(complete=False)
    assert isinstance(record, dict)
    return record


def settings_of(preset: str) -> SearchSettings:
    more = {"evaluation": "judged"} if preset == "aide" else {}
    return settings(preset=preset, max_turns=6, max_seconds=None, **more)


def without_notes(record: dict[str, Any]) -> list[Any]:
    return [
        [turn["action"], turn["problem"], turn["code"]]
        + [turn["node"][name] for name in ("hypothesis", "component", "score", "lesson", "scores", "action")]
        for turn in record["turns"]
    ]


@pytest.mark.parametrize("preset", QUESTIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_json_costs_anything_and_all_are_counted(tmp_path: Path, fault: str, preset: str) -> None:
    (tmp_path / "good").mkdir()
    good = play_with(FaultyTown(tmp_path / "good", lambda text: text), settings_of(preset))
    assert not {"lenient", "fallbacks"} & {*good["search"], *(name for turn in good["turns"] for name in turn["node"])}
    town = FaultyTown(tmp_path, FAULTS[fault])
    record = play_with(town, settings_of(preset))
    assert without_notes(record) == without_notes(good)
    asked = {role: town.asked.count(role) for role in QUESTIONS[preset]}
    assert all(asked.values())
    assert record["search"]["lenient"] == asked and "fallbacks" not in record["search"]
    noted = [note["question"] for turn in record["turns"] for note in turn["node"].get("lenient", ())]
    outside = {"search-analysis", "search-choose"}
    assert {role: noted.count(role) for role in QUESTIONS[preset] - outside} == {
        role: count for role, count in asked.items() if role not in outside
    }


@pytest.mark.parametrize(
    ("preset", "question"), [(preset, question) for preset in QUESTIONS for question in sorted(QUESTIONS[preset])]
)
def test_every_fallback_is_counted(tmp_path: Path, preset: str, question: str) -> None:
    town = FaultyTown(tmp_path, lambda text: "I would rather not say.", only={question})
    record = play_with(town, settings_of(preset))
    assert record["search"]["fallbacks"] == {question: town.asked.count(question) // 2}
    assert "lenient" not in record["search"]
    notes = [note for turn in record["turns"] for note in turn["node"].get("fallbacks", ())]
    if question in ("search-analysis", "search-choose"):
        assert not notes
    else:
        assert {note["question"] for note in notes} == {question}
        assert all("your answer holds no JSON" in note["what"] for note in notes)
    lost = [turn for turn in record["turns"] if turn["problem"] == "unanswered"]
    assert bool(lost) == (question == "search-idea")


def test_a_component_that_stays_in_doubt_loses_no_node(tmp_path: Path) -> None:
    town = FaultyTown(tmp_path, lambda text: text.replace('"Model"', '"Magic"'), only={"search-idea"})
    record = play_with(town, settings_of("aide"))
    assert "unanswered" not in {turn["problem"] for turn in record["turns"]}
    assert {turn["node"]["component"] for turn in record["turns"]} == {None}
    assert record["search"]["fallbacks"] == {"search-idea": town.asked.count("search-idea") // 2}
    assert '"component\\" has to be one of DataLoadSpec' in "".join(town.prompts)


def test_an_answer_that_was_cut_is_not_repaired(tmp_path: Path) -> None:
    class CuttingTown(FaultyTown):
        def ask(self, who: str, role: str, *more: Any) -> dict[str, Any]:
            cut = role == "search-idea" and self.asked.count(role) % 2 == 0
            return {**super().ask(who, role, *more), "finish_reason": "length" if cut else "stop"}

    town = CuttingTown(tmp_path, lambda text: text[:-1], only={"search-idea"})
    record = play_with(town, settings_of("aide"))
    ideas = sum(turn["action"] != "debug" for turn in record["turns"])
    assert town.asked.count("search-idea") == 2 * ideas
    assert record["search"]["lenient"] == {"search-idea": ideas} and "fallbacks" not in record["search"]
