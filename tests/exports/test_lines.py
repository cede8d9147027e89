"""mle-export of rollouts: trajectories, messages, prompts with completions, pairs; as their readers see them."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

from mletools.commands.export import _is_complete
from mletools.exports import atif, chat


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graded rollouts of a scaffold in turns and of one that asks once, four a task."""
    place = tmp_path_factory.mktemp("graded")
    for name in ("mle-gen-task -n 2 --source tabular --samples 50-60 -o tasks.jsonl",):
        assert run_command(*name.split(), cwd=place).returncode == 0
    for scaffold in ("single", "react"):
        line = f"mle-rollout -q -m scripted --scaffold {scaffold} -g 4 tasks.jsonl -o {scaffold}.jsonl"
        done = run_command(*line.split(), cwd=place)
        assert done.returncode == 0, done.stderr
        if scaffold == "single":
            done = run_command("mle-sandbox", "-q", "single.jsonl", "-o", "run.jsonl", cwd=place)
            assert done.returncode == 0, done.stderr
        done = run_command("mle-grade", "-q", "run.jsonl" if scaffold == "single" else "react.jsonl", cwd=place)
        assert done.returncode == 0, done.stderr
        (place / f"graded-{scaffold}.jsonl").write_bytes(done.stdout)
    return place


def rollouts(place: Path, scaffold: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / f"graded-{scaffold}.jsonl").read_text().splitlines()]


def export(place: Path, form: str, scaffold: str, *more: str) -> list[dict[str, Any]]:
    done = run_command("mle-export", "-q", "--to", form, *more, f"graded-{scaffold}.jsonl", cwd=place)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("scaffold", ["single", "react"])
def test_trajectories(graded: Path, scaffold: str) -> None:
    found = export(graded, "atif", scaffold)
    for rollout, document in zip(rollouts(graded, scaffold), found, strict=True):
        assert document["schema_version"] == "ATIF-v1.7" and document["trajectory_id"] == rollout["id"]
        assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
        said = [message["content"] for message in rollout["messages"] if message["role"] == "assistant"]
        assert [step["message"] for step in document["steps"] if step["source"] == "agent"] == said
        told = [
            result["content"]
            for step in document["steps"]
            for result in step.get("observation", {"results": []})["results"]
        ]
        first = next(at for at, message in enumerate(rollout["messages"]) if message["role"] == "assistant")
        assert told == [each["content"] for each in rollout["messages"][first:] if each["role"] != "assistant"]
        assert document["extra"]["reward"] == rollout["reward"]
        assert document["extra"]["grade"]["valid"] == rollout["grade"]["valid"]
        assert document["final_metrics"].get("total_completion_tokens") == rollout["usage"]["completion_tokens"]


def made(messages: list[dict[str, Any]], **more: Any) -> Any:
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "seconds": 1.0, "usd": None}
    return {
        "id": "r1", "group": "g", "group_size": 2, "sample": 0, "scaffold": "react", "stop_reason": "finished",
        "task": {"id": "t"}, "policy": {"model": "m", "version": None, "sampling": {}}, "usage": usage,
        "turns": [{"action": "python", "duration_s": 1.0, "message": 2, "usage": usage}], "messages": messages, **more,
    }  # fmt: skip


CALLS = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "begin"},
    {
        "role": "assistant", "content": "", "reasoning": "let me look", "loss": True,
        "prompt_token_ids": [1, 2], "token_ids": [3, 4, 5], "logprobs": [-0.1, -0.2, -0.3],
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "python", "arguments": '{"code": "1"}'}},
            {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": "no json"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "tool", "tool_call_id": "gone", "content": "2"},
    {"role": "assistant", "content": "done"},
]  # fmt: skip


EXACT = [
    {"role": "system", "content": "be brief", "token_ids": [1]},
    {"role": "user", "content": "begin", "token_ids": [2, 3]},
    {"role": "assistant", "content": "a", "loss": True, "token_ids": [4, 5], "logprobs": [-0.1, -0.2]},
    {"role": "user", "content": "go on", "token_ids": [6]},
    {"role": "assistant", "content": "b", "loss": True, "token_ids": [7], "logprobs": [-0.3]},
    {"role": "user", "content": "anew"},
    {
        "role": "assistant", "content": "c", "loss": True, "prompt_token_ids": [8, 9], "token_ids": [10],
        "logprobs": [-0.4],
    },
]  # fmt: skip


def test_exact_tokens_come_back() -> None:
    """What mle-import reads of a trajectory is the same sample to train on."""
    from mletools.rollout.trajectories import read
    from mletools.training.samples import sample_of

    rollout = made(EXACT, turns=[])
    document = atif.trajectory(rollout)
    prompts = [step["metrics"]["prompt_token_ids"] for step in document["steps"] if step["source"] == "agent"]
    assert prompts == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [8, 9]]
    again = sample_of({**rollout, "messages": read([document]).messages})
    assert again.sequences == sample_of(rollout).sequences and len(again.sequences) == 2


def test_tokens_thoughts_and_calls() -> None:
    step = atif.trajectory(made(CALLS))["steps"][2]
    assert step["reasoning_content"] == "let me look"
    assert step["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "python", "arguments": {"code": "1"}},
        {"tool_call_id": "c2", "function_name": "bash", "arguments": {"text": "no json"}},
    ]
    assert step["observation"]["results"] == [{"content": "1", "source_call_id": "c1"}, {"content": "2"}]
    assert step["metrics"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4, 5],
        "logprobs": [-0.1, -0.2, -0.3],
    }
    plain: Any = chat.chat(made(CALLS))[0]["messages"]
    assert plain[2]["reasoning_content"] == "let me look" and plain[3]["tool_call_id"] == "c1"
    assert plain[2]["tool_calls"][1]["function"] == {"name": "bash", "arguments": "no json"}


@pytest.mark.slow
def test_trajectories_by_the_models_of_the_format(graded: Path) -> None:
    format_models = pytest.importorskip("atif", reason="needs the package atif, models of the format")
    documents = [*export(graded, "atif", "single"), *export(graded, "atif", "react"), atif.trajectory(made(CALLS))]
    for document in documents:
        format_models.Trajectory.model_validate(document)


def test_messages_and_completions(graded: Path) -> None:
    for scaffold in ("single", "react"):
        told = rollouts(graded, scaffold)
        for rollout, line, parts in zip(
            told, export(graded, "chat", scaffold), export(graded, "completion", scaffold), strict=True
        ):
            assert [each["content"] for each in line["messages"]] == [each["content"] for each in rollout["messages"]]
            assert parts["prompt"] + parts["completion"] == line["messages"]
            assert parts["completion"][0]["role"] == "assistant" and (line["reward"], line["id"]) == (
                rollout["reward"],
                rollout["id"],
            )


def test_pairs_of_a_group(graded: Path) -> None:
    rewards: dict[str, list[float]] = {}
    for rollout in rollouts(graded, "single"):
        rewards.setdefault(rollout["group"], []).append(rollout["reward"])
    spread = [each for each in rewards.values() if len(set(each)) > 1]
    assert spread  # else nothing is tested
    best = export(graded, "pairs", "single")
    assert [(line["chosen_reward"], line["rejected_reward"]) for line in best] == [(max(e), min(e)) for e in spread]
    every = export(graded, "pairs", "single", "--every-pair")
    assert len(every) == sum(a > b for each in spread for a in each for b in each)
    assert all(line["chosen"] != line["rejected"] and line["prompt"][-1]["role"] == "user" for line in every)


def test_pairs_begin_alike() -> None:
    def one(text: str, reward: float | None) -> Any:
        return made([{"role": "user", "content": text}, {"role": "assistant", "content": "a"}], reward=reward)

    assert list(chat.pairs([one("a", 1.0), one("a", 0.0)], False))
    assert not list(chat.pairs([one("a", 1.0), one("b", 0.0)], False))
    assert not list(chat.pairs([one("a", 1.0), one("a", 1.0)], False))
    assert not list(chat.pairs([one("a", 1.0), one("a", None)], False))
    four = [one("a", 1.0), one("b", 0.0), one("a", 0.0), one("b", 2.0)]
    found = [(line["chosen_reward"], line["rejected_reward"]) for line in chat.pairs(four, False)]
    assert found == [(1.0, 0.0), (2.0, 0.0)]


def test_what_mle_filter_decided_holds() -> None:
    """What it has marked as dropped is in no pair, and its reward replaces the rule's, as in training."""

    def one(of_the_rule: float, **decision: Any) -> Any:
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}]
        return made(talk, reward=of_the_rule, filter={"kept": True, "reason": None, **decision})

    assert not list(chat.pairs([one(1.0), one(0.0, kept=False, reason="too late")], True))
    (line,) = chat.pairs([one(1.0, reward=0), one(0.3, reward=1)], False)
    assert (line["chosen_reward"], line["rejected_reward"]) == (1, 0)
    assert chat.chat(one(1.0, reward=0))[0]["reward"] == 0
    assert chat.dropped(one(1.0, kept=False)) and not chat.dropped(one(1.0)) and not chat.dropped(made([]))


def test_of_equal_rollouts_the_first_is_in_the_pair() -> None:
    alike = [made(CALLS, reward=reward, id=name) for name, reward in (("b", 1.0), ("w", 0.0), ("c", 1.0), ("x", 0.0))]
    (line,) = chat.pairs(alike, False)
    assert (line["chosen_id"], line["rejected_id"]) == ("b", "w")


def test_a_group_of_traces_is_paired_as_a_whole(graded: Path, tmp_path: Path) -> None:
    (first, *_) = rollouts(graded, "single")
    rewards = (0.3, 0.4, 0.35, 0.1)  # two traces of each of two runs
    told = {**first, "group_size": 2, "trace": "reset"}
    traces = [{**told, "id": str(at), "sample": at % 2, "reward": reward} for at, reward in enumerate(rewards)]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(each) + "\n" for each in traces))
    (line,) = map(
        json.loads, run_command("mle-export", "--to", "pairs", "traces.jsonl", cwd=tmp_path).stdout.splitlines()
    )
    assert (line["chosen_reward"], line["rejected_reward"]) == (0.4, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["chat", "completion", "pairs"])
def test_a_library_of_datasets_reads_the_lines(graded: Path, tmp_path: Path, form: str) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the [train] extra")
    written = export(graded, form, "react") + export(graded, form, "single")
    if form == "chat":
        written += chat.chat(made(CALLS))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    read = datasets.load_dataset("json", data_files=str(tmp_path / "lines.jsonl"), cache_dir=str(tmp_path / "cache"))[
        "train"
    ]
    assert len(read) == len(written)
    key = {"chat": "messages", "completion": "completion", "pairs": "chosen"}[form]
    assert [m["content"] for m in read[0][key]] == [m["content"] for m in written[0][key]]


def test_a_rollout_without_a_word_of_the_policy(tmp_path: Path) -> None:
    assert chat.completion(made([{"role": "user", "content": "begin"}])) == []
    assert atif.trajectory(made([{"role": "user", "content": "begin"}]))["steps"] == [
        {"step_id": 1, "source": "user", "message": "begin"}
    ]


def talk(*texts: str, **more: Any) -> Any:
    """A rollout of messages: those that begin with a are the policy's, with A their loss is marked, with x as absent."""
    roles = {"u": "user", "a": "assistant", "A": "assistant", "x": "assistant"}
    messages: list[dict[str, Any]] = [{"role": roles[text[0]], "content": text} for text in texts]
    for message in messages:
        if message["content"][0] in "Ax":
            message["loss"] = message["content"][0] == "A"
    return made(messages, **{"turns": [], "reward": 1.0, **more})


def contents(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [tuple(" ".join(m["content"] for m in line[key]) for key in ("prompt", "completion")) for line in lines]  # type: ignore[misc]


def test_what_the_policy_no_longer_saw_is_in_another_line() -> None:
    anew = talk("u1", "a2", "u3", "a4", "u5", turns=[{"message": 1}, {"message": 3, "dropped": [0, 1]}])
    assert contents(chat.completion(anew)) == [("u1", "a2"), ("u3", "a4 u5")]
    middle = talk(
        "u0", "a1", "u2", "a3", "u4", "a5", turns=[{"message": 1}, {"message": 3}, {"message": 5, "dropped": [1, 2]}]
    )
    assert contents(chat.completion(middle)) == [("u0", "a1 u2 a3"), ("u0 a3 u4", "a5")]
    assert not list(chat.pairs([anew, {**anew, "reward": 0.0}], True))


def test_a_completion_begins_where_loss_does() -> None:
    step = talk("u0", "x1", "u2", "A3", "u4", "A5")
    assert contents(chat.completion(step)) == [("u0 x1 u2", "A3 u4 A5")]
    assert [each.get("is_copied_context") for each in atif.trajectory(step)["steps"]] == [None, True, None, None]
    masked = talk("u0", "a1", "u2", "a3", "u4", "a5", filter={"kept": True, "reason": None, "masked": [1, 5]})
    assert contents(chat.completion(masked)) == [("u0 a1 u2", "a3 u4 a5")] and chat.has_masked(masked)
    assert not chat.has_masked(step) and chat.chat(talk("u0", "x1")) == []


def test_pairs_do_not_wait_for_what_mle_filter_has_dropped() -> None:
    decision = {"kept": True, "reason": None, "arrived": 4, "members": 2}
    two = [talk("u0", f"a{at}", group_size=4, filter=decision, reward=at) for at in range(2)]
    assert not _is_complete(two[:1]) and _is_complete(two)
    dropped = talk("u0", "a2", group_size=4, filter={**decision, "kept": False})
    assert not _is_complete([two[0], dropped]) and _is_complete([dropped, *two])
    assert not _is_complete([talk("u0", "a1", group_size=2)])
