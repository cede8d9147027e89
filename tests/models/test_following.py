"""A model that follows a trainer: which weights answer, what is loaded anew, and who waits for whom."""

import json
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from model_server import FaultyServer
from scaffold_task import TASK

from mletools.models import Reply, Request, ServerOptions
from mletools.models.following import FollowingModel
from mletools.models.http import HttpModel
from mletools.records import schema
from mletools.rollout.metered_model import MeteredModel
from mletools.scaffolds.episode import Episode
from mletools.scaffolds.interface import Job
from mletools.scaffolds.react import ReactSettings
from mletools.training.samples import sample_of


class Engine:
    """Answers with the name of its folder, once `gate` is open; does not swap."""

    def __init__(self, path: str, batch: int | None = None) -> None:
        self.name, self.batch, self.version = Path(path).name, batch, None
        self.gate, self.inside = threading.Event(), threading.Semaphore(0)
        self.gate.set()
        self.closed = False

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        name = self.name
        self.inside.release()
        assert self.gate.wait(20) and not self.closed
        return [Reply(name) for _ in requests]

    def close(self) -> None:
        self.closed = True


class SwappingEngine(Engine):
    """Swaps; folders that hold a full model only while it is idle, folders of another architecture never."""

    def swap(self, path: str, idle: bool) -> bool:
        kinds = {each.name for each in Path(path).iterdir()}
        if "other" in kinds or ("full" in kinds and not idle):
            return False
        self.name = Path(path).name
        return True


def publish(folder: Path, version: int, kind: str | None = None) -> None:
    made = folder / f"policy-{version}"
    made.mkdir()
    (made / "state.json").write_text(json.dumps({"policy_version": version}))
    if kind:
        (made / kind).touch()
    os.symlink(made.name, folder / "new")
    os.replace(folder / "new", folder / "latest")


def following(folder: Path, kind: type[Engine], batch: int | None = None) -> tuple[FollowingModel, list[Engine]]:
    """The model, and every engine that it has opened."""
    opened: list[Engine] = []

    def open(path: str) -> Engine:
        opened.append(kind(path, batch))
        return opened[-1]

    publish(folder, 0)
    return FollowingModel(folder, None, open), opened


def ask(model: FollowingModel) -> str:
    return model.sample([Request([], 1)])[0].text


class Asking(threading.Thread):
    """Asks in a thread of its own; said() is the answer."""

    def __init__(self, model: FollowingModel) -> None:
        super().__init__(daemon=True)
        self.model, self.answer = model, ""
        self.start()

    def run(self) -> None:
        self.answer = ask(self.model)

    def said(self) -> str:
        self.join(20)
        assert not self.is_alive()
        return self.answer


def test_an_engine_that_swaps_stays_and_one_that_does_not_is_opened_anew(tmp_path: Path) -> None:
    for kind, engines in ((SwappingEngine, 1), (Engine, 2)):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        model, opened = following(folder, kind)
        assert (ask(model), model.version) == ("policy-0", 0)
        publish(folder, 1)
        assert (ask(model), model.version) == ("policy-1", 1)
        assert len(opened) == engines and [each.closed for each in opened] == [True, False][-engines:]


def test_each_message_says_which_policy_sampled_it(tmp_path: Path) -> None:
    model, _ = following(tmp_path, SwappingEngine)
    metered = MeteredModel(model)
    job = Job("id", "group", 1, 0, 0, TASK, {"model": "m", "version": 0, "sampling": {}}, "react", ReactSettings())
    environment = SimpleNamespace(
        ask=lambda who, role, messages, seed, tools, most: metered.ask(role, [], seed, tools, 9)
    )
    episode = Episode(job, environment, [{"role": "user", "content": "begin"}])  # type: ignore[arg-type]
    for version in (0, 1, 3):
        publish(tmp_path, version) if version else None
        episode.ask()
        episode.observe("go on")
    record = episode.record("finished")
    schema.check(record, "rollout")
    own = [message for message in record["messages"] if message.get("loss")]
    assert [message["policy_version"] for message in own] == [0, 1, 3]
    # a trainer goes by the oldest message that it trains on
    tokens = {"token_ids": [1], "logprobs": [0.0]}
    record["messages"] = [{**message, **tokens} for message in record["messages"]]
    assert sample_of(record).policy_version == 0
    for message in record["messages"][:3]:
        message["loss"] = False
    assert sample_of(record).policy_version == 1
    assert "policy_version" not in MeteredModel(SwappingEngine("policy-0", 1)).ask("", [], 1, None, 9)


def test_another_architecture_is_opened_anew(tmp_path: Path) -> None:
    model, opened = following(tmp_path, SwappingEngine)
    publish(tmp_path, 1, "other")
    assert ask(model) == "policy-1" and len(opened) == 2 and opened[0].closed


def test_all_weights_are_swapped_when_no_answer_runs(tmp_path: Path) -> None:
    model, opened = following(tmp_path, SwappingEngine)
    (engine,) = opened
    engine.gate.clear()
    first = Asking(model)
    assert engine.inside.acquire(timeout=20)
    publish(tmp_path, 1, "full")
    others = [Asking(model) for _ in range(3)]
    for other in others:
        other.join(0.1)
        assert other.is_alive()
    engine.gate.set()
    assert first.said() == "policy-0" and {other.said() for other in others} == {"policy-1"}
    assert len(opened) == 1 and not engine.closed and model.version == 1


def test_answers_are_begun_and_adapters_swapped_while_others_wait(tmp_path: Path) -> None:
    model, (engine,) = following(tmp_path, SwappingEngine)
    engine.gate.clear()
    first = Asking(model)
    assert engine.inside.acquire(timeout=20)
    publish(tmp_path, 1)
    second = Asking(model)
    assert engine.inside.acquire(timeout=20)  # while the first has no answer yet
    engine.gate.set()
    assert (first.said(), second.said()) == ("policy-0", "policy-1")


def test_an_engine_is_closed_only_when_nobody_waits_for_it(tmp_path: Path) -> None:
    model, opened = following(tmp_path, Engine)
    opened[0].gate.clear()
    first = Asking(model)
    assert opened[0].inside.acquire(timeout=20)
    publish(tmp_path, 1)
    others = [Asking(model) for _ in range(3)]
    for other in others:
        other.join(0.1)
        assert other.is_alive()
    assert len(opened) == 1 and not opened[0].closed
    opened[0].gate.set()
    assert first.said() == "policy-0" and {other.said() for other in others} == {"policy-1"}
    assert len(opened) == 2 and opened[0].closed


@pytest.mark.parametrize(("batch", "at_once"), [(None, 2), (8, 1), (1, 1)])
def test_an_engine_of_batches_is_asked_by_one_at_a_time(tmp_path: Path, batch: int | None, at_once: int) -> None:
    model, (engine,) = following(tmp_path, Engine, batch)
    engine.gate.clear()
    asking = [Asking(model) for _ in range(2)]
    assert [engine.inside.acquire(timeout=20 if n < at_once else 0.3) for n in range(2)] == [True, at_once == 2]
    engine.gate.set()
    assert [each.said() for each in asking] == ["policy-0"] * 2


def test_a_policy_that_is_cleared_away_while_it_is_loaded_gives_way_to_the_newest(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    tried: list[str] = []

    def open(path: str) -> Engine:
        tried.append(Path(path).name)
        if tried == ["policy-1"]:
            publish(tmp_path, 2)
            shutil.rmtree(path)
            raise OSError("no such file")
        return Engine(path)

    model = FollowingModel(tmp_path, None, open)
    assert tried == ["policy-1", "policy-2"] and model.version == 2
    broken = FollowingModel(tmp_path, None, Engine)

    def refuses(path: str) -> Engine:
        raise OSError("no memory")

    broken._open = refuses
    publish(tmp_path, 3)
    with pytest.raises(OSError, match="no memory"):
        broken.sample([Request([], 0)])


def test_a_server_answers_no_new_version_from_what_it_computed_for_an_old_one(tmp_path: Path) -> None:
    with FaultyServer(lambda body: "That one.") as server:
        at_server = HttpModel("policy", ServerOptions(server.url))
        publish(tmp_path, 1)
        model = FollowingModel(tmp_path, at_server, None)
        question = Request([{"role": "user", "content": "Which?"}], 0)
        for version in (1, 1, 2):
            if version == 2:
                publish(tmp_path, 2)
            model.sample([question])
        at_server.sample([question])
        salts = [body.get("cache_salt") for body in server.requests]
    assert salts[0] == salts[1] is not None and salts[2] not in (None, salts[0]) and salts[3] is None


def test_an_engine_of_batches_says_its_version_while_it_answers(tmp_path: Path) -> None:
    """Else those who ask for the version before they ask for an answer would come one by one."""
    model, (engine,) = following(tmp_path, SwappingEngine, 8)
    engine.gate.clear()
    asked = threading.Thread(target=model.sample, args=([Request([], 1)],))
    asked.start()
    assert engine.inside.acquire(timeout=20)
    publish(tmp_path, 1)
    assert model.version == 0  # and does not wait
    engine.gate.set()
    asked.join(20)
    assert model.version == 1
