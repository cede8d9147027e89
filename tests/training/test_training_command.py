"""mle-train-grpo and mle-train-sft as a user runs them: masks, records without ids, validation, merging, loggers, processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT, TESTS, mostly_nightly
from stopping import stopped

from mletools.base.errors import ToolError
from mletools.training import runs
from mletools.training.sft import SftOptions

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

BIN = Path(sys.executable).parent


TASK = json.loads((ROOT / "examples" / "tasks" / "tasks.jsonl").read_text().split("\n")[0])


def rollouts(count: int, ids: bool = True, size: int = 4, **more) -> list[dict]:
    made = []
    for number in range(count):
        own = [20 + (7 * number + 3 * j) % 230 for j in range(5 + number % 4)]
        asked = {"role": "user", "content": "Which model?"}
        said = {"role": "assistant", "content": "a forest", "loss": True}
        if ids:
            asked["token_ids"] = [1, 2, 3]
            said |= {"token_ids": own, "logprobs": [-5.9] * len(own)}
        made.append(
            {
                "kind": "rollout", "version": 1, "id": f"r{number:04d}", "lineage": [], "task": TASK, "group": f"g{number // size}",
                "group_size": size, "sample": number % size, "seed": 0, "scaffold": "single",
                "policy": {"model": "nano", "version": 0, "sampling": {"temperature": 1.0, "top_p": 1.0}},
                "messages": [asked, said], "turns": [{"action": "solve", "duration_s": 1.0 + number % 3}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 8, "seconds": 1.0, "usd": None},
                "stop_reason": "finished", "code": "1", "reward": float(number % size), **more,
            }
        )  # fmt: skip
    return made


def run(*arguments: str, records: list[dict], code: int = 0, **env: str) -> tuple[list[dict], str]:
    done = subprocess.run(
        [str(BIN / arguments[0]), *arguments[1:]],
        input="".join(json.dumps(record) + "\n" for record in records),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **env},
    )
    assert done.returncode == code, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line != "{"], done.stderr  # torn where it failed


@pytest.mark.slow
def test_records_without_ids_are_trained_on_and_counted(nano, tmp_path) -> None:
    mixed = rollouts(4) + [{**record, "id": f"x{record['id']}", "group": "h"} for record in rollouts(4, ids=False)]
    (step,), told = run("mle-train-grpo", "--model", str(nano), "--run-dir", str(tmp_path / "run"), records=mixed)
    assert (step["rollouts"], step["retokenized"]) == (8, 4)
    assert "mle-train-grpo: 4 rollouts had no token ids: the text was tokenised again" in told


@pytest.mark.slow
def test_masks_and_a_batch_that_was_cut(nano, tmp_path) -> None:
    records = rollouts(8)
    records[0]["stop_reason"] = "timeout"
    del records[5], records[3]  # one of each group never came; of the first group one more is masked
    options = ("--preset", "sandmle", "--duration-weight", "auto", "--groups-per-step", "2")
    (step,), told = run(
        "mle-train-grpo", "--model", str(nano), "--run-dir", str(tmp_path / "run"), *options, records=records
    )
    assert (step["rollouts"], step["groups"], step["lost"], step["weighted"]) == (5, 2, 2, True)
    assert "1 not trained on (masked timeout)" in told
    assert (
        f"mle-train-grpo: 1 step, to step 1; loss {step['loss']:.4g}; reward {step['reward_mean']:.4g}; the policy is in "
        in told
    )
    assert "mle-train-grpo: not trained on: 1 masked as timeout (--mask)\n" in told


@pytest.mark.slow
def test_a_ratio_that_explodes_ends_the_run_before_the_step(nano, tmp_path) -> None:
    records, out = rollouts(8), tmp_path / "run"
    records[5]["messages"][1]["logprobs"][2] = -30.0
    options = (
        "--model",
        str(nano),
        "--run-dir",
        str(out),
        "--groups-per-step",
        "1",
        "--save-steps",
        "1",
        "--largest-ratio",
        "1000",
    )
    (step,), told = run("mle-train-grpo", *options, records=records, code=1)
    assert step["step"] == 1 and step["largest_ratio"] < 1000 and (out / "latest").resolve().name == "checkpoint-000001"
    assert "step 2: the policy gives a token" in told and "the step was not taken; its rollouts are in" in told
    kept = [json.loads(line) for line in (out / "spoilt-step-000002.jsonl").read_text().splitlines()]
    assert [row["id"] for row in kept] == ["r0004", "r0005", "r0006", "r0007"] and kept[1]["logprobs"][5] == -30.0


@pytest.mark.nightly
def test_the_best_checkpoint_by_validation_stays(nano, tmp_path) -> None:
    out = tmp_path / "run"
    # The fourth of eight versions is the best: the command sees which one it is given.
    reward = 'v=$(jq .policy_version $MLE_POLICY/state.json); echo "{\\"reward\\": $((4 - (v - 4) * (v - 4)))}"'
    if not any((Path(p) / "jq").exists() for p in os.environ["PATH"].split(":")):
        reward = (
            "python3 -c 'import json,os; v = json.load(open(os.environ[\"MLE_POLICY\"] + \"/state.json\"))[\"policy_version\"]; "
            "print(json.dumps({\"reward\": 4 - (v - 4) ** 2}))'"
        )  # fmt: skip
    options = ("--groups-per-step", "1", "--save-steps", "1", "--keep", "2", "--lora-rank", "4", "--validate", reward)
    steps, _ = run("mle-train-grpo", "--model", str(nano), "--run-dir", str(out), *options, records=rollouts(32))
    assert [step["validation_reward"] for step in steps] == [-5, 0, 3, 4, 3, 0, -5, -12]
    assert os.readlink(out / "best") == "checkpoint-000004" and (out / "best" / "adapter_config.json").exists()
    assert sorted(path.name for path in out.glob("checkpoint-*")) == [f"checkpoint-00000{n}" for n in (4, 7, 8)]
    _, told = run(
        "mle-train-grpo",
        "--model",
        str(nano),
        "--run-dir",
        str(tmp_path / "other"),
        "--validate",
        "exit 3",
        records=rollouts(4),
        code=1,
    )
    assert "--validate: the command ended with exit code 3: exit 3" in told


@pytest.mark.nightly
def test_a_stream_that_ends_early_validates_its_last_checkpoint(nano, tmp_path) -> None:
    out = tmp_path / "run"
    options = ("--stream", "--groups-per-step", "1", "--max-steps", "9", "--validate", "echo '{\"reward\": 1}'")
    steps, _ = run("mle-train-grpo", "--model", str(nano), "--run-dir", str(out), *options, records=rollouts(8))
    assert [step["checkpoint"] for step in steps] == [None, None]
    assert os.readlink(out / "best") == "checkpoint-000002"


@pytest.mark.slow
def test_a_merged_policy_says_what_the_adapter_says(nano, tmp_path) -> None:
    from mletools.models import Request
    from mletools.models.hf import HfModel

    out = tmp_path / "run"
    options = ("--export-merged", "--lora-rank", "4", "--learning-rate", "1e-2")
    _, told = run("mle-train-grpo", "--model", str(nano), "--run-dir", str(out), *options, records=rollouts(16))
    assert f"the policy as one model: {out / 'merged'}" in told
    asked = [Request([{"role": "user", "content": "Q"}], seed=n, max_tokens=12) for n in range(4)]
    merged, adapter, base = (HfModel(path, device="cpu", threads=1) for path in (out / "merged", out / "latest", nano))
    assert [r.token_ids for r in merged.sample(asked)] == [r.token_ids for r in adapter.sample(asked)]
    assert [r.token_ids for r in merged.sample(asked)] != [r.token_ids for r in base.sample(asked)]
    assert merged.version == 1 and not (out / "merged" / "adapter_config.json").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("command", mostly_nightly(["mle-train-grpo", "mle-train-sft"], 1))
def test_all_weights_go_on_from_an_adapter_merged_into_its_base(command: str, nano, tmp_path) -> None:
    adapter, out = tmp_path / "adapter", tmp_path / "all"
    run("mle-train-sft", "--model", str(nano), "--run-dir", str(adapter), "--lora-rank", "4", records=rollouts(8))
    steps, _ = run(
        command, "--model", str(adapter / "latest"), "--run-dir", str(out), "--lora-rank", "0", records=rollouts(16)
    )
    assert all(step["grad_norm"] > 0 for step in steps) and steps
    latest = out / "latest"
    assert (latest / "model.safetensors").exists() and not (latest / "adapter_config.json").exists()


@pytest.mark.slow
def test_curves_for_tensorboard(nano, tmp_path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: its curves are not tested")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "run"
    options = ("--logger", "tensorboard", "--groups-per-step", "1")
    steps, _ = run("mle-train-grpo", "--model", str(nano), "--run-dir", str(out), *options, records=rollouts(8))
    events = EventAccumulator(str(out / "logs"))
    events.Reload()
    curve = events.Scalars("train/reward_mean")
    assert [point.value for point in curve] == pytest.approx([step["reward_mean"] for step in steps])
    assert {"train/loss", "train/grad_norm", "train/sampler_kl", "train/staleness"} <= set(events.Tags()["scalars"])


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio", "mlflow"])
def test_a_logger_that_is_not_installed_is_named(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(runs, "find_spec", lambda library: None)
    run = SimpleNamespace(out=tmp_path / "run", options=SftOptions(logger=name))
    with pytest.raises(ToolError, match=f"^--logger {name}: the library is not installed: pip install {name}$"):
        runs.TrainingRun.common_arguments(run)


@pytest.fixture(scope="module")
def with_mlflow(tmp_path_factory) -> Path:
    """A Python that has MLflow beside what this one has."""
    folder = tmp_path_factory.mktemp("mlflow")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text(f"{ROOT}\n{Path(pytest.__file__).parents[1]}\n")
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "mlflow-skinny>=3", "sqlalchemy", "alembic"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=280)
    if done.returncode:
        pytest.skip(f"no MLflow from a package index, its curves are not tested: {done.stderr.strip()[-200:]}")
    return python


@pytest.mark.nightly
def test_curves_for_mlflow(nano, tmp_path, with_mlflow) -> None:
    out, elsewhere = tmp_path / "run", f"sqlite:///{tmp_path / 'mine.db'}"
    read = """
        import json, sys, mlflow
        client = mlflow.MlflowClient(sys.argv[1])
        (run,) = client.search_runs([client.get_experiment_by_name("mletools").experiment_id])
        curve = [point.value for point in client.get_metric_history(run.info.run_id, "reward_mean")]
        print(json.dumps([run.info.run_name, run.info.status, curve, sorted(run.data.metrics)]))
    """
    for uri, env in ((f"sqlite:///{out / 'logs' / 'mlflow.db'}", {}), (elsewhere, {"MLFLOW_TRACKING_URI": elsewhere})):
        command = [str(with_mlflow), str(ROOT / "bin" / "mle-train-grpo"), "--model", str(nano), "--run-dir", str(out)]
        trained = subprocess.run(
            [*command, "--logger", "mlflow", "--groups-per-step", "1"],
            input="".join(json.dumps(record) + "\n" for record in rollouts(8)),
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **env}, timeout=280,
        )  # fmt: skip
        assert trained.returncode == 0, trained.stderr
        steps = [json.loads(line) for line in trained.stdout.splitlines()]
        found = subprocess.run(
            [with_mlflow, "-c", textwrap.dedent(read), uri], capture_output=True, text=True, check=True
        )
        name, status, curve, metrics = json.loads(found.stdout.splitlines()[-1])
        assert (name, status) == (out.name, "FINISHED")
        assert curve == pytest.approx([step["reward_mean"] for step in steps])
        assert {"loss", "grad_norm", "sampler_kl", "staleness"} <= set(metrics)
        out = tmp_path / "second"
    assert not (out / "logs").exists() and not (tmp_path / "mlruns").exists()


@pytest.mark.parametrize("stream", mostly_nightly([("--stream", "--batch", "6"), ()], 1), ids=["stream", "held"])
def test_torchrun_reads_once_writes_once_and_ends(nano, tmp_path, stream) -> None:
    records = rollouts(24)
    found = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        launch = ("torchrun", "--standalone", f"--nproc-per-node={processes}", str(BIN / "mle-train-grpo"))
        options = (
            "--model",
            str(nano),
            "--run-dir",
            str(out),
            "--groups-per-step",
            "2",
            "--lora-rank",
            "4",
            "--publish",
            str(out / "pub"),
        )
        if stream:
            options = tuple(
                o for n, o in enumerate(options) if o != "--groups-per-step" and options[n - 1] != "--groups-per-step"
            )
        steps, _ = run(*launch, *options, *stream, "-o", str(out) + ".jsonl", records=records)
        assert steps == []
        steps = [json.loads(line) for line in Path(str(out) + ".jsonl").read_text().splitlines()]
        assert (out / "latest").resolve().name == f"checkpoint-{len(steps):06d}"
        assert (out / "pub" / "latest").resolve().name == f"policy-{len(steps):06d}"
        found.append([(step["step"], step["rollouts"], round(step["loss"], 5)) for step in steps])
    assert found[0] == found[1] and len(found[0]) >= 3


@pytest.mark.slow
def test_max_steps_counts_the_whole_run(nano, tmp_path) -> None:
    options = ("--model", str(nano), "--run-dir", str(tmp_path / "run"), "--groups-per-step", "2", "--resume")
    numbers = []
    for most in ("2", "2", "5"):
        steps, _ = run("mle-train-grpo", *options, "--max-steps", most, records=rollouts(24))
        numbers.append([step["step"] for step in steps])
    assert numbers == [[1, 2], [], [3]]
    assert (tmp_path / "run" / "latest").resolve().name == "checkpoint-000003"


@pytest.mark.slow
def test_max_steps_ends_a_pipe_that_does_not(nano, tmp_path) -> None:
    command = [str(BIN / "mle-train-grpo"), "-q", "--stream", "--batch", "8", "--max-steps", "2", "--model", str(nano)]
    with subprocess.Popen(
        [*command, "--run-dir", str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it may be done before it has read all
            process.stdin.write("".join(json.dumps(record) + "\n" for record in rollouts(40)).encode())
            process.stdin.flush()
        assert len(process.stdout.readlines()) == 2
        assert process.wait(60) == 0
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    assert (tmp_path / "run" / "latest").resolve().name == "checkpoint-000002"


@pytest.mark.slow
def test_a_training_that_is_stopped_says_which_checkpoint_there_is(nano, tmp_path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rollouts(400)))
    train = ["mle-train-grpo", "--model", str(nano), "--run-dir", "run", "--groups-per-step", "2", "--save-steps", "1"]
    code, _, told = stopped([*train, "in.jsonl"], tmp_path, (tmp_path / "run" / "latest").exists, signal.SIGTERM)
    assert code == 143
    assert b"mle-train-grpo: stopped: run/latest is the newest checkpoint; --resume goes on\n" in told


BOUNDED = ("--max-staleness", "0")


@pytest.mark.parametrize(
    ("ahead", "bound"),
    [
        pytest.param(BOUNDED, ("--oversample", "2", "--baseline", "batch"), marks=pytest.mark.slow),
        pytest.param(BOUNDED, BOUNDED, marks=pytest.mark.nightly),
        pytest.param((), (), marks=pytest.mark.nightly),
    ],
    ids=["oversampled", "bounded", "unbounded"],
)
def test_a_whole_pipe_ends_with_its_trainer(nano, tmp_path, ahead, bound) -> None:
    tasks = ROOT / "examples" / "tasks" / "tasks.jsonl"
    rewarded = "import json, sys\nfor n, line in enumerate(sys.stdin):\n  print(json.dumps({**json.loads(line), 'reward': n % 4 / 4}), flush=True)"
    sample = [BIN / "mle-rollout", "-q", "-m", "hf:", "--forever", "--follow", "pub", *ahead, "-g", "4"]
    sample += ["--prompt", "single-brief", "--max-tokens", "8", tasks]
    train = [BIN / "mle-train-grpo", "-q", "--stream", "--batch", "8", "--publish", "pub", *bound, "--model", nano]
    lines = [
        sample,
        [sys.executable, "-c", rewarded],
        [*train, "--run-dir", "run", "--max-steps", "3", "--lora-rank", "0"],
    ]
    for attempt in range(2):  # the second finds a run that is done
        pipe: list[subprocess.Popen] = []
        for line in lines:
            source = pipe[-1].stdout if pipe else subprocess.DEVNULL
            pipe.append(
                subprocess.Popen(
                    [*map(str, line), *(["--resume"] if attempt and line is lines[-1] else [])],
                    cwd=tmp_path,
                    stdin=source,
                    stdout=subprocess.PIPE,
                )
            )
            if len(pipe) > 1:
                pipe[-2].stdout.close()
        steps = pipe[-1].stdout.read().splitlines()
        assert len(steps) == (0 if attempt else 3)
        if "--oversample" in bound:
            taken = [json.loads(step) for step in steps]
            assert all((step["rollouts"], step["staleness_max"], step["lost"]) == (8, 0, 8) for step in taken)
        codes = [process.wait(120) for process in pipe]
        assert codes[-1] == 0 and codes[0] in (0, 141)


def shipped() -> dict[str, str]:
    """What `accelerate launch` tells the processes of examples/cluster/fsdp2.yaml."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    file = ROOT / "examples" / "cluster" / "fsdp2.yaml"
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", str(file), "x.py"]))
    told = prepare_multi_gpu_env(arguments)
    return {name: value for name, value in told.items() if name.startswith(("ACCELERATE_", "FSDP_"))}


ZERO = """
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config: {{zero_stage: {stage}, gradient_clipping: 1.0, zero3_init_flag: false, zero3_save_16bit_model: true,
  offload_optimizer_device: none, offload_param_device: none}}
mixed_precision: "no"
num_machines: 1
num_processes: 2
"""


def launched(kind: str, folder: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """What comes before the command for two processes, and what the environment needs."""
    grpo = str(BIN / "mle-train-grpo")
    if kind == "ddp":
        return ("accelerate", "launch", "--multi_gpu", "--num_processes=2", "--mixed_precision=no", grpo), {}
    if kind.startswith("fsdp2"):
        driver = str(TESTS / "support" / "fsdp_on_cpus.py")
        precision = {"ACCELERATE_MIXED_PRECISION": "no"} if kind == "fsdp2-float32" else {}
        env = {**shipped(), **precision, "FSDP_OBSERVED": str(folder / "observed")}
        return ("torchrun", "--standalone", "--nproc-per-node=2", driver, grpo), env
    deepspeed = os.environ.get("MLETOOLS_DEEPSPEED", "")
    if not deepspeed:
        pytest.skip("MLETOOLS_DEEPSPEED names no folder with deepspeed: ZeRO is not tested")
    config = folder / "zero.yaml"
    config.write_text(ZERO.format(stage=kind[-1]))
    return ("accelerate", "launch", f"--config_file={config}", grpo), {
        "PYTHONPATH": deepspeed,
        "DS_ACCELERATOR": "cpu",
    }


@pytest.fixture(scope="module")
def alone(nano, tmp_path_factory):
    """By --lora-rank: the records and the folder of one process that is not disturbed."""
    made: dict[str, tuple[list[dict], Path]] = {}

    def found(rank: str) -> tuple[list[dict], Path]:
        if rank not in made:
            out = tmp_path_factory.mktemp("alone") / "run"
            options = ("--model", str(nano), "--run-dir", str(out), "--groups-per-step", "2", "--lora-rank", rank)
            made[rank] = run("mle-train-grpo", *options, records=rollouts(24))[0], out
        return made[rank]

    return found


@pytest.mark.parametrize(
    ("kind", "rank"),
    [
        pytest.param("ddp", "4", marks=pytest.mark.nightly),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (
                ("fsdp2", "0"),
                ("zero2", "0"),
                ("fsdp2", "4"),
                ("fsdp2-float32", "0"),
                ("fsdp2-float32", "4"),
                ("zero2", "4"),
                ("zero3", "4"),
                ("zero3", "0"),
            )
        ),
    ],
)
def test_two_processes_train_as_one_and_go_on(nano, alone, tmp_path, kind, rank) -> None:
    from safetensors.torch import load_file

    records, weights = rollouts(24), "model.safetensors" if rank == "0" else "adapter_model.safetensors"
    out, found = tmp_path / "run", []
    launch, env = launched(kind, tmp_path)
    options = ("--model", str(nano), "--run-dir", str(out), "--groups-per-step", "2", "--lora-rank", rank)
    options += ("--micro-batch", "2")  # several in a step of each process
    for session, given in enumerate((records[:16], records)):
        made = tmp_path / f"{session}.jsonl"
        resume = ("--resume",) if session else ()
        run(*launch, *options, "--publish", str(out / "pub"), *resume, "-o", str(made), records=given, **env)
        found += [json.loads(line) for line in made.read_text().splitlines()]
    assert (out / "latest" / "trainer" / "shards").is_dir() == (kind != "ddp")
    steps, undisturbed = alone(rank)
    assert [step["step"] for step in found] == [step["step"] for step in steps] == [1, 2, 3]
    for one, two in zip(steps, found, strict=True):
        # bfloat16 has 8 bits: a logit is off by 1/256; the loss, a mean over dozens, by less. With outputs in it: 2e-3.
        assert two["loss"] == pytest.approx(one["loss"], abs=3e-4 if kind == "fsdp2" else 1e-6)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=5e-3 if kind == "fsdp2" else 1e-5)
    kept, whole = load_file(out / "latest" / weights), load_file(undisturbed / "latest" / weights)
    published = load_file(out / "pub" / "latest" / weights)
    assert set(kept) == set(whole) == set(published)
    halved = kind == "fsdp2" and rank == "0"
    for name, value in whole.items():
        far = (kept[name] - value).abs()  # three steps at a rate of 1e-5 moved each by about 2e-5
        near = far.mean() < 2e-6 if kind == "fsdp2" else far.max() < 1e-6  # a mean of 1.07e-6 by AVX512-BF16
        assert kept[name].dtype == value.dtype and near
        assert published[name].equal(kept[name].bfloat16() if halved else kept[name])
    if kind.startswith("fsdp2"):
        check_shards(tmp_path, nano, int(rank), kept)


def check_shards(folder: Path, model: Path, rank: int, adapter: dict) -> None:
    """What a run with FSDP in `folder` let be seen, and its shards on the disk."""
    from torch.distributed.checkpoint import FileSystemReader

    from mletools.training.memory import Sharding, estimate, shape_of

    counted = estimate(shape_of(str(model), rank), 2, 16, "GPU", Sharding(2, 3, "FSDP"))["gradients"]
    told = [(folder / f"observed.{process}").read_text().splitlines() for process in range(2)]
    for seen in ([json.loads(line) for line in lines] for lines in told):
        micro = [one for one in seen if "loss" in one]
        assert len(micro) == 6 and {one["loss"] for one in micro} == {"torch.float32"}  # three steps
        assert {one["reduced"] for one in micro} <= {"torch.float32", "None"}
        assert [one["scores"] for one in seen if "scores" in one] == [["torch.float32"] * 2] * 6
        assert all(one["unsharded"] == 0 and one["sharded"] == pytest.approx(counted, rel=0.01) for one in micro)
    if rank:
        names = {name.replace(".weight", ".default.weight") for name in adapter}
        gathered = [set(one["gathered"]) for one in map(json.loads, told[0]) if "gathered" in one]
        assert gathered == [names] * len(gathered) and gathered
        shards = folder / "run" / "latest" / "trainer" / "shards" / "pytorch_model_fsdp_0"
        assert len(FileSystemReader(shards).read_metadata().state_dict_metadata) == len(names)
