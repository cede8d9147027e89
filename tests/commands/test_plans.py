"""`make plan` and `make needs` of the experiments: who is on which card, what it holds, what is missing before it begins."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, mostly_nightly

EXAMPLES = ROOT / "examples"
# as large as a real one in words only: sizes are worked out by hand below
TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 160, "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def examples() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def environment(**more: str) -> dict[str, str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "MAKE", "OPENAI", "ANTHROPIC"))
    }
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **more}


def make(folder: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-s", "-C", str(EXAMPLES / folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False)


# ---- who runs beside whom


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with mle commands that only pass on what they read; the trainer validates."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mle-rollout", "mle-grade", "mle-train-grpo"):
        (folder / name).write_text("#!/bin/bash\nset -e\n[ -t 0 ] || cat\n")
    trainer = "#!/bin/bash\nset -e\ncat\nfor ((at = 1; at <= $#; at++)); do next=$((at + 1)); "
    trainer += 'if [ "${!at}" = --validate ]; then MLE_POLICY=here bash -c "${!next}"; fi; done\n'
    (folder / "mle-train-grpo").write_text(trainer)
    for command in folder.iterdir():
        command.chmod(0o755)
    return folder


def noted(commands: Path, line: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(EXAMPLES / "processes.py"), "log", "--", "bash", "-c", line]
    path = f"{commands}:{os.environ['PATH']}"
    return subprocess.run(
        script,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=commands.parent,
        env={**os.environ, "PATH": path},
        check=False,
    )


SAMPLER = "mle-rollout -m vllm: --gpus 4,5"
TRAINER = "mle-train-grpo --run-dir run"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"CUDA_VISIBLE_DEVICES=1 {SAMPLER} | CUDA_VISIBLE_DEVICES=0 {TRAINER}", ""),
        (f"CUDA_VISIBLE_DEVICES=0 {SAMPLER} | CUDA_VISIBLE_DEVICES=0 {TRAINER}", "the sampler's model and the trainer are both on card 0\n"),
        (f"CUDA_VISIBLE_DEVICES=0 MLE_ENGINE_OPTION=gpu_memory_utilization=0.4 {SAMPLER} | CUDA_VISIBLE_DEVICES=0 {TRAINER}", ""),
        (f"CUDA_VISIBLE_DEVICES=0,4 {SAMPLER}", "programs and the sampler's model are both on card 4\n"),
        (f"CUDA_VISIBLE_DEVICES=1 {SAMPLER}; CUDA_VISIBLE_DEVICES=1 {SAMPLER}", ""),
        (
            f"CUDA_VISIBLE_DEVICES=1 {SAMPLER} | CUDA_VISIBLE_DEVICES=0 {TRAINER} --validate 'CUDA_VISIBLE_DEVICES=1 {SAMPLER} -g 1'",
            "the sampler's model and validation's model are both on card 1\n",
        ),
        (f"CUDA_VISIBLE_DEVICES=1 {SAMPLER} | CUDA_VISIBLE_DEVICES=0 {TRAINER} --validate 'CUDA_VISIBLE_DEVICES=2 {SAMPLER} -g 1'", ""),
    ],
)  # fmt: skip
def test_two_that_run_together_have_not_the_same_card(commands: Path, line: str, told: str) -> None:
    done = noted(commands, line)
    assert (done.returncode, done.stderr) == (1 if told else 0, told)
    words = [each["words"][0] for each in map(json.loads, (commands.parent / "log").read_text().splitlines())]
    assert sorted(words) == sorted(word for word in line.replace("'", " ").split() if word.startswith("mle-"))


def test_a_command_that_fails_is_told_as_it_is(commands: Path) -> None:
    assert noted(commands, "echo no >&2; exit 3").returncode == 3


def test_a_launcher_s_processes_are_one_trainer(examples: None) -> None:
    from processes import Process, User, users

    words = ["mle-train-grpo", "--run-dir", "run"]
    assert users([Process("1", words, "0,1", "", 0)] * 2) == [User("the trainer", ("0", "1"), None)]
    launched = Process("1", ["accelerate", "launch", "--num_processes", "2", *words], "0,1", "", 0)
    assert launched.command == words and launched.value("--num_processes") == "2"


def test_pretending_commands_write_as_many_records_as_there_would_be(tmp_path: Path) -> None:
    line = (
        "mle-import one/leaf-classification one/AI4Code --repo r -o tasks.jsonl; mle-import bench -o all.jsonl; "
        """jq -c 'select(.provenance.split == "low")' all.jsonl > low.jsonl; """
        "head -n 1 tasks.jsonl | mle-rollout -m m --model-url http://x -g 3 | mle-grade -q -o graded.jsonl; "
        "mle-rollout --write-states states.jsonl -g 2 tasks.jsonl -o runs.jsonl --resume; mle-filter --sample 3 --per task states.jsonl -o s.jsonl"
    )
    script = [
        sys.executable,
        str(EXAMPLES / "processes.py"),
        "log",
        "--pretend",
        "--",
        "bash",
        "-euo",
        "pipefail",
        "-c",
        line,
    ]
    subprocess.run(script, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
    counts = {path.stem: len(path.read_text().splitlines()) for path in tmp_path.glob("*.jsonl")}
    assert counts == {"tasks": 2, "all": 82, "low": 22, "graded": 3, "states": 8, "runs": 4, "s": 6}


# ---- what a stage needs


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(TINY))
    return str(tmp_path / "tiny")


def test_vllm_has_weights_a_sequence_and_the_rest(examples: None, tiny: str) -> None:
    pytest.importorskip("torch", reason="needs the [train] extra")
    from stages import OVERHEAD, vllm_gb

    weights = 1000 * 64 + 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 160 + 2 * 64) + 64
    cache = 2 * 2 * 2 * 32 * 4096  # keys and values, two bytes, two layers, two heads of 16, tokens
    assert vllm_gb(tiny, 1, 4096) == pytest.approx(OVERHEAD + (2 * weights + cache) / 1e9)
    # two heads of keys and values: four cards hold them twice
    assert vllm_gb(tiny, 4, 4096) == pytest.approx(OVERHEAD + (2 * weights / 4 + cache / 2) / 1e9)


def staged(tmp_path: Path, *processes_: tuple[str, str, str], **machine: Any) -> Any:
    """The stage of processes that are each (command line, cards, arguments of the engine)."""
    pytest.importorskip("torch", reason="needs the [train] extra")
    from processes import Process
    from stages import Machine, Planner

    group = [Process("1", words.split(), cards, engine, 0) for words, cards, engine in processes_]
    settings = {"cards": 2, "card_gb": 80.0, "host_gb": 100.0, "cores": 8, **machine}
    (stage,) = Planner(Machine(**settings), tmp_path).stages([group])
    return stage


def test_rollouts_hours_tokens_and_usd_by_hand(examples: None, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("{}\n" * 5)
    line = "mle-rollout --scaffold react -m m --model-url http://far/v1 --price 2,10 -g 3 -j 6 --timeout 600 --max-turns 2 --max-seconds 900 "
    line += f"--max-answer-tokens 1000 --gpus 0,1 {tasks} -o {tmp_path}/x.jsonl"
    stage = staged(tmp_path, (line, "", ""))
    assert (stage.name, stage.rollouts, stage.faults) == ("x", 15, [])
    assert stage.seconds == 15 * 900 / 2  # two programs at a time, and less than 2 x (600 + 1000 / 80)
    assert (stage.prompt, stage.completion) == (15 * (4096 + 4096 + 1000 + 2000), 15 * 2000)
    assert stage.usd == pytest.approx((2 * stage.prompt + 10 * stage.completion) / 1e6)
    shorter = staged(tmp_path, (line, "", ""), program_seconds=100.0)
    assert shorter.seconds == pytest.approx(15 * 2 * (100 + 1000 / 80) / 2)


def test_an_endless_pipe_has_the_rollouts_of_its_steps(examples: None, tmp_path: Path, tiny: str) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n" * 5)
    sampler = f"mle-rollout -m vllm: --forever --follow p --state s -g 4 --max-tokens 1000 {tmp_path}/tasks.jsonl"
    trainer = f"mle-train-grpo --stream --model {tiny} --run-dir {tmp_path}/run --preset sandmle --max-steps 10"
    stage = staged(tmp_path, (sampler, "1", ""), (trainer, "0", ""))
    assert (stage.rollouts, stage.open, stage.faults) == (10 * 16 * 4, True, [])
    assert [use.what.split(" of ")[0] for use in stage.uses] == ["trainer", "vLLM"]
    assert f"all weights, 1 x {4096 + 1000:,} tokens" in stage.uses[0].what
    follows = sampler.replace("-m vllm:", "-m policy --model-url http://far/v1")
    assert (
        staged(tmp_path, (follows, "", ""), (trainer, "0", "")).uses[0] == stage.uses[0]
    )  # a server samples as long rows
    passes = staged(tmp_path, (f"{sampler} --passes 2", "1", ""), (trainer, "0", ""))
    assert (passes.rollouts, passes.open) == (5 * 4 * 2, False)


def test_what_does_not_fit_is_refused_with_what_to_change(examples: None, tmp_path: Path, tiny: str) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    sampler = f"mle-rollout -m vllm: --forever --follow p --state s -g 4 --max-tokens 1000 {tmp_path}/tasks.jsonl"
    trainer = f"mle-train-grpo --stream --model {tiny} --run-dir {tmp_path}/run --preset sandmle --max-steps 10"
    small = staged(tmp_path, (sampler, "1", ""), (trainer, "0", ""), card_gb=0.1)
    assert any(line.startswith("the trainer needs 0 GB of each card and may take 0: ") for line in small.faults), (
        small.faults
    )
    assert any(line.startswith(f"vLLM of {tiny} needs 4 GB of each card") for line in small.faults)
    both = staged(tmp_path, (sampler, "0", ""), (trainer, "0", ""))
    assert any(line.startswith("the sampler's model and the trainer are both on card 0: ") for line in both.faults)
    shared = staged(tmp_path, (sampler, "0", "gpu_memory_utilization=0.5"), (trainer, "0", ""))
    assert [line for line in shared.faults if "both on card" in line] == []
    assert shared.faults == ["the trainer would fill what is free before vLLM takes its share: MICRO_TOKENS=5096"]
    assert shared.uses[0].room == pytest.approx(80 * (0.9 - 0.5)) and shared.uses[1].room == 40
    long = staged(tmp_path, (f"mle-rollout -m vllm:{tiny} --max-tokens 50000 {tmp_path}/tasks.jsonl", "0", ""))
    assert any("is asked for up to 54,096 tokens, and its context has 40,960" in line for line in long.faults)
    absent = staged(tmp_path, (f"mle-rollout -m vllm:{tiny} {tmp_path}/tasks.jsonl", "7", ""))
    assert absent.faults == ["the sampler's model: the machine has no card 7 (GPUS=2)"]
    programs = f"mle-rollout --scaffold react -m vllm:{tiny} -j 8 --memory-size 20000 {tmp_path}/tasks.jsonl"
    crowded = staged(tmp_path, (programs, "0", ""))
    assert crowded.faults == [
        "8 programs of 20 GB at once, and the machine has 100 GB (HOST_GB): JOBS=5, or a smaller MEMORY"
    ]
    server = staged(tmp_path, (f"mle-rollout -m x --model-url http://localhost:8000/v1 {tmp_path}/tasks.jsonl", "", ""))
    assert server.faults == [
        "x at http://localhost:8000/v1 has no cards: SERVERS=http://localhost:8000/v1=CARDS, or a server elsewhere"
    ]
    url = "http://localhost:8000/v1"
    served = f"mle-rollout -m {tiny} --model-url {url} --max-tokens 1000 {tmp_path}/tasks.jsonl"
    known = staged(tmp_path, (served, "", ""), servers=(f"{url}=0,1@0.5",))
    assert known.faults == [] and [use[:2] for use in known.uses] == [(f"vLLM of {tiny}", ("0", "1"))]
    assert (
        known.uses[0].room == 40
        and "needs 4 GB of each card and may take 2"
        in staged(tmp_path, (served, "", ""), servers=(f"{url}=0,1@0.5",), card_gb=3.0).faults[0]
    )
    line = f"mle-rollout -m vllm:{tiny} {tmp_path}/tasks.jsonl"
    beside = staged(tmp_path, (line, "1", ""), servers=("http://localhost:8000/v1=1",))
    assert any(
        each.startswith("the sampler's model and the server at http://localhost:8000/v1 are both on card 1")
        for each in beside.faults
    )


def test_a_model_of_unknown_size_is_named(examples: None, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    with pytest.raises(Exception, match="org/unheard-of: its sizes are not known: hf download org/unheard-of"):
        staged(tmp_path, (f"mle-rollout -m vllm:org/unheard-of {tmp_path}/tasks.jsonl", "0", ""))


@pytest.mark.nightly
def test_a_plan_of_an_experiment(tmp_path: Path) -> None:
    fits = make("sandmle", "SIZE=paper", "plan", "GPUS=8", "DOJO_SECONDS=600", "POLICY=Qwen/Qwen3-4B")
    assert (
        "sandmle and 2 more: trainer of Qwen/Qwen3-4B (all weights, 1 x 40,960 tokens): cards 0, 1, 2, 3" in fits.stdout
    ), fits.stderr
    refused = make("sandmle", "SIZE=paper", "plan", "GPUS=1")
    assert refused.returncode == 2 and "or LORA_RANK=16 (39 GB)" in refused.stdout
    assert "more: 64 programs of 64 GB at once, and the machine has 250 GB" in refused.stdout
    other = make(
        "sandmle",
        "SIZE=paper",
        "plan",
        "GPUS=3",
        "TRAINER_GPUS=0",
        "SAMPLER_GPUS=1",
        "VALIDATOR_GPUS=1",
        "PROGRAM_GPUS=2",
    )
    assert "the sampler's model and validation's model are both on card 1" in other.stdout


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("folder", mostly_nightly(sorted(path.parent.name for path in EXAMPLES.glob("*/Makefile")), 1))
def test_the_page_of_plans_is_that_of_the_makefiles(folder: str) -> None:
    script = [sys.executable, str(ROOT / "docs" / "make_plans.py"), "--check", folder]
    done = subprocess.run(script, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


# ---- a longer context


def test_yarn_makes_a_folder_with_the_same_weights(tmp_path: Path, tiny: str) -> None:
    (Path(tiny) / "model.safetensors").write_text("weights")
    script = [sys.executable, str(EXAMPLES / "yarn.py"), tiny, str(tmp_path / "long")]
    done = subprocess.run([*script, "4"], capture_output=True, text=True, check=True)
    assert done.stdout == "131,072 positions\n"
    config = json.loads((tmp_path / "long" / "config.json").read_text())
    assert config["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    assert config["max_position_embeddings"] == 131_072
    assert (tmp_path / "long" / "model.safetensors").read_text() == "weights"
    pytest.importorskip("transformers", reason="needs the [train] extra")
    from transformers import AutoConfig

    assert AutoConfig.from_pretrained(tmp_path / "long").rope_parameters["rope_type"] == "yarn"
    again = subprocess.run([*script, "4"], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and again.stderr == f"{tmp_path}/long: is there already\n"


# ---- what has to be there


@pytest.fixture
def server() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if "listed" in self.path:
                self.wfile.write(b'{"data": [{"id": "policy"}, {"id": "other"}]}')

        def log_message(self, *args: object) -> None:
            pass

    found = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}/v1"
    found.shutdown()


def needed(tmp_path: Path, text: str, **more: str) -> tuple[int, list[str]]:
    script = [sys.executable, str(EXAMPLES / "needs.py")]
    done = subprocess.run(
        script, input=text, capture_output=True, text=True, cwd=tmp_path, env=environment(**more), check=False
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_server_is_told_what_its_trainer_gives_it(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/v1"
    for options, rank in (
        ("--preset mle-rl", "RANK=0 "),
        ("--preset mle-ideator", "RANK=32 "),
        ("--lora-rank 8", "RANK=8 "),
    ):
        line = f"mle-train-grpo --stream --publish pub --publish-url {url} {options} --model m --run-dir r\n"
        _, told = needed(tmp_path, line, no_proxy="127.0.0.1")
        assert any(f"MODEL=m {rank}" in each for each in told), told
    _, told = needed(tmp_path, f"mle-rollout -m x --model-url {url} t.jsonl\n", no_proxy="127.0.0.1")
    assert any("MODEL=x " in each and "RANK" not in each for each in told), told


def test_a_server_of_another_model_is_named(tmp_path: Path, server: str) -> None:
    for name, code in (("policy", 0), ("Qwen/Qwen3-8B", 1)):
        found, told = needed(
            tmp_path, f"mle-rollout -m {name} --model-url {server}/listed t.jsonl\n", no_proxy="127.0.0.1"
        )
        assert found == code, told
    assert told == [f"{server}/listed serves other, policy, not Qwen/Qwen3-8B"]


def test_what_is_there_is_not_named(tmp_path: Path, server: str) -> None:
    (tmp_path / "data" / "leaf-classification").mkdir(parents=True)
    (tmp_path / "data" / "leaf-classification" / "prepared").touch()
    (tmp_path / "repo").mkdir()
    text = f"mle-rollout -m x --model-url {server} t.jsonl\nmle-rollout -m gpt-4.1 --model-url https://api.openai.com/v1 t.jsonl\n"
    text += (
        "mle-rollout -m gpt-5 --model-url https://api.openai.com/v1 --embedding-model text-embedding-3-small t.jsonl\n"
    )
    text += "mle-import data/leaf-classification --repo repo -o t.jsonl\nmle-rollout -m scripted t.jsonl\n"
    assert needed(tmp_path, text, OPENAI_API_KEY="sk", no_proxy="127.0.0.1") == (0, [])


def test_what_is_missing_has_a_line_each(tmp_path: Path, server: str) -> None:
    away = server.replace("127.0.0.1", "127.0.0.2").rsplit(":", 1)[0] + ":1/v1"
    text = (
        f"mle-rollout -m small --model-url {away} --ideator claude-sonnet-4-5 --ideator-url https://api.anthropic.com/v1 t.jsonl\n"
        "mle-rollout -m gpt-4.1 --model-url https://api.openai.com/v1 t.jsonl\n"
        "mle-rollout -m unheard-of --model-url https://api.openai.com/v1 t.jsonl\n"
        "mle-import bench/a bench/b --repo checkout -o t.jsonl\n"
        "CUDA_VISIBLE_DEVICES=63 mle-rollout -m hf:x t.jsonl\n"
    )
    code, lines = needed(tmp_path, text, OPENAI_API_KEY="sk", no_proxy="127.0.0.2", PATH=f"{BIN}:/usr/bin:/bin")
    assert code == 1 and len(lines) == 6
    told = "\n".join(lines)
    assert "no key for claude-sonnet-4-5 at https://api.anthropic.com/v1: export ANTHROPIC_API_KEY=..." in told
    assert "unheard-of at https://api.openai.com/v1 has no list price" in told
    assert "bench/a and 1 more: no competition is prepared there" in told and "BENCH=FOLDER" in told
    assert "checkout: no checkout of the benchmark is there: REPO=FOLDER" in told
    assert f"{away} does not answer" in told and "MODEL=small" in told and "cluster/serve.sh" in told
    assert "cards 63 are named, and nvidia-smi lists" in told


def test_the_paper_s_size_begins_with_what_is_missing() -> None:
    done = make("rd-agent", "SIZE=paper", "OUT=/dev/null/nowhere", "BENCH=nowhere")
    assert done.returncode == 2 and "nowhere: no competition is prepared there" in done.stdout
    assert "mle-import" not in done.stdout  # nothing was begun


# ---- the layouts in the recipes


@pytest.mark.parametrize("folder", ["rl4mle", "mle-rl", "sandmle", "mle-ideator"])
def test_processes_are_told_their_cards(folder: str) -> None:
    shown = make(
        folder,
        "-n",
        "--always-make",
        "results",
        "SIZE=paper",
        "TRAINER_GPUS=3,4",
        "SAMPLER_GPUS=0,1",
        "SAMPLER_SHARE=0.4",
    ).stdout
    trainers = [line for line in shown.replace("\\\n", " ").split("|") if "mle-train-grpo" in line]
    assert trainers and all(
        "CUDA_VISIBLE_DEVICES=3,4 accelerate launch" in line and "--num_processes 2" in line for line in trainers
    )
    samplers = [line for line in shown.split("\n") if "--forever" in line]
    told = 'CUDA_VISIBLE_DEVICES=0,1 MLE_ENGINE_OPTION="tensor_parallel_size=2 gpu_memory_utilization=0.4" mle-rollout'
    assert samplers and all(told in line for line in samplers)
    served = make(folder, "-n", "--always-make", "results", "SIZE=paper", "SERVER=http://far:8000/v1").stdout
    assert all(
        "CUDA_VISIBLE_DEVICES" not in line.split("mle-rollout")[0] for line in served.split("\n") if "--forever" in line
    )
    tiny = make(folder, "-n", "--always-make", "results", "SIZE=tiny").stdout
    assert "CUDA_VISIBLE_DEVICES" not in tiny and "MLE_ENGINE_OPTION" not in tiny


def test_what_is_said_to_be_nobody_s_has_the_cards_of_evaluation() -> None:
    page = "include Makefile\nprint:\n\t@echo $${CUDA_DEVICE_ORDER-} $${CUDA_VISIBLE_DEVICES-} $${MLE_ENGINE_OPTION-}\n"

    def said(*words: str) -> str:
        command = ["make", "-s", "-f", "-", "print", *words]
        kept = {name: value for name, value in environment().items() if not name.startswith("CUDA_")}
        folder = EXAMPLES / "mle-rl"
        return subprocess.run(
            command, input=page, cwd=folder, capture_output=True, text=True, env=kept, check=True
        ).stdout

    assert said("SIZE=paper", "CONTEXT=9") == "PCI_BUS_ID 4,5 tensor_parallel_size=2 max_model_len=9\n"
    shared = ("SIZE=paper", "GPUS=1", "EVALUATOR_SHARE=0.5")
    assert said(*shared) == "PCI_BUS_ID 0 gpu_memory_utilization=0.5\n"
    assert said("SIZE=tiny") == "\n"
