"""Jobs whose requests an engine samples in one call: who is sampled with whom, and requests that are at fault."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from mletools.base.errors import RecordError, ToolError
from mletools.models import ContextExceeded, Reply, Request
from mletools.rollout import metered_model
from mletools.rollout.metered_model import MeteredModel, _Waiting


class Engine:
    """Answers with the seed; notes the seeds of each call."""

    name, batch, version = "engine", 4, None

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        texts = [request.messages[0]["content"] for request in requests]
        if "long" in texts:
            error = ContextExceeded("too long")
            error.index = texts.index("long")
            raise error
        if "odd" in texts:
            raise RecordError("the template refuses it")
        if "broken" in texts:
            raise ToolError("the engine is broken")
        self.calls.append([request.seed for request in requests])
        return [Reply(str(request.seed)) for request in requests]

    def close(self) -> None:
        pass


def play(engine: Engine, jobs: list[list[str]]) -> list[Any]:
    """What each job's questions are answered with; job k asks with the seeds 10k, 10k + 1, ..."""
    model, answers = MeteredModel(engine), [None] * len(jobs)

    def job(at: int) -> None:
        try:
            answers[at] = [  # type: ignore[call-overload]
                model.ask("", [{"role": "user", "content": text}], 10 * at + turn, None, 9)
                for turn, text in enumerate(jobs[at])
            ]
        except Exception as error:
            answers[at] = error  # type: ignore[call-overload]
        finally:
            company.leave()

    with model.batch(len(jobs)) as company:
        threads = [threading.Thread(target=job, args=(at,)) for at in reversed(range(len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    return answers


def texts(answers: Any) -> list[str]:
    return [answer.get("text", "refused") for answer in answers]


def test_jobs_are_sampled_together_turn_by_turn_in_the_order_of_their_seeds() -> None:
    engine = Engine()
    answers = play(engine, [["a", "b", "c"], ["a"], ["a", "b"]])
    assert engine.calls == [[0, 10, 20], [1, 21], [2]]
    assert list(map(texts, answers)) == [["0", "1", "2"], ["10"], ["20", "21"]]


def test_a_job_that_asks_nothing_holds_up_nobody() -> None:
    engine = Engine()
    assert texts(play(engine, [[], ["a"], []])[1]) == ["10"]
    assert engine.calls == [[10]]


def test_a_question_that_is_too_long_is_refused_alone() -> None:
    engine = Engine()
    assert list(map(texts, play(engine, [["a"], ["long"], ["a"]]))) == [["0"], ["refused"], ["20"]]
    assert engine.calls == [[0, 20]]


def test_where_the_engine_does_not_say_whose_fault_it_is_each_is_sampled_alone() -> None:
    engine = Engine()
    first, second, third = play(engine, [["a"], ["odd"], ["a"]])
    assert (texts(first), texts(third)) == (["0"], ["20"])
    assert isinstance(second, RecordError)
    assert engine.calls == [[0], [20]]


def test_a_broken_engine_is_everybodys_error() -> None:
    answers = play(Engine(), [["a"], ["broken"]])
    assert [type(answer) for answer in answers] == [ToolError, ToolError]


def test_waiting_for_other_jobs_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of an answer count against --max-seconds."""
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    class Busy:
        def __enter__(self) -> None:
            clock[0] += 5  # another job's answer

        def __exit__(self, *error: object) -> None:
            pass

    one_by_one: Any = Engine()
    one_by_one.batch, one_by_one.slot = None, Busy()
    answer = MeteredModel(one_by_one).ask("", [{"role": "user", "content": "a"}], 1, None, 9)
    assert answer["seconds"] == 0 and clock[0] == 5


class Held(Engine):
    """Notes its calls as they begin, the first of which takes until `free` is set; `begun`: it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.free = threading.Event(), threading.Event()

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        if not self.begun.is_set():
            self.begun.set()
            assert self.free.wait(60)
        return super().sample(requests)


def ask_while_busy(engine: Held, questions: list[str]) -> list[Any]:
    """The answers to questions with the seeds 0, 1, ..., the first of which is under way when the others are asked."""
    model, answers = MeteredModel(engine), [None] * len(questions)

    def ask(seed: int) -> None:
        try:
            answers[seed] = model.ask("", [{"role": "user", "content": questions[seed]}], seed, None, 9)  # type: ignore[call-overload]
        except Exception as error:
            answers[seed] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(len(questions))]
    threads[0].start()
    assert engine.begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    while len(model._queue._waiting) < len(questions) - 1:
        time.sleep(0.001)
    engine.free.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return answers


def test_agents_that_wait_for_an_engine_in_this_process_are_sampled_together() -> None:
    engine = Held()
    answers = ask_while_busy(engine, ["a"] * 8)
    assert [answer["text"] for answer in answers] == [str(seed) for seed in range(8)]
    assert list(map(len, engine.calls)) == [1, 4, 3]  # the engine's batch is 4
    assert engine.calls[0] == [0] and sorted(seed for call in engine.calls for seed in call) == list(range(8))


def test_who_was_answered_together_asks_again_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metered_model, "_GATHER_S", 20)  # threads are late beside other tests
    engine = Engine()
    model = MeteredModel(engine)

    def ask(at: int) -> None:
        for turn in range(5):
            model.ask("", [{"role": "user", "content": "a"}], 10 * at + turn, None, 9)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [sorted(call) for call in engine.calls] == [[turn + 10 * at for at in range(4)] for turn in range(5)]


def test_an_agent_alone_waits_for_nobody() -> None:
    engine = Engine()
    model = MeteredModel(engine)
    asked = [model.ask("", [{"role": "user", "content": "a"}], seed, None, 9) for seed in range(7)]
    assert texts(asked) == [str(seed) for seed in range(7)]
    assert engine.calls == [[seed] for seed in range(7)]


def test_of_agents_that_are_sampled_together_only_those_at_fault_are_refused() -> None:
    answers = ask_while_busy(Held(), ["a", "long", "a", "odd"])
    assert [answers[0]["text"], "refused" in answers[1], answers[2]["text"]] == ["0", True, "2"]
    assert isinstance(answers[3], RecordError)


def test_an_engine_that_breaks_is_the_error_of_all_that_were_sampled_together() -> None:
    answers = ask_while_busy(Held(), ["a", "a", "broken"])
    assert answers[0]["text"] == "0" and [type(answer) for answer in answers[1:]] == [ToolError, ToolError]


def test_who_waits_for_an_engine_that_is_interrupted_does_not_wait_for_ever() -> None:
    class Interrupted(Held):
        def sample(self, requests: Sequence[Request]) -> list[Reply]:
            if self.begun.is_set():
                raise KeyboardInterrupt
            return super().sample(requests)

    model = MeteredModel(engine := Interrupted())
    engine.begun.set()
    model._queue._waiting.append(other := _Waiting(Request([], 1)))
    with pytest.raises(KeyboardInterrupt):
        model.ask("", [{"role": "user", "content": "a"}], 2, None, 9)
    with pytest.raises(KeyboardInterrupt):
        other.result()
