"""A policy that is trained while others sample from it: what is published, who waits for whom, the whole pipe, kills."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from conftest import ROOT, records, run_command

from mletools.base import published
from mletools.base.errors import OptionError, ToolError
from mletools.base.jsonl import Line
from mletools.models.options import ModelOptions
from mletools.models.policy_servers import load_adapter, load_all, load_newest, load_weights
from mletools.rollout.endless import Ahead, EndlessOptions, Source, State
from mletools.rollout.runner import Runner
from mletools.training import checkpoints
from mletools.training.algorithms import settle
from mletools.training.grpo import GrpoRun
from mletools.training.options import GrpoOptions
from mletools.training.publish import Publisher, StreamOptions

EXAMPLES = ROOT / "examples" / "tasks"


def write(folder: Path) -> None:
    (folder / "weights").write_text("w")


def publisher(folder: Path, **more) -> Publisher:
    return Publisher(**{"folder": folder, "urls": (), "name": "policy", "steps": 2, "rollouts": 8, "groups": 4, **more})


def test_what_is_published_is_the_newest_and_whole(tmp_path: Path) -> None:
    sink = publisher(tmp_path / "pub")
    assert published.newest(tmp_path / "pub") is None and published.wanted(tmp_path / "pub") is None
    assert sink.due(0)
    sink.publish(0, write)
    assert not sink.due(1) and sink.due(2)
    sink.publish(2, write, trained=12, refused=4)
    policy = published.newest(tmp_path / "pub")
    assert policy.version == 2 and policy.folder.name == "policy-000002" and (policy.folder / "weights").exists()
    assert published.wanted(tmp_path / "pub") == published.Demand(2, 8, 4, 16, False, began=sink.began)
    sink.starving(True, 6)
    assert published.wanted(tmp_path / "pub") == published.Demand(2, 8, 4, 18, True, began=sink.began)
    for version in (4, 6, 8):
        sink.publish(version, write)
    assert sorted(path.name for path in (tmp_path / "pub").glob("policy-*")) == [
        "policy-000004", "policy-000006", "policy-000008",
    ]  # fmt: skip


def test_a_folder_holds_the_policies_of_one_run(tmp_path: Path) -> None:
    publisher(tmp_path, run="one").publish(3, write)
    publisher(tmp_path, run="one").publish(2, write)  # it goes on from a checkpoint before
    with pytest.raises(ToolError, match="holds policies of another run: publish into another folder, or remove it"):
        publisher(tmp_path, run="other").publish(0, write)


def test_dropped_rollouts_let_a_sampler_begin_more(tmp_path: Path) -> None:
    """A step's worth was begun, a filter marked some of it: the sampler need not wait for a policy that cannot come."""
    sink = publisher(tmp_path)
    sink.publish(0, write)
    ahead = Ahead(tmp_path, 0)
    assert ahead.may(4)
    ahead.begun = 8
    assert not ahead.may(4)
    sink.starving(True, 4)
    assert ahead.may(4)
    ahead.begun = 12
    assert not ahead.may(4)


@pytest.mark.parametrize("policy", [True, False], ids=["that wait for room", "that wait for a first policy"])
def test_samplers_end_when_their_reader_has_gone(tmp_path: Path, policy: bool) -> None:
    if policy:
        publisher(tmp_path / "pub").publish(0, write)
    task = ROOT / "examples" / "tasks" / "tasks.jsonl"
    command = "mle-rollout -q -m scripted --forever --follow pub --max-staleness 0 -g 8 " + f"{task} | head -n 8 > out"
    if not policy:
        command = f"mle-rollout -q -m hf: --forever --follow pub {task} | true"
    done = subprocess.run(
        ["bash", "-c", command + '; exit "${PIPESTATUS[0]}"'], cwd=tmp_path, check=False, capture_output=True, text=True,
        timeout=120, env={**os.environ, "MLE_DATA": str(ROOT / "examples"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 141, done.stderr


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    with pytest.raises(ToolError, match="which is no published policy"):
        published.newest(tmp_path)
    (tmp_path / "wanted.json").write_text("{}")
    with pytest.raises(ToolError, match=r"wanted\.json: not readable"):
        published.wanted(tmp_path)


def test_a_version_published_again_is_never_missed(tmp_path: Path) -> None:
    """A run that is resumed publishes its version once more, while samplers read."""
    checkpoints.save(tmp_path, 3, write, {"policy_version": 3}, prefix="policy")
    done = threading.Event()

    def again() -> None:
        for _ in range(200):
            checkpoints.save(tmp_path, 3, write, {"policy_version": 3}, prefix="policy")
        done.set()

    writer = threading.Thread(target=again)
    writer.start()
    reads = 0
    while not done.is_set():
        policy = published.newest(tmp_path)
        assert policy is not None and policy.version == 3
        reads += 1
    writer.join()
    assert reads > 100 and not list(tmp_path.glob("*.partial"))


class Server:
    """Answers as `answers` says by path (status, body; 200 and {} where it has the path alone), 404 elsewhere.

    The first `failures` requests get 503. `told` holds path, body and status of all.
    """

    def __init__(self, answers: dict[str, tuple[int, str]], failures: int = 0) -> None:
        told = self.told = []
        left = [failures]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code, text = answers.get(self.path.partition("?")[0], (404, "no such endpoint"))
                code = 503 if left[0] > 0 else code
                left[0] -= 1
                told.append((self.path, body, code))
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def do_GET(self) -> None:
                code, text = answers.get(f"GET {self.path}", (404, "no such endpoint"))
                self.send_response(code)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


GOOD = (200, "{}")
VLLM = {"/pause": GOOD, "/collective_rpc": GOOD, "/reset_prefix_cache": (200, '{"success": true}'), "/resume": GOOD}


def test_a_server_is_told_of_each_version_until_it_listens(tmp_path: Path) -> None:
    server = Server({"/v1/load_lora_adapter": GOOD}, failures=2)
    load_adapter(server.url + "/v1", "policy", tmp_path, pause=0.01)
    assert [code for _, _, code in server.told] == [503, 503, 200]
    assert server.told[0][:2] == (
        "/v1/load_lora_adapter",
        {"lora_name": "policy", "lora_path": str(tmp_path), "load_inplace": True},
    )


def test_a_server_that_cannot_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="404 no such endpoint: does the server take adapters"):
        load_adapter(Server({}).url, "policy", tmp_path)
    with pytest.raises(ToolError, match=r"\(2 tries\): is the server up\?$"):
        load_adapter("http://127.0.0.1:9", "policy", tmp_path, tries=2, pause=0.01)


def test_full_weights_replace_a_paused_servers(tmp_path: Path) -> None:
    server = Server(VLLM, failures=1)
    load_weights(server.url + "/v1", tmp_path, pause=0.01)
    assert [(path, code) for path, _, code in server.told] == [
        ("/pause?mode=keep", 503),
        ("/pause?mode=keep", 200),
        ("/collective_rpc", 200),
        ("/reset_prefix_cache?reset_running_requests=true", 200),
        ("/resume", 200),
    ]
    assert server.told[2][1] == {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path)}}


def test_full_weights_go_into_sglang_too(tmp_path: Path) -> None:
    server = Server({"/update_weights_from_disk": (200, '{"success": true}')})
    load_weights(server.url, tmp_path)
    assert server.told[-1] == ("/update_weights_from_disk", {"model_path": str(tmp_path)}, 200)


@pytest.mark.parametrize(
    ("answers", "message", "last"),
    [
        ({}, "takes no full weights: start vLLM with VLLM_SERVER_DEV_MODE=1", "/update_weights_from_disk"),
        (
            {**VLLM, "/collective_rpc": (500, "no safetensors")},
            "500 no safetensors: can the server read this folder.*The server stays paused",
            "/collective_rpc",
        ),
        (
            {**VLLM, "/reset_prefix_cache": (200, '{"success": false}')},
            "its cache of prompts cannot be cleared",
            "/reset_prefix_cache",
        ),
        (
            {"/update_weights_from_disk": (400, '{"success": false, "message": "no config"}')},
            "400 .*no config.*can the server read this folder",
            "/update_weights_from_disk",
        ),
    ],
    ids=["without endpoints", "unreadable", "a cache that stays", "sglang"],
)
def test_a_server_that_takes_no_full_weights_never_resumes(
    tmp_path: Path, answers: dict[str, tuple[int, str]], message: str, last: str
) -> None:
    server = Server(answers)
    with pytest.raises(ToolError, match=message):
        load_weights(server.url, tmp_path)
    assert server.told[-1][0].partition("?")[0] == last


@pytest.mark.parametrize(
    ("device", "tied", "taken"), [("cpu", True, False), ("cpu", False, True), ("cuda", True, True)]
)
def test_vllm_on_a_cpu_does_not_reload_a_tied_output_layer(
    tmp_path: Path, device: str, tied: bool, taken: bool
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    server = Server({**VLLM, "GET /server_info": (200, f"model='m', device_config={device}, seed=0")})
    if taken:
        load_weights(server.url, tmp_path)
    else:
        with pytest.raises(ToolError, match="vLLM on a CPU keeps the output layer"):
            load_weights(server.url, tmp_path)
    assert bool(server.told) == taken


def test_a_version_is_the_newest_once_the_server_has_it(tmp_path: Path) -> None:
    """What a sampler records is never newer than the weights that answer."""
    answers = dict(VLLM)
    server = Server(answers)
    sink = publisher(tmp_path, urls=(server.url,))
    sink.publish(0, write)
    answers["/collective_rpc"] = (500, "out of memory")
    with pytest.raises(ToolError, match="out of memory"):
        sink.publish(2, write)
    assert published.newest(tmp_path).version == 0
    answers.update(VLLM)
    publisher(tmp_path, urls=(server.url,)).publish(2, write)  # the run goes on
    assert published.newest(tmp_path).version == 2
    loaded = [body["kwargs"]["weights_path"] for path, body, _ in server.told if path == "/collective_rpc"]
    assert loaded == [str(tmp_path / f"policy-00000{version}") for version in (0, 2, 2)]


def test_every_server_gets_every_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are up get it though another is down; the folder does not call it the newest before all have it."""
    monkeypatch.setattr("mletools.models.policy_servers.load_weights.__defaults__", (2, 0.01))

    def loaded(server: Server) -> list[str]:
        paths = [
            body["kwargs"]["weights_path"] for path, body, code in server.told if code == 200 and "weights" in str(body)
        ]
        return [Path(path).name for path in paths]

    answers, full = dict(VLLM), (500, "out of memory")
    up, full_up = Server(VLLM), Server(answers)
    sink = publisher(tmp_path, urls=(full_up.url, up.url + "/v1"))
    sink.publish(0, write)
    assert loaded(up) == loaded(full_up) == ["policy-000000"] and published.newest(tmp_path).version == 0
    answers["/collective_rpc"] = full
    down = "http://127.0.0.1:9"
    with pytest.raises(ToolError) as raised:
        publisher(tmp_path, urls=(down, up.url, full_up.url)).publish(2, write)
    assert f"{down}/pause?mode=keep: " in str(raised.value) and "(2 tries): is the server up?" in str(raised.value)
    assert str(raised.value).endswith(". The checkpoint is kept: go on with --resume")
    assert f"{full_up.url}/collective_rpc: 500 out of memory" in str(raised.value) and up.url not in str(raised.value)
    assert loaded(up)[-1] == "policy-000002" and published.newest(tmp_path).version == 0
    answers.update(VLLM)
    publisher(tmp_path, urls=(full_up.url, up.url)).publish(2, write)  # the run goes on
    assert loaded(full_up)[-1] == loaded(up)[-1] == "policy-000002" and published.newest(tmp_path).version == 2


def paths_given(server: Server) -> list[str]:
    return [Path(body["lora_path"]).name for path, body, code in server.told if code == 200]


def adapter(folder: Path) -> None:
    write(folder)
    (folder / "adapter_config.json").write_text("{}")


def test_a_server_that_was_restarted_gets_the_newest_policy_from_its_sampler(tmp_path: Path) -> None:
    server = Server({"/v1/load_lora_adapter": GOOD})
    options = EndlessOptions(follow=str(tmp_path), publish_url=(server.url, server.url + "/v1", server.url))
    models = ModelOptions(model="mine", model_url=server.url)
    run: Any = SimpleNamespace(say=print, pause=time.sleep)
    load_newest((server.url,), "policy", tmp_path)  # no policy yet
    assert not server.told
    for version in (0, 2):
        publisher(tmp_path).publish(version, adapter)
        options.model(run, models).close()
        assert paths_given(server)[-1] == f"policy-00000{version}"
    assert [body["lora_name"] for _, body, _ in server.told] == ["mine"] * 4  # two spellings of one server


def test_what_a_server_gets_last_is_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that begins while a version is published waits, and then loads that one."""
    server = Server({"/v1/load_lora_adapter": GOOD})
    publisher(tmp_path).publish(0, adapter)
    sampler = threading.Thread(target=load_newest, args=((server.url,), "policy", tmp_path))

    def serve(folder: Path) -> None:
        sampler.start()
        sampler.join(0.5)
        load_all((server.url,), "policy", folder)

    sink = publisher(tmp_path, urls=(server.url,))
    monkeypatch.setattr(sink, "_serve", serve)
    sink.publish(2, adapter)
    sampler.join()
    assert paths_given(server) == ["policy-000002", "policy-000002"]


def test_a_server_that_starts_costs_no_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mletools.models.policy_servers.LOOK", 0.01)
    starting, answers = (503, "loading"), {"GET /v1/models": (503, "loading"), "/v1/load_lora_adapter": GOOD}
    server = Server(answers)
    threading.Timer(0.5, answers.update, [{"GET /v1/models": (401, "no key")}]).start()
    adapter(tmp_path)
    load_all((server.url,), "policy", tmp_path, wait_s=60)
    assert len(server.told) == 1 and answers["GET /v1/models"] != starting


def test_servers_load_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits here until the other has begun: one after the other, they would wait for ever."""
    meeting = threading.Barrier(2, timeout=60)
    monkeypatch.setattr("mletools.models.policy_servers.load", lambda url, name, folder: meeting.wait())
    load_all(("http://a", "http://b"), "policy", tmp_path)
    assert not meeting.broken


@pytest.mark.parametrize("rank", [0, 16])
def test_weights_and_adapters_have_a_publisher(rank: int, tmp_path: Path) -> None:
    options = StreamOptions(publish=str(tmp_path), publish_url=("http://h/v1", "http://g/v1", "http://h/v1"))
    sink = options.publisher(GrpoOptions(lora_rank=rank), "run")
    assert sink is not None and sink.urls == ("http://h/v1", "http://g/v1")
    with pytest.raises(ToolError, match="--publish-url needs --publish DIR"):
        StreamOptions(publish_url=("http://h",)).publisher(GrpoOptions(lora_rank=rank), "run")


@pytest.mark.parametrize(
    ("streaming", "given", "message"),
    [
        ({}, {"max_staleness": 0}, "--max-staleness is about --stream"),
        ({"stream": True}, {"publish_steps": 2}, "--publish-steps needs --publish DIR"),
        ({"stream": True}, {"oversample": 2.0}, "--oversample needs --stream and --publish"),
        ({"stream": True}, {"epochs": 2}, "--stream makes one pass"),
        ({"wait_for_server": 5.0}, {}, "--wait-for-server is about --publish-url"),
    ],
)
def test_options_without_an_effect_are_refused(streaming: dict, given: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        StreamOptions(**streaming).check(given, given)
    StreamOptions().check({"max_staleness": None}, settle({}, "mle-rl"))  # a preset's own are no mistake


def test_a_step_is_of_rollouts_or_of_groups() -> None:
    with pytest.raises(OptionError, match="--batch and --groups-per-step exclude each other"):
        settle({"batch": 8, "groups_per_step": 2}, None)
    assert "batch" not in settle({"groups_per_step": 2}, "mle-rl")


def test_policies_are_published_beside_the_run(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--run-dir: policies need a folder of their own"):
        StreamOptions(publish=f"{tmp_path}/run/../pub").publisher(GrpoOptions(), str(tmp_path / "pub"))
    publisher(tmp_path).publish(3, write)
    with pytest.raises(ToolError, match="holds published policies and no run: choose another folder"):
        GrpoRun("model", tmp_path, GrpoOptions(), resume=True)


# The sampler's side


def may(folder: Path, most: int, groups: int, size: int = 4) -> int:
    """How many of `groups` groups are begun before the sampler waits."""
    ahead = Ahead(folder, most)
    for number in range(groups):
        if not ahead.may(size):
            return number
        ahead.begun += size
    return groups


def test_a_sampler_goes_no_further_ahead_than_it_may(tmp_path: Path) -> None:
    assert may(tmp_path, 0, 9) == 1  # nothing is known of the trainer: one group
    sink = publisher(tmp_path)
    sink.publish(0, write)
    assert may(tmp_path, 0, 9) == 2  # a step of 8 rollouts are two groups of four
    assert may(tmp_path, 1, 9) == 4
    ahead = Ahead(tmp_path, 0)
    assert ahead.may(4)
    ahead.begun = 8
    assert not ahead.may(4)
    sink.publish(2, write, trained=6, refused=2)
    assert ahead.may(4)
    ahead.begun = 16
    assert not ahead.may(4)
    sink.publish(4, write, trained=31 / 3, refused=17 / 3)  # shares of rollouts that were cut into steps
    assert published.wanted(tmp_path).used == 16 and ahead.may(4)


def test_what_a_trainer_holds_of_an_earlier_run_is_not_sampled_again(tmp_path: Path) -> None:
    publisher(tmp_path).publish(0, write)  # by a run that was killed
    ahead = Ahead(tmp_path, 0)
    assert ahead.may(4)  # steps of eight rollouts
    sink = publisher(tmp_path)
    sink.held = 4
    sink.publish(0, write)
    assert may(tmp_path, 0, 9) == 1
    ahead.begun = 4  # before it knew of the new trainer
    assert not ahead.may(4)
    sink.publish(1, write, trained=8)
    assert may(tmp_path, 0, 9) == 2  # for a sampler that joins now they are used
    assert ahead.may(4)
    ahead.begun = 12
    assert not ahead.may(4)
    sink = publisher(tmp_path)  # and again, from where it was
    sink.held = 12
    sink.publish(1, write)
    assert may(tmp_path, 1, 9) == 1
    sink.publish(2, write, trained=8)
    assert may(tmp_path, 1, 9) == 3  # four are still to be used


def test_groups_that_may_begin_at_once_are_sampled_together(tmp_path: Path) -> None:
    """Up to the engine's batch; the one that has to wait for the trainer keeps nobody waiting."""
    publisher(tmp_path).publish(0, write)  # steps of eight rollouts

    def sizes(staleness: int | None, groups: int, batch: int) -> list[int]:
        source = Source(Any, ("task",), 4, Ahead(tmp_path, staleness), None)

        def begun() -> Iterator[list[int]]:
            for _ in range(groups):
                assert source.ahead is not None
                source.ahead.begun += 4
                yield [0] * 4

        runner = SimpleNamespace(source=source, options=SimpleNamespace(group_size=4), batch=batch)
        return [len(list(items)) for items in Runner._streams(runner, begun())]

    assert sizes(0, 3, 64) == [8, 4]
    assert sizes(1, 5, 64) == [16, 4]
    assert sizes(1, 5, 12) == [12, 4, 4]
    assert sizes(2, 3, 64) == [12]  # the tasks end before
    assert sizes(None, 3, 64) == [4, 4, 4]


def test_steps_of_groups_are_counted_in_rollouts(tmp_path: Path) -> None:
    publisher(tmp_path, rollouts=None, groups=3).publish(0, write)
    assert may(tmp_path, 0, 9) == 3


def test_a_trainer_that_starves_gets_another_group(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mletools.rollout.endless.PAUSE", 0.02)
    sink = publisher(tmp_path)
    sink.publish(0, write)
    said: list[str] = []
    ahead = Ahead(tmp_path, 0, 0.1, say=said.append)
    ahead.wait(4)
    ahead.wait(4)
    waiting = threading.Thread(target=ahead.wait, args=(4,), daemon=True)
    waiting.start()
    sink.starving(True, 0)
    time.sleep(0.5)
    assert waiting.is_alive()  # its own rollouts are not done: there is nothing to conclude
    assert ahead.waited == 0.0  # and it is not idle
    ahead.finished(8)
    waiting.join(timeout=20)
    assert not waiting.is_alive() and ahead.begun == 12 and ahead.waited > 0
    assert [told[:39] for told in said] == ["the trainer has had nothing for 0.1 s, "]


@pytest.mark.parametrize("most", [0, None])
def test_a_trainer_that_has_ended_wants_no_more(tmp_path: Path, monkeypatch, most: int | None) -> None:
    monkeypatch.setattr("mletools.rollout.endless.PAUSE", 0.02)
    begun = time.time() - 60
    sink = publisher(tmp_path)
    sink.publish(0, write)
    ahead = Ahead(tmp_path, most, since=begun)
    assert ahead.wait(8)
    waiting = threading.Thread(target=ahead.wait, args=(8,), daemon=True)
    waiting.start()
    sink.end(0)
    sink.starving(True, 3)  # what it says afterwards changes nothing
    waiting.join(timeout=20)
    assert not waiting.is_alive() and not ahead.wait(8)
    # a sampler that begins later goes by a trainer that is still to come
    assert Ahead(tmp_path, most, since=time.time() + 60).wait(8)


def test_the_state_goes_on_behind_the_last_group(tmp_path: Path) -> None:
    lines = [Line("f", n, "", {"id": f"t{n}"}, None) for n in range(2)]
    state = State.read(tmp_path / "state", lines, 0)
    for _ in range(3):
        state.begun()
    assert State.read(tmp_path / "state", lines, 0).groups == 3
    with pytest.raises(ToolError, match="was kept for other tasks or another --seed"):
        State.read(tmp_path / "state", lines, 1)
    (tmp_path / "state").write_text("{")
    with pytest.raises(ToolError, match=r"is no state of mle-rollout .*: remove it to begin anew"):
        State.read(tmp_path / "state", lines, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forever": True}, "--forever never ends"),
        ({"state": "file"}, "--state is about --forever"),
        ({"follow": "pub", "max_staleness": 1}, "--max-staleness is about --forever"),
        ({"forever": True, "max_staleness": 1}, "--max-staleness: of which policy?"),
        ({"publish_url": ("http://a",)}, "--publish-url: which policy?"),
        ({"passes": 3}, "--passes is about --forever"),
        ({"draw": "learnable", "draw_from": "f"}, "--draw learnable is about --forever"),
        ({"forever": True, "draw": "learnable"}, "--draw learnable: by which rewards?"),
        ({"forever": True, "draw_from": "f"}, "--draw-from is about --draw learnable"),
        ({"forever": True, "draw": "learnable", "draw_from": "-"}, "--draw-from reads a file that grows"),
        ({"forever": True, "draw": "learnable", "draw_from": "f"}, "--draw learnable goes by the spread within groups"),
    ],
)
def test_options_that_do_not_go_together(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        EndlessOptions(**options).check("never ends" in message, 1 if "within groups" in message else 8)


@pytest.mark.parametrize("traces", [(), ("--max-traces", "3"), ("--max-traces", "1")])
def test_staleness_bounds_traces_that_come_one_by_one(traces: tuple[str, ...], tmp_path: Path) -> None:
    command = (
        "mle-rollout",
        "-m",
        "scripted",
        "--scaffold",
        "memory",
        *traces,
        "--forever",
        "--follow",
        "pub",
        "--dry-run",
    )
    tasks = EXAMPLES.joinpath("tasks.jsonl").read_bytes()
    done = run_command(
        *command, "--max-staleness", "1", input=tasks, cwd=tmp_path, check=False, MLE_DATA=str(ROOT / "examples")
    )
    refused = "--max-staleness bounds rollouts that come one by one, and traces do not: give --max-traces 1"
    assert (done.returncode, refused in done.stderr.decode()) == ((0, False) if traces[1:] == ("1",) else (2, True))


def test_passes_bound_the_rollouts_of_each_task(tmp_path: Path) -> None:
    """A run that goes on with the same --state begins what is left, and nothing once all is done."""
    tasks = EXAMPLES.joinpath("tasks.jsonl").read_bytes().split(b"\n")[:2]

    def rolled(passes: int) -> list[tuple[str, int]]:
        command = ("mle-rollout", "-m", "scripted", "-g", "2", "--forever", "--passes", str(passes), "--state", "state")
        made = records(
            run_command(*command, input=b"\n".join(tasks) + b"\n", cwd=tmp_path, MLE_DATA=str(ROOT / "examples")).stdout
        )
        assert len({record["id"] for record in made}) == len(made)
        return [(record["task"]["id"], record["sample"]) for record in made]

    once = rolled(1)
    assert sorted(rolled(3)) == sorted(once * 2) and len(once) == 4
    assert rolled(3) == []
