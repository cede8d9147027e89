"""What holds for every rollout in turns, whoever plays: exact tokens, nothing told that is secret, the pipe after it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conftest import records, run_command, without_times
from model_server import END, prompt_ids, token_ids
from played import THRESHOLDS, table_of


def check_tokens(record: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> int:
    """The ids of the messages are what the server saw and said; how many sequences they are.

    `requests` are the bodies that the server got, from any rollout.
    """
    asked = {tuple(prompt_ids(body["messages"])) for body in requests}
    own = [at for at, message in enumerate(record["messages"]) if message.get("loss")]
    assert [turn["message"] for turn in record["turns"]] == own
    sequence: list[int] = []
    sequences = 1
    for at, message in enumerate(record["messages"]):
        if "prompt_token_ids" in message:
            assert message["loss"] and not record["messages"][at - 1].get("token_ids")
            sequence, sequences = list(message["prompt_token_ids"]), sequences + 1
        if at in own:
            turn = record["turns"][own.index(at)]
            assert tuple(sequence) in asked and turn["usage"]["prompt_tokens"] == len(sequence)
            calls = message.get("tool_calls")
            said = [*token_ids(message["content"] + (json.dumps(calls) if calls else "")), END]
            cut = turn["problem"] == "length"
            assert message["token_ids"] == (said[:-1] if cut else said)
            assert turn["usage"]["completion_tokens"] == len(message["token_ids"])
            assert message["logprobs"] == [-(one % 7 + 1) / 8 for one in message["token_ids"]]
        else:
            assert "logprobs" not in message and "loss" not in message
        sequence += message.get("token_ids", [])
    for name in ("prompt_tokens", "completion_tokens"):
        assert record["usage"][name] >= sum(turn["usage"][name] for turn in record["turns"])
    return sequences


def answers(
    record: Mapping[str, Any],
) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[int], list[dict[str, Any]]]]:
    """For each message of the policy: its turn, the message, the ids of its prompt, the messages in its prompt."""
    turns = {turn.get("message", len(record["messages"]) - 1): turn for turn in record["turns"]}
    prompt: list[int] = []
    for place, message in enumerate(record["messages"]):
        if "prompt_token_ids" in message:
            prompt = message["prompt_token_ids"]
        if message.get("loss"):
            turn = turns.pop(place)
            dropped = turn.get("dropped", ())
            yield (
                turn,
                message,
                prompt,
                [said for at, said in enumerate(record["messages"][:place]) if at not in dropped],
            )
        prompt = prompt + message.get("token_ids", [])
    assert not turns


def check_protocol(messages: list[dict[str, Any]]) -> None:
    """What OpenAI's and vLLM's servers refuse with 400: calls without an answer, answers without a call, bad JSON."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "a call has no answer"
        open_calls = [each["id"] for each in message.get("tool_calls", ())]
        for each in message.get("tool_calls", ()):
            assert isinstance(json.loads(each["function"]["arguments"]), dict)
    assert not open_calls


def observed(record: dict[str, Any], turn: int) -> str:
    """What was said after a turn."""
    return str(record["messages"][record["turns"][turn]["message"] + 1]["content"])


# What models are told of measured times. Tokens are words here, so their number depends on it too.
TIMES = re.compile(r"after \d+ s|in less than a second")


def steady(record: Any) -> Any:
    """A record without what is measured, also in the words of what was observed, and without the number of these words."""
    text = TIMES.sub("soon", json.dumps(without_times(record)))
    found = json.loads(text, object_hook=lambda each: {key: each[key] for key in each if key != "prompt_tokens"})
    for message in found.get("messages", ()):
        if not message.get("loss"):
            message.pop("token_ids", None)
        message.pop("prompt_token_ids", None)
    return found


def alike(one: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these are the same records, in any order, but for what is measured."""
    first, second = ({record["id"]: steady(record) for record in each} for each in (list(one), list(other)))
    assert first == second  # pytest tells where they differ
    return True


def told(made: Iterable[Mapping[str, Any]], requests: Iterable[Mapping[str, Any]]) -> str:
    """All that was said to models, and all messages of records."""
    every = [message for body in requests for message in body["messages"]]
    every += [message for record in made for message in record["messages"]]
    return "\n".join(dict.fromkeys(str(message["content"]) for message in every))


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d+", text))


def secrets_of(data: Path, task: Mapping[str, Any]) -> set[str]:
    """Numbers that nobody may be told: answers, thresholds, a leaderboard, the validation rows' answers.

    Of rows that are held out only to choose a candidate an agent has the answers, in its train.csv.
    """
    found = {f"{value:g}" for value in THRESHOLDS.values()}
    for path in [data / task["data"]["dir"] / "private", *data.glob(f"views/{task['id']}-*/private")]:
        for file in path.iterdir():
            found |= {row[-1] for row in table_of(file)}
    return found - {row[-1] for view in data.glob(f"views/{task['id']}-0.2/public/train.csv") for row in table_of(view)}


def check_nothing_told(data: Path, made: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]) -> None:
    """No model was told a secret, or a test score that is not the validation score too."""
    numbers = _numbers(told(made, requests))
    tasks = {record["task"]["id"]: record["task"] for record in made}
    for task in tasks.values():
        assert not numbers & secrets_of(data, task)
    for record in made:
        for turn in record["turns"]:
            score, shown = (((turn.get(key) or {}).get("score")) for key in ("grade", "validation"))
            if score is not None and score != shown:
                assert not numbers & {f"{score:.{digits}g}" for digits in range(3, 8)} | {str(score)} & numbers
    text = told(made, requests)
    assert str(data) not in text and "leaderboard" not in text


def graded(folder: Path, made: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """The records after mle-instrument, mle-sandbox and mle-grade, which leave all that an agent did as it was."""
    content = "".join(json.dumps(record) + "\n" for record in made).encode()
    for stage in (("mle-instrument",), ("mle-sandbox", "-k", "--preimport", ""), ("mle-grade", "-k", *options)):
        content = run_command(*stage, "-q", input=content, cwd=folder).stdout
    after = records(content)
    added = ("lineage", "instrument", "grade", "reward")
    assert [{k: v for k, v in record.items() if k not in added} for record in after] == [
        {k: v for k, v in record.items() if k not in added} for record in made
    ]
    assert all([each["tool"] for each in record["lineage"]][-3:] == [
        "mle-instrument", "mle-sandbox", "mle-grade"] for record in after)  # fmt: skip
    return after
