"""Steps that prime-rl's trainer takes: what it is given, what comes back, and who of the two may die when."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import prime_rl_trainer
import pytest
from conftest import ROOT

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mletools.base import published
from mletools.base.errors import OptionError, RecordError, ToolError
from mletools.records import schema
from mletools.training import checkpoints, handover, prime_rl
from mletools.training.handover import EngineOptions, HandoverRun
from mletools.training.options import GrpoOptions
from mletools.training.prime_rl import TrainerFolder, WeightsGone, pack
from mletools.training.publish import Publisher
from mletools.training.samples import Sample, TokenSequence
from mletools.training.steps import OptimiserStep, Row

BIN = Path(sys.executable).parent
TASK = json.loads((ROOT / "examples" / "tasks" / "tasks.jsonl").read_text().split("\n")[0])
OPTIONS = GrpoOptions(engine="prime-rl", groups_per_step=1, scale_rewards="none", temperature=0.7)


def rollouts(count: int, size: int = 4, **more) -> list[dict]:
    """Groups of four; a rollout of two turns with what the programs said between them."""
    made = []
    for number in range(count):
        own = [20 + (7 * number + 3 * j) % 230 for j in range(5 + number % 4)]
        marked = {"role": "assistant", "content": "a forest", "loss": True}
        made.append(
            {
                "kind": "rollout", "version": 1, "id": f"r{number:04d}", "lineage": [], "task": TASK, "group": f"g{number // size}",
                "group_size": size, "sample": number % size, "seed": 0, "scaffold": "single",
                "policy": {"model": "nano", "version": 0, "sampling": {"temperature": 0.7, "top_p": 1.0}},
                "messages": [
                    {"role": "user", "content": "Which model?", "token_ids": [1, 2, 3]},
                    {**marked, "token_ids": own, "logprobs": [-0.1 * j - number for j in range(len(own))]},
                    {"role": "user", "content": "0.7", "token_ids": [4, 5]},
                    {**marked, "token_ids": [6, 7], "logprobs": [-1, -2.5]},
                ],
                "turns": [{"action": "solve", "duration_s": 1.0 + number % 3}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 8, "seconds": 1.0, "usd": None},
                "stop_reason": "finished", "code": "1", "reward": float(number % size), **more,
            }
        )  # fmt: skip
    return made


@pytest.fixture
def trainer() -> Iterator[Callable[..., subprocess.Popen]]:
    started: list[subprocess.Popen] = []

    def start(folder: Path, **options) -> subprocess.Popen:
        command = [sys.executable, prime_rl_trainer.__file__, str(folder)]
        for name, value in options.items():
            given = value if isinstance(value, list) else [] if value is True else [value]
            command += [f"--{name.replace('_', '-')}", *map(str, given)]
        started.append(subprocess.Popen(command, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def watching(process: subprocess.Popen) -> Callable[[float], None]:
    """To wait for a trainer that must not end before its last step."""

    def pause(seconds: float) -> None:
        assert process.poll() in (None, 0), "the trainer refused a batch"
        time.sleep(0.05)

    return pause


def engine(folder: Path, **more) -> EngineOptions:
    return EngineOptions(**{"engine_dir": str(folder), "engine_ranks": 2, "engine_tokens": 64, **more})


def batches(folder: Path) -> dict[str, bytes]:
    """All that a trainer may see in the folder of batches."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("rollouts/step_*/*"))}


def trained(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "trained.jsonl").read_text().splitlines()]


# What a batch is


def row(ids: list[int], mask: list[int], advantage: float, of: str) -> Row:
    sample = Sample(of, of[0], (), 1.0)
    return Row(TokenSequence(ids, mask, [-float(token) if own else 0.0 for token, own in zip(ids, mask, strict=True)]), advantage, sample)  # fmt: skip


def written(step: OptimiserStep, folder: Path, **more) -> list[list[prime_rl_trainer.MicroBatch]]:
    batch = pack(step, 0.7, **{"tokens": 64, "ranks": 2, **more})
    place = TrainerFolder(folder)
    place.prepare(1, batch)
    assert batches(folder) == {}
    place.hand_over(1)
    return prime_rl_trainer.read(folder / "rollouts" / "step_1", len(batch))


def test_what_the_trainer_reads_is_aligned_token_for_token(tmp_path: Path) -> None:
    rows = [
        row([11, 12, 13, 14], [0, 1, 0, 1], 0.5, "a0"),
        row([21, 22, 23], [0, 0, 1], -2.0, "a1"),
        row([31, 32], [0, 1], -2.0, "a1"),  # the same rollout, told anew
    ]
    (micro,) = written(OptimiserStep(rows, [], 1), tmp_path, ranks=1)[0]
    order = [micro.input_ids[: micro.seq_lens[0]], micro.seq_lens]
    assert order == [[11, 12, 13, 14], [4, 3, 2]]
    assert micro.input_ids == [11, 12, 13, 14, 21, 22, 23, 31, 32]
    assert micro.loss_mask == [False, True, False, True, False, False, True, False, True]
    assert micro.advantages == [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, -2.0, 0.0, -2.0]
    assert micro.inference_logprobs == [0.0, -12.0, 0.0, -14.0, 0.0, 0.0, -23.0, 0.0, -32.0]
    assert micro.position_ids == [0, 1, 2, 3, 0, 1, 2, 0, 1]
    assert micro.sequence_lengths == [4, 3, 2] and set(micro.temperatures) == {0.7}


def test_the_first_token_of_a_sequence_has_no_loss(tmp_path: Path) -> None:
    """What stands before it in a micro-batch is another sequence."""
    rows = [row([11, 12], [1, 1], 1.0, "a0"), row([21, 22], [1, 1], 1.0, "a1")]
    (micro,) = written(OptimiserStep(rows, [], 1), tmp_path, ranks=1)[0]
    assert micro.loss_mask == [False, True, False, True] and micro.advantages == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_ranks_take_as_many_passes_and_each_row_once(tmp_path: Path, ranks: int) -> None:
    rows = [row([n] * (3 + 5 * n % 17), [0] + [1] * (2 + 5 * n % 17), float(n), f"a{n}") for n in range(1, 8)]
    batch = written(OptimiserStep(rows, [], 1), tmp_path, tokens=24, ranks=ranks)
    assert len(batch) == ranks
    assert all(len(micro.input_ids) <= 24 for share in batch for micro in share)
    found = sorted(part["input_ids"] for part in prime_rl_trainer.sequences(batch))
    assert found == sorted(one.tokens.input_ids for one in rows)
    own = sum(sum(micro.loss_mask) for share in batch for micro in share)
    assert own == sum(one.tokens.loss_tokens for one in rows)  # what the loss is divided by
    silent = [micro for share in batch for micro in share if not any(micro.loss_mask)]
    assert all(set(micro.advantages) == {0.0} for micro in silent) and bool(silent) == (ranks == 8)


def test_micro_batches_are_padded_for_context_parallelism(tmp_path: Path) -> None:
    rows = [row([11, 12, 13], [0, 1, 1], 1.0, "a0"), row([21, 22], [0, 1], 1.0, "a1")]
    batch = written(OptimiserStep(rows, [], 1), tmp_path, tokens=7, ranks=1, multiple=4)
    assert [len(micro.input_ids) for micro in batch[0]] == [4, 4]  # five tokens would fit into 7, but not into 4
    assert [sum(micro.loss_mask) for micro in batch[0]] == [2, 1]
    assert [micro.position_ids for micro in batch[0]] == [[0, 1, 2, 3]] * 2


# A run


def test_two_steps_and_the_weights_between_them(nano, tmp_path, trainer) -> None:
    """Advantages, masks and logprobs arrive; versions rise as the trainer publishes, and samplers get them whole."""
    folder = tmp_path / "engine"
    pause = watching(trainer(folder, ranks=2, steps=2, lag=0.3, weights=[nano / "model.safetensors"]))
    publisher = Publisher(tmp_path / "pub", None, "policy", 1, None, 1, "run")
    run = HandoverRun(str(nano), tmp_path / "run", OPTIONS, engine(folder), publisher=publisher, pause=pause)
    seen = []
    for record in run.train(rollouts(8)):
        schema.check({"kind": "train_step", "version": 1, "id": "s", "lineage": [], **record}, "train_step")
        newest = published.newest(tmp_path / "pub")
        seen.append((record["policy_version"], record["engine_version"], newest and newest.version))
    # the second is decided on when the trainer has published what it made of the first
    assert [version for version, _, _ in seen] == [1, 2] and seen[0][1] in (None, 0) and seen[1][1:] == (1, 1)
    assert record["loss"] is None and record["grad_norm"] is None and record["engine"] == "prime-rl"
    assert (record["rollouts"], record["sequences"], record["staleness_max"]) == (4, 4, 1)
    newest = published.newest(tmp_path / "pub")
    assert newest is not None and newest.version == 2 and published.wanted(tmp_path / "pub").used == 8
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained(newest.folder).num_parameters() > 0
    assert AutoTokenizer.from_pretrained(newest.folder)("a forest")["input_ids"]

    steps = trained(folder)
    assert [step["step"] for step in steps] == [1, 2]
    for step, records in zip(steps, (rollouts(8)[:4], rollouts(8)[4:]), strict=True):
        by_ids = {tuple(part["input_ids"]): part for part in step["rows"]}
        assert len(by_ids) == 4 and record["tokens"] == sum(sum(part["loss_mask"]) for part in steps[1]["rows"])
        for one in records:
            asked, said, shown, told = (message["token_ids"] for message in one["messages"])
            part = by_ids[(*asked, *said, *shown, *told)]
            mask = [False] * 3 + [True] * len(said) + [False] * 2 + [True] * 2
            assert part["loss_mask"] == mask
            assert part["advantages"] == [(one["reward"] - 1.5) * own for own in mask]
            scores = [*one["messages"][1]["logprobs"], *one["messages"][3]["logprobs"]]
            assert [score for score, own in zip(part["inference_logprobs"], mask, strict=True) if own] == scores


def test_a_stream_follows_while_it_waits_for_rollouts(nano, tmp_path, trainer) -> None:
    """A sampler that may not go on before the next version gets it: nobody waits for the other for ever."""
    folder, pub = tmp_path / "engine", tmp_path / "pub"
    trainer(folder, ranks=2, steps=3, lag=0.2, weights=[nano / "model.safetensors"])
    publisher = Publisher(pub, None, "policy", 1, None, 1, "run")
    options = replace(OPTIONS, max_staleness=0, max_steps=3)
    run = HandoverRun(str(nano), tmp_path / "run", options, engine(folder), publisher=publisher)

    def sampled() -> Iterator[dict]:
        records = rollouts(12)
        for group in range(3):
            until = time.monotonic() + 60
            while (newest := published.newest(pub)) is None or newest.version < group:
                assert time.monotonic() < until, "no new version came"
                time.sleep(0.05)
            for record in records[4 * group : 4 * group + 4]:
                yield {**record, "policy": {**record["policy"], "version": newest.version}}

    steps = list(run.train_stream(sampled()))
    assert [step["staleness_max"] for step in steps] == [0, 0, 0] and not +run.dropped
    assert published.newest(pub).version == 3 and published.wanted(pub).ended


def test_what_is_stale_when_the_trainer_can_take_it_is_left_out(nano, tmp_path) -> None:
    options = replace(OPTIONS, max_staleness=1)
    run = HandoverRun(str(nano), tmp_path / "run", options, engine(tmp_path / "engine", engine_ahead=9))
    assert [step["staleness_max"] for step in run.train_stream(rollouts(16))] == [0, 1]
    assert run.dropped == {"stale": 8}


def test_the_trainer_is_never_given_more_than_it_may_have(nano, tmp_path, monkeypatch) -> None:
    """Without a trainer: one step, or as many as --engine-ahead says; then the command says what it waits for."""
    monkeypatch.setattr(handover, "NOTICE", 0.0)

    class Enough(Exception):
        pass

    for ahead in (1, 3):
        folder, said, looks = tmp_path / f"engine{ahead}", [], []

        def pause(seconds: float, looks: list = looks) -> None:
            looks.append(seconds)
            if len(looks) == 3:
                raise Enough

        run = HandoverRun(str(nano), tmp_path / f"run{ahead}", OPTIONS, engine(folder, engine_ahead=ahead), pause=pause)
        run.say = said.append
        with pytest.raises(Enough):
            list(run.train(rollouts(24)))
        assert TrainerFolder(folder).handed_over() == run.step == ahead
        assert len(said) == 2 and "does it run" in said[0] and "published no weights" in said[0]


class Killed:
    """Kill this process by the n-th call of a function, before it or behind it."""

    def __init__(self, owner: object, name: str, at: int, behind: bool = False):
        self.owner, self.name, self.at, self.behind = owner, name, at, behind

    def arm(self) -> None:
        real, calls = getattr(self.owner, self.name), []

        def call(*args, **more):
            calls.append(1)
            if self.behind and len(calls) == self.at:
                real(*args, **more)
            if len(calls) == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        setattr(self.owner, self.name, call)


KILLS = {
    "half a batch": Killed(prime_rl.msgspec.msgpack, "encode", 4),  # one rank of two
    "prepared": Killed(checkpoints, "save", 2),
    "decided": Killed(TrainerFolder, "hand_over", 2),
    "handed over": Killed(TrainerFolder, "hand_over", 2, behind=True),
    "last decided": Killed(TrainerFolder, "hand_over", 4),
    "half a checkpoint": Killed(HandoverRun, "write_history", 2),
}


@pytest.mark.parametrize("stream", [False, True], ids=["held", "stream"])
@pytest.mark.parametrize("when", KILLS)
def test_kill_9_gives_the_trainer_each_batch_once(nano, tmp_path, when: str, stream: bool) -> None:
    """The batches of a killed and resumed run are those of an undisturbed one, byte for byte; none is written twice."""

    def records(name: str, resume: bool = False) -> list[dict]:
        given = engine(tmp_path / name, engine_ahead=9)
        run = HandoverRun(str(nano), tmp_path / f"run-{name}", OPTIONS, given, resume)
        made = list((run.train_stream if stream else run.train)(rollouts(16)))
        assert checkpoints.read_state(checkpoints.load_latest(run.out))["step"] == 4
        return made

    whole = records("whole")
    child = os.fork()
    if child == 0:
        KILLS[when].arm()
        try:
            records("killed")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = batches(tmp_path / "killed")
    assert left.items() <= batches(tmp_path / "whole").items() and len(left) % 2 == 0
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed" / "rollouts").glob("step_*")}
    rest = records("killed", resume=True)
    assert batches(tmp_path / "killed") == batches(tmp_path / "whole")
    assert [path.name for path in (tmp_path / "killed" / "rollouts").glob(".step*")] == []
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    measured = ("duration_s", "engine_waited_s", "waited_s", "elapsed_s", "received")
    for one, other in zip(rest, whole[4 - len(rest) :], strict=True):
        assert {k: v for k, v in one.items() if k not in measured} == {
            k: v for k, v in other.items() if k not in measured
        }


def test_a_trainer_that_dies_and_goes_back_reads_the_same_batches(nano, tmp_path, trainer) -> None:
    folder, pub = tmp_path / "engine", tmp_path / "pub"
    weights = [nano / "model.safetensors"]
    first = trainer(folder, ranks=2, steps=4, die=3, weights=weights, lag=0.1)
    versions, second = [], []

    def pause(seconds: float) -> None:
        newest = published.newest(pub)
        versions.append(newest.version if newest else -1)
        if first.poll() is not None and versions.count(2) >= 3 and not second:
            second.append(trainer(folder, ranks=2, steps=4, start=2, weights=weights))  # its checkpoint was older
        time.sleep(0.05)

    publisher = Publisher(pub, None, "policy", 1, None, 1, "run")
    run = HandoverRun(str(nano), tmp_path / "run", OPTIONS, engine(folder), publisher=publisher, pause=pause)
    assert [step["policy_version"] for step in run.train(rollouts(16))] == [1, 2, 3, 4]
    assert first.returncode == 9 and versions == sorted(versions)  # half of step 3's weights were no version
    steps = trained(folder)
    assert [step["step"] for step in steps] == [1, 2, 3, 2, 3, 4]
    assert steps[1] == steps[3] and steps[2] == steps[4] and published.newest(pub).version == 4


@pytest.mark.slow
def test_a_reader_that_leaves_ends_the_run_and_the_next_session_goes_on(nano, tmp_path, trainer) -> None:
    folder = tmp_path / "engine"
    trainer(folder, ranks=1, steps=3, weights=[nano / "model.safetensors"])
    (tmp_path / "graded.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rollouts(12)))
    line = (
        f"{BIN}/mle-train-grpo -q --model {nano} --run-dir run --engine prime-rl --engine-dir engine --engine-ranks 1 \
        --engine-tokens 64 --groups-per-step 1 --resume graded.jsonl"
    )

    def piped(reader: str) -> tuple[list[dict], list[int]]:
        done = subprocess.run(
            ["bash", "-c", f"{line} | {reader}; echo ${{PIPESTATUS[@]}} >&2"],
            cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return [json.loads(each) for each in done.stdout.splitlines()], [int(code) for code in done.stderr.split()]

    first, codes = piped("head -n 1")
    assert [step["step"] for step in first] == [1] and codes == [141, 0]
    before = TrainerFolder(folder).handed_over()
    rest, codes = piped("cat")
    assert codes == [0, 0] and [step["step"] for step in rest] == list(range(before + 1, 4))
    assert TrainerFolder(folder).handed_over() == 3


def test_weights_that_vanish_or_are_rewritten_while_they_are_copied_are_no_version(nano, tmp_path, monkeypatch) -> None:
    source = tmp_path / "broadcasts" / "step_1"
    prime_rl_trainer.publish(source, [nano / "model.safetensors"], 0.0, False, False)
    place, real = TrainerFolder(tmp_path), prime_rl._link

    def taken(name: str) -> Path:
        (tmp_path / name).mkdir()
        place.take_weights(1, tmp_path / name)
        return tmp_path / name

    whole = taken("whole")
    assert [path.name for path in whole.iterdir()] == ["model.safetensors"]
    prime_rl_trainer.publish(source, [nano / "model.safetensors"], 0.0, False, False)  # a trainer that was restarted
    assert (whole / "model.safetensors").read_bytes() == (nano / "model.safetensors").read_bytes()

    def rewritten(one: Path, other: Path) -> None:
        real(one, other)
        prime_rl_trainer.publish(source, [nano / "model.safetensors"], 0.0, False, False)

    monkeypatch.setattr(prime_rl, "_link", rewritten)
    with pytest.raises(WeightsGone):
        taken("rewritten")
    monkeypatch.setattr(prime_rl, "_link", lambda one, other: shutil.rmtree(source) or real(one, other))
    with pytest.raises(WeightsGone):
        taken("vanished")
    monkeypatch.setattr(prime_rl, "_link", real)
    source.mkdir()
    (source / "adapter_model.safetensors").write_bytes((nano / "model.safetensors").read_bytes()[:-100])
    (source / "STABLE").touch()  # of before: the trainer writes over its adapter, and died
    with pytest.raises(WeightsGone):
        taken("torn")


def test_a_version_stays_when_the_trainer_has_gone_back(nano, tmp_path) -> None:
    """Its launcher deletes the weights behind the checkpoint that it goes on from."""
    publisher = Publisher(tmp_path / "pub", None, "policy", 1, None, 1, "run")
    run = HandoverRun(str(nano), tmp_path / "run", OPTIONS, engine(tmp_path / "engine"), publisher=publisher)
    versions = []
    for step in (2, 1, 3):
        shutil.rmtree(tmp_path / "engine", ignore_errors=True)
        prime_rl_trainer.publish(
            tmp_path / "engine" / "broadcasts" / f"step_{step}", [nano / "model.safetensors"], 0.0, False, False
        )
        run._follow()
        versions.append(published.newest(tmp_path / "pub").version)
    assert versions == [2, 2, 3]


def test_an_adapter_is_copied_for_the_trainer_writes_over_it(nano, tmp_path) -> None:
    source = tmp_path / "broadcasts" / "step_1"
    adapter = tmp_path / "adapter_model.safetensors"
    shutil.copy(nano / "model.safetensors", adapter)
    prime_rl_trainer.publish(source, [adapter], 0.0, False, True)
    (tmp_path / "taken").mkdir()
    TrainerFolder(tmp_path).take_weights(1, tmp_path / "taken")
    os.truncate(source / adapter.name, 10)
    assert (tmp_path / "taken" / adapter.name).read_bytes() == adapter.read_bytes()


# What is refused


def test_a_folder_of_another_run_is_refused(nano, tmp_path) -> None:
    def begun(name: str, folder: str = "engine", resume: bool = False) -> HandoverRun:
        given = engine(tmp_path / folder, engine_ahead=9)
        return HandoverRun(str(nano), tmp_path / name, OPTIONS, given, resume)

    assert len(list(begun("run").train(rollouts(8)))) == 2
    before = batches(tmp_path / "engine")
    with pytest.raises(ToolError, match="has step 2, and this run has handed over 0: it is another run's"):
        list(begun("other").train(rollouts(8)))
    with pytest.raises(ToolError, match=r"rollouts/step_2: is not there: is this the run's --engine-dir\?"):
        list(begun("run", "elsewhere", resume=True).train(rollouts(12)))
    assert batches(tmp_path / "engine") == before
    prime_rl_trainer.publish(tmp_path / "old" / "broadcasts" / "step_7", [], 0.0, False, False)
    with pytest.raises(ToolError, match="has step 7"):
        list(begun("third", "old").train(rollouts(8)))
    with pytest.raises(ToolError, match="was begun with --engine 'prime-rl', and now it is 'trl'"):
        from mletools.training.grpo import GrpoRun

        GrpoRun(str(nano), tmp_path / "run", GrpoOptions(groups_per_step=1, scale_rewards="none"), resume=True)


def test_rollouts_without_the_samplers_probabilities_are_refused(nano, tmp_path) -> None:
    run = HandoverRun(str(nano), tmp_path / "run", OPTIONS, engine(tmp_path / "engine"))
    bare = rollouts(1)[0]
    for message in bare["messages"]:
        message.pop("logprobs", None)
    with pytest.raises(RecordError, match="no logprobs: prime-rl's loss compares"):
        run.sample(bare)
    assert run.sample({**bare, "reward": None}).reward is None  # it is not trained on
    for message in bare["messages"]:
        message.pop("token_ids", None)
    with pytest.raises(RecordError, match="no token_ids"):
        run.sample(bare)
    cut = [{**one, "policy": {**one["policy"], "sampling": {"temperature": 0.7, "top_p": 0.9}}} for one in rollouts(4)]
    with pytest.raises(ToolError, match=r"sampled with top_p 0\.9"):
        list(run.train(cut))


def test_sequences_beyond_a_micro_batch_are_left_out_and_counted(nano, tmp_path) -> None:
    run = HandoverRun(str(nano), tmp_path / "run", OPTIONS, engine(tmp_path / "engine", engine_tokens=14))
    (step,) = run.train(rollouts(4))
    assert step["rollouts"] == 3 and run.dropped == {"too_long": 1}  # of 12 to 15 tokens


GIVEN = {"engine_dir": "engine", "engine_ranks": 8, "engine_tokens": 32768}


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"learning_rate": 1e-6}, "--learning-rate is about a step that this command takes"),
        ({}, {"lora_rank": 0}, "--lora-rank is about"),
        ({}, {"micro_batch": 8}, "--micro-batch is about"),
        ({}, {"loss_type": "dapo"}, "--loss-type is about"),
        ({}, {"mismatch": "clip"}, "--mismatch is about"),
        ({}, {"share_prefix": False}, "--share-prefix is about"),
        ({}, {"validate": "true"}, "--validate is about"),
        ({}, {"export_merged": True}, "--export-merged is about"),
        ({"algorithm": "gspo"}, {}, "--algorithm gspo differs from grpo in its loss alone"),
        ({"engine_dir": None}, {}, "--engine prime-rl needs --engine-dir"),
        ({"engine_ranks": None}, {}, "--engine prime-rl needs --engine-ranks"),
        ({"engine_tokens": None}, {}, "--engine prime-rl needs --engine-tokens"),
        ({"engine_cp": 65536}, {}, "--engine-tokens 32768 is less than --engine-cp 65536"),
        ({"engine": "trl"}, {}, "are about --engine prime-rl"),
    ],
)
def test_options_without_a_meaning_are_refused(options: dict, given: dict, message: str) -> None:
    chosen = GrpoOptions(**{"engine": "prime-rl", **{k: v for k, v in options.items() if k in ("engine", "algorithm")}})
    laid = EngineOptions(**{**GIVEN, **{k: v for k, v in options.items() if k.startswith("engine_")}})
    with pytest.raises(OptionError, match=message):
        laid.check(chosen, given)


def test_all_other_options_are_used() -> None:
    used = {"baseline": "batch", "batch": 64, "mask": ("timeout",), "max_staleness": 2, "lora_rank": None, "epochs": 2}
    EngineOptions(**GIVEN).check(GrpoOptions(engine="prime-rl"), used)
    EngineOptions().check(GrpoOptions(), {"learning_rate": 1e-6})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learning-rate", "1e-6"], "--learning-rate is about a step that this command takes"),
        (["--mismatch", "off"], "--mismatch is about a step"),
    ],
)
def test_the_command_refuses_them(tmp_path, arguments: list[str], message: str) -> None:
    line = ["--model", "m", "--run-dir", "run", "--engine", "prime-rl", "--engine-dir", "e", "--engine-ranks", "1"]
    done = subprocess.run(
        [str(BIN / "mle-train-grpo"), *line, "--engine-tokens", "64", *arguments],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and message in done.stderr and list(tmp_path.iterdir()) == []


def test_a_dry_run_says_what_would_be_handed_over(tmp_path) -> None:
    records = rollouts(24, policy={"model": "nano", "version": 0, "sampling": {"temperature": 1.0}})
    line = [
        "--model",
        "some/model",
        "--run-dir",
        "run",
        "--engine",
        "prime-rl",
        "--engine-dir",
        "e",
        "--preset",
        "sandmle",
    ]
    done = subprocess.run(
        [str(BIN / "mle-train-grpo"), *line, "--engine-ranks", "2", "--engine-tokens", "32", "--dry-run"],
        cwd=tmp_path, input="".join(json.dumps(record) + "\n" for record in records), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and list(tmp_path.iterdir()) == []
    first, second, third = done.stderr.splitlines()
    assert "not handed over, to be set in prime-rl's configuration: " in first and "learning_rate 1e-06" in first
    assert second.endswith("would hand over, for some/model, 24 rollouts in 6 groups for 1 epoch to prime-rl in e")
    assert third.endswith("1 steps; the largest: 24 sequences of 324 tokens in 6 micro-batches on each of 2 ranks")
