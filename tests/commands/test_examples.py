"""The experiments of examples/: every command of every size passes its own dry run, and the rehearsal is the paper's."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BIN, ROOT, records, run_command

EXAMPLES = ROOT / "examples"
EXPERIMENTS = sorted(path.parent.name for path in EXAMPLES.glob("*/Makefile"))


def make(folder: str, *arguments: str, first: Path = BIN) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "MAKE"))}
    environment["PATH"] = f"{first}:{BIN}:{environment['PATH']}"
    command = ["make", "-s", "-C", str(EXAMPLES / folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "size"),
    [
        *((folder, "paper") for folder in EXPERIMENTS),
        *(
            pytest.param(folder, size, marks=pytest.mark.nightly)
            for size in ("tiny", "small", "rehearsal")
            for folder in (EXPERIMENTS if size != "small" else ("sandmle", "rl4mle", "mle-rl"))
        ),
    ],
)
def test_every_command_accepts_its_options(folder: str, size: str, tmp_path: Path) -> None:
    done = make(folder, "options", f"SIZE={size}", f"OUT={tmp_path}/runs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" commands, 0 refused\n")
    assert not (tmp_path / "runs").exists()


def test_without_the_commands_on_the_path_it_says_what_to_install(tmp_path: Path) -> None:
    """A copy of the folder, away from any checkout; a checkout's own commands are found in its .venv."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("runs"))
    bare = {"PATH": os.pathsep.join(path for path in ("/usr/bin", "/bin") if not Path(path, "mle-rollout").exists())}
    folder = tmp_path / "examples" / "sandmle"
    done = subprocess.run(["make", "-C", folder], env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no mle-rollout: install mletools with pip install" in done.stderr
    read = subprocess.run(["make", "-n", "-C", folder], env=bare, capture_output=True, text=True, check=False)
    assert read.returncode == 0 and "mle-train-grpo" in read.stdout  # it reads without them
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/mle-rollout").write_text("#!/bin/sh\n")
    (tmp_path / ".venv/bin/mle-gen-task").write_text("#!/bin/sh\necho it is the checkout\nexit 1\n")
    for command in (tmp_path / ".venv/bin").iterdir():
        command.chmod(0o755)
    found = subprocess.run(["make", "-C", folder], env=bare, capture_output=True, text=True, check=False)
    assert found.returncode == 2 and "it is the checkout" in found.stdout


def test_the_small_size_samples_with_vllm_where_it_is_installed(tmp_path: Path) -> None:
    def engines(size: str) -> set[str]:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        recipe = ["make", "-n", "-C", EXAMPLES / "sandmle", f"SIZE={size}", f"OUT={tmp_path}/runs", "results"]
        shown = subprocess.run(recipe, env=environment, capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"-m (hf|vllm):", shown))

    for command, small in (("mle-rollout", "hf"), ("vllm", "vllm")):
        (tmp_path / command).write_text("#!/bin/sh\n")
        (tmp_path / command).chmod(0o755)
        assert [engines(size) for size in ("tiny", "small", "paper")] == [{"hf"}, {small}, {"vllm"}]


def test_each_model_of_the_small_size_has_a_folder() -> None:
    def report(*settings: str) -> str:
        shown = make("sandmle", "-n", "results", "SIZE=small", *settings).stdout
        return shown.rpartition("The page: ")[2].strip().rstrip('"')

    assert report() == report("MODEL=smollm2") == "runs/small/report.html"
    assert report("MODEL=qwen2.5-coder-0.5b") == "runs/small-qwen2.5-coder-0.5b/report.html"
    assert report("MODEL=qwen2.5-coder-0.5b", "OUT=mine") == "mine/report.html"


def test_the_small_size_of_mle_rl_runs_no_program_of_an_evaluation_twice() -> None:
    shown = make("mle-rl", "-n", "results", "SIZE=small", "OUT=out").stdout
    for arm in ("base", "sft-all", "sft-format", "sft-value"):
        for kept in ("instrumented", "executed"):
            assert f"-o out/{arm}.graded.jsonl.{kept} --resume; cat out/{arm}.graded.jsonl.{kept} |" in shown


def test_a_file_that_the_shell_writes_gets_its_name_when_it_is_whole() -> None:
    """SIGKILL leaves no time to delete the target, and make would take what is there of it for all of it."""
    for makefile in EXAMPLES.glob("*/Makefile"):
        redirected = re.findall(r"> *(\$+@.*)", makefile.read_text())
        assert redirected and set(redirected) <= {"$@.new; mv $@.new $@", "$$@.new; mv $$@.new $$@"}, makefile


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_an_experiment_goes_on_after_a_kill_and_does_nothing_twice(tmp_path: Path) -> None:
    """R&D-Agent's, the one without training, with little time for each search; the others take minutes (`make examples`)."""
    out = tmp_path / "runs"
    settings = (f"OUT={out}", "BUDGET=--clock work --max-seconds 3 -j 2 --timeout 4", "MLE_JOBS=2", "GENERATED=2")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "MAKE"))}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    command = ["make", "-s", "-C", str(EXAMPLES / "rd-agent"), *settings]
    first = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until = time.monotonic() + 600
    while not list(out.glob("*.graded.jsonl")):
        assert first.poll() is None and time.monotonic() < until
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.graded.jsonl")}
    assert not (out / "report.html").exists()
    done = make("rd-agent", *settings)
    assert done.returncode == 0, done.stderr
    assert "table 3: without each component" in done.stdout and (out / "report.html").stat().st_size > 10_000
    assert {path: path.stat().st_mtime_ns for path in before} == before
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    again = make("rd-agent", *settings)
    assert (
        again.returncode == 0 and {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == files
    )


@pytest.mark.parametrize(("sound", "trained", "held"), [(912, 848, 64), (1000, 848, 64), (14, 13, 1), (5, 4, 1)])
def test_fewer_sound_tasks_leave_some_to_validate(sound: int, trained: int, held: int, tmp_path: Path) -> None:
    """SandMLE has 848 and 64 of 912; an empty validation set would end the training at its first checkpoint."""
    (tmp_path / "sound.jsonl").write_text("".join(f"{number}\n" for number in range(sound)))
    files = [f"{tmp_path}/{name}.jsonl" for name in ("train", "validation")]
    done = make("sandmle", "SIZE=paper", f"OUT={tmp_path}", "-o", f"{tmp_path}/sound.jsonl", *files)
    assert done.returncode == 0, done.stderr
    parts = [Path(file).read_text().split() for file in files]
    assert [len(part) for part in parts] == [trained, held]
    assert parts[0] + parts[1] == [str(number) for number in range(trained + held)]


def test_running_times_count_each_program_once(tmp_path: Path) -> None:
    """SandMLE's figure 6: means on the made tasks and on their seeds; what is handed in is one of an agent's programs."""

    def ran(seconds: float) -> dict:
        return {"execution": {"duration_s": seconds}}

    agent = {"settings": {}, "turns": [ran(1.0), {}, ran(3.0)], **ran(3.0)}
    made = [agent, {"turns": [{}], **ran(8.0)}, {"settings": {}, "turns": []}, {"turns": [], "execution": None}]
    for name, rollouts in (("timed", made), ("teacher", [{**agent, "turns": [ran(196.0)]}])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rollouts))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mle-report").write_text("#!/bin/sh\n")  # it draws, which is not looked at here
    (tmp_path / "bin/mle-report").chmod(0o755)
    kept = [argument for name in ("timed", "teacher") for argument in ("-o", f"{tmp_path}/{name}.jsonl")]
    done = make("sandmle", "SIZE=paper", f"OUT={tmp_path}", *kept, f"{tmp_path}/latency.txt", first=tmp_path / "bin")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "latency.txt").read_text()
    assert text.startswith("seconds a program on the made tasks and on their seeds")
    found = json.loads("[" + text.partition("\n")[2].replace("}\n{", "},{") + "]")
    assert [(each["programs"], each["mean"], each["longest"]) for each in found] == [(3, 4.0, 8.0), (1, 196.0, 196.0)]


def test_the_steps_of_rl4mle_wait_for_no_group_and_drop_nothing_late() -> None:
    """Algorithm 1; in the arms of figures 2 and 8 also as it is printed."""
    arguments = ("-n", "results", "SIZE=paper", "TWELVE=leaf-classification")
    pipes = [line for line in make("rl4mle", *arguments).stdout.splitlines() if "mle-train-grpo" in line]
    assert len(pipes) == 6
    for line in pipes:
        begun, _, trained = line.partition("mle-train-grpo")
        printed = "paper/first" in line
        assert f"--max-staleness {0 if printed else 1}" in begun and " -g 1 " in begun
        assert "--min-group 1 --no-spread" in begun and "--max-staleness" not in trained
        assert ("--oversample 2" in trained) == printed
        assert ("--mode lm" in begun) == ("/no-credit/" not in begun)
    (own,) = (line for line in pipes if "--improve-ratio" in line)
    folder = own.partition("--run-dir ")[2].split()[0]
    assert f"--pool {folder}/graded.jsonl --pool-newest 128" in own and f"tee.py {folder}/graded.jsonl" in own


def test_an_unknown_size_is_refused() -> None:
    done = make("rd-agent", "-n", "SIZE=small")
    assert done.returncode == 2 and "SIZE is one of tiny rehearsal paper, not small" in done.stderr


@pytest.mark.parametrize("folder", EXPERIMENTS)
def test_a_rehearsal_differs_from_the_paper_by_its_variables_alone(folder: str) -> None:
    done = make(folder, "differences")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RUN_SECONDS: " in done.stdout and " -> 30\n" in done.stdout


def recipes(folder: str) -> list[str]:
    """The commands of the paper's size, one a line."""
    done = make(folder, "-n", "--always-make", "results", "SIZE=paper", "OUT=out")
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ").splitlines()


def one(lines: list[str], *words: str) -> str:
    """The one line that has all of the words."""
    (found,) = [line for line in lines if all(word in line for word in words)]
    return found


def test_mle_rls_tables_compare_what_the_paper_compares() -> None:
    lines = recipes("mle-rl")
    # the base rows of tables 1 and 4 have no memory; table 2 tells what was trained on
    without = one(lines, "-o out/without-memory.jsonl.rollouts")
    assert "--reset-ratio 1 " in without and "--max-submissions" not in without
    for table in ("table1", "table4"):
        report = one(lines, "mle-report", f"> out/{table}.txt")
        assert "--label base " in report and " out/without-memory.jsonl " in report and "--spread sd" in report
    assert "--trained out/train.jsonl" in one(lines, "mle-report", "> out/table2.txt")
    # what is imitated are the steps of reinforcement, failed ones, too; the arms select from the same ones
    teacher = one(lines, "-o out/teacher.jsonl")
    assert teacher.startswith("mle-filter -q --cut-steps --failed-steps out/mle-rl/traces.jsonl ")
    for kind in ("all", "format", "value"):
        assert " out/teacher.jsonl " in one(lines, f"-o out/sft-{kind}/chosen.jsonl")
    assert "--keep-invalid" in one(lines, "-o out/sft-all/chosen.jsonl")
    # a trace without a step reaches the trainer, marked
    assert "tee.py out/mle-rl/traces.jsonl | mle-filter -q --cut-steps --mark " in one(lines, "--run-dir out/mle-rl ")


def test_mle_ideators_arms_are_the_papers() -> None:
    lines = recipes("mle-ideator")
    tokens = "--ideator-max-tokens 8192"
    assert "--max-answer-tokens 8192" in one(lines, "mle-rollout", "--forever")  # the ideator in training
    asking = [line for line in lines if "mle-rollout" in line and "--ideator " in line]
    fixed = [line for line in asking if "--ideator null" in line or "--ideator vague" in line]
    assert fixed and all((tokens in line) != (line in fixed) for line in asking)
    assert one(lines, "mle-train-grpo").count("--max-staleness 0") == 2  # on-policy
    kinds = one(lines, "mle-classify-ideas")
    assert kinds.split("--per-model ")[1].split(";")[0].split() == [
        f"out/with-{ideator}.graded.jsonl" for ideator in ("base", "rl", "advisor")
    ]
    assert "with-rl" not in one(lines, "> out/table2.txt")  # which has a task that it was trained on
    assert not [line for line in lines if "20241022" in line or "20250514" in line]  # models that are gone


def test_a_recipe_that_differs_otherwise_is_shown(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("runs"))
    makefile = tmp_path / "examples" / "rd-agent" / "Makefile"
    extra = "\nifeq ($(SIZE),rehearsal)\nMODELS += --max-usd 1\nendif\n"
    makefile.write_text(makefile.read_text() + extra)
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "-s", "-C", makefile.parent, "differences"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "the recipes differ by more than the variables of rehearsal.mk" in done.stderr
    assert "--max-usd 1" in done.stdout


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_tables_of_rd_agent_count_all_competitions() -> None:
    """A set with 2 of 8 competitions, a medal in one of them: 12.5 % of all."""

    def row(task: str, name: str, usd: float | None = None, **shares: float) -> dict[str, object]:
        rates = dict.fromkeys(("valid", "above_median", "bronze", "silver", "gold", "medal"), 0.0) | shares
        used = {"usd": usd, "seconds": 3.0, "prompt_tokens": 20, "completion_tokens": 5}
        points = [
            {"share": 0.5, "medal": 0.0, "perfect_medal": 0.5},
            {"share": 1.0, "medal": 0.5, "perfect_medal": 1.0},
        ]
        cost = {"research": used, "develop": {**used, "usd": usd and 2 * usd}}
        return {"task": task, "set": name, **rates, "search": {"cost": cost, "over_time": points}}

    lines = [
        row("a", "x"),
        row("b", "x"),
        row("a", "y"),
        row("all", "x", 4.0, medal=0.5, valid=1.0),
        row("all", "y", 6.0),
    ]

    def table(call: str) -> list[list[str]]:
        command = ["jq", "-rs", "-L", str(EXAMPLES / "rd-agent"), f'include "tables"; {call} | @tsv']
        text = "\n".join(map(json.dumps, lines))
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    assert table("table3(8)") == [["set", "any medal %"], ["x", "12.5"], ["y", "0"]]
    assert table("table7(8)")[1] == ["x", "25", "0", "0", "0", "0", "12.5"]
    assert table("figure3(8; 43200)")[1:] == [["0.5", "6", "0", "0", "12.5"], ["1", "12", "12.5", "6.25", "25"]]
    assert table("table8")[1:] == [
        ["x", "4", "8", "12", "25", "25", "3", "3"],
        ["y", "6", "12", "18", "25", "25", "3", "3"],
        ["mean", "5", "10", "15", "25", "25", "3", "3"],
    ]
    lines[3] = row("all", "x", None)
    assert table("table8")[1][1:4] == table("table8")[3][1:4] == ["-", "-", "-"]


def test_the_paper_size_of_rd_agent_has_the_papers_searches() -> None:
    shown = make("rd-agent", "-n", "--always-make", "results", "SIZE=paper", "OUT=OUT").stdout
    searches = re.findall(r"^mle-rollout .*$", shown, re.MULTILINE)
    of = {file: [line for line in searches if f" OUT/{file}.jsonl -o " in line] for file in ("tasks", "ablated")}
    assert len(of["tasks"]) == 18 and len(of["ablated"]) == 6 and len(searches) == 24
    hybrid = [line for line in searches if "--research-model o3" in line]
    assert len(hybrid) == 6 and all(" -m gpt-4.1 " in line for line in hybrid)
    assert all(" -m gpt-5 " in line for line in searches if line not in hybrid)
    assert all("--clock wall --max-seconds 43200" in line and "--max-rejects" not in line for line in searches)
    assert (
        """jq -c 'select(.provenance.split | IN("low", "medium", "high"))' OUT/imported.jsonl > OUT/tasks.jsonl"""
        in shown
    )
    known = make("rd-agent", "-n", "--always-make", "results", "SIZE=paper", "OUT=OUT", "KNOWLEDGE=notes").stdout
    assert known.count("--preset rd-agent --knowledge notes") == 3 and "no arm" in shown and "no arm" not in known


@pytest.mark.slow
def test_competitions_are_imported_without_flags(tmp_path: Path) -> None:
    script = [sys.executable, str(EXAMPLES / "competitions.py"), str(tmp_path / "bench")]
    for _ in range(2):
        subprocess.run(script, check=True)
    imported = run_command("mle-import", "bench/data", "--repo", "bench", "-k", cwd=tmp_path)
    image, text, table = records(imported.stdout)
    assert [task["provenance"]["split"] for task in (image, text, table)] == ["low", "medium", "low"]
    assert all(task["provenance"]["graded_by"] == "record" and task["leaderboard"] for task in (image, text, table))
    assert image["modality"] == "image" and "train.csv" not in image["data"]["public"]
    (dojo,) = records(run_command("mle-import", "bench/dojo", "--repo", "bench", cwd=tmp_path).stdout)
    assert dojo["public_leaderboard"] and dojo["provenance"]["benchmark"] == "mle-dojo"


def test_the_check_of_commands_accepts_nothing_but_success() -> None:
    script = [sys.executable, str(EXAMPLES / "options.py")]
    text = "mle-rollout --scaffold search --no-such x.jsonl | mle-grade -q \\\n  --reward best > y\nx=$$(( 1 + 2 )); mle-filter --top $x\n"
    done = subprocess.run(script, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.endswith("3 commands, 3 refused\n")
    assert (
        "No such option" in done.stdout
        and "'best' is not one of" in done.stdout
        and "'$x' is not a valid float" in done.stdout
    )
    text = (
        'mle-rollout -m gpt-4.1 --model-url "" x.jsonl\n'
        "mle-train-grpo --stream --publish p --max-staleness 1 --model m --run-dir o --preset mle-rl\n"  # behind the parser
        "mle-grade x.jsonl -o y.jsonl --resume\nmle-import there --metric rmsle -o tasks.jsonl\n"
    )
    done = subprocess.run(script, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.endswith("4 commands, 2 refused\n"), done.stdout
    assert "'' is no URL" in done.stdout and "a policy is up to 4 updates old" in done.stdout
    assert subprocess.run(script, input="echo", capture_output=True, text=True, check=False).returncode == 1


@pytest.mark.parametrize("folder", EXPERIMENTS)
def test_every_table_is_on_the_page_of_the_papers(folder: str) -> None:
    """docs/papers.md: each target of a table is in the experiment's Makefile, and the other way round."""
    rows = re.findall(rf"^\| {folder} \|[^|]*\| `([^`]*)` \|", (ROOT / "docs/papers.md").read_text(), re.MULTILINE)
    shown_last = make(folder, "-n", "--always-make", "results", "SIZE=paper", "OUT=OUT").stdout.splitlines()[-1]
    assert {row for row in rows if row.endswith(".txt")} == set(re.findall(r"OUT/(\S+\.txt)", shown_last))


def test_every_target_says_what_the_rehearsal_printed() -> None:
    """docs/papers.md: a last column beside the target, "-" where there is none."""
    page = (ROOT / "docs/papers.md").read_text()
    for folder in EXPERIMENTS:
        for row in re.findall(rf"^\| {folder} \|(.*)\|$", page, re.MULTILINE):
            _, target, _, printed = (cell.strip() for cell in row.split("|"))
            assert (target == "-") == (printed == "-") and printed, row


def shown(page: Path) -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


PAGES = [EXAMPLES.parent / "README.md", *sorted((EXAMPLES.parent / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if "mle-" in shown(page)], ids=lambda page: page.name)
def test_every_command_of_the_docs_accepts_its_options(page: Path) -> None:
    script = [sys.executable, str(ROOT / "tests" / "support" / "documented_commands.py")]
    done = subprocess.run(script, input=shown(page), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
