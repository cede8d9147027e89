"""The scripts in benchmarks/: their options are those that they read, and one of them runs whole, in small."""

import argparse
import ast
import importlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BIN, ROOT

SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


def declared(tree: ast.Module) -> set[str]:
    """The names under which argparse keeps what parser.add_argument declares; any word of a script that names some in a loop."""
    parser = argparse.ArgumentParser(add_help=False)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "parser.add_argument":
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            if names:
                found.add(parser.add_argument(*names).dest)
            else:
                words = {
                    each.value
                    for each in ast.walk(tree)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
                found |= {word.lstrip("-").replace("-", "_") for word in words}
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_reads_only_options_that_it_has(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "given"
    }
    assert read <= declared(tree)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("real_lm.py smollm2", "| sft-sandmle - seed-sft | reward     | +0.102"),
        ("real_lm.py sandmle", "| sandmle | 72 of 72  | 48 of 98        | 17 of 70  |"),
        ("real_lm.py mle-rl", "| sft-format | 40 of 42  | 34 of 66        | 27 of 52  |"),
        ("real_lm.py rl4mle --page page.html", "| full - no-duration | valid      | -0.109"),
        ("real_lm.py rl4mle --seeds 0 1", "| improve - full     | valid      | -0.047"),
        ("real_lm.py rl4mle --count RandomForestClassifier(", "| fresh     | 32        | 31      | 157      | 31 "),
        ("over_seeds.py mle-rl -n 0", "| mle-rl - base"),
        ("coder.py table", "| single"),
        ("coder.py own", "| single"),
        ("coder.py compare before after --set test", "| react"),
        ("coder.py waste before --set test", "| program fails"),
        ("reads.py", "programs"),
    ],
    ids=lambda value: value if ".py" in value else "",
)
def test_what_is_kept_is_printed_again(words: str, printed: str, tmp_path: Path) -> None:
    script, *arguments = words.split()
    command = [sys.executable, ROOT / "benchmarks" / script, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert (tmp_path / "page.html").exists() == ("--page" in arguments)


@pytest.mark.nightly
def test_the_comparison_of_searches_in_small(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    run = {"check": False, "capture_output": True, "text": True, "cwd": tmp_path, "timeout": 300}
    generate = [BIN / "mle-gen-task", "-q", "-n", "1", "--source", "tabular", "--samples", "100-200", "-o", tasks]
    assert subprocess.run(generate, **run).returncode == 0
    command = [sys.executable, ROOT / "benchmarks" / "search.py", tasks, "--run-dir", tmp_path / "runs"]
    command += ["--kept", tmp_path / "kept"]
    command += ["--seeds", "2", "--seconds", "2", "-j", "2", "--arms", "rd-agent", "aide"]
    told = []
    for _ in range(2):
        done = subprocess.run(command, **run)
        assert done.returncode == 0, done.stderr
        assert "| aide " in done.stdout and "| rd-agent, one node a round " in done.stdout
        assert "perfect selection: normalised" in done.stdout
        told.append(done.stdout)
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)  # what is kept is not run again
    assert told[0] == told[1] and not (tmp_path / "runs" / "aide-0.jsonl").exists()
    other = subprocess.run([*generate[:-1], tmp_path / "other.jsonl", "--seed", "1"], **run)
    assert other.returncode == 0, other.stderr
    done = subprocess.run([*command[:2], tmp_path / "other.jsonl", *command[3:]], **run)
    assert done.returncode != 0 and "searched for other tasks" in done.stderr


MAKEFILE = """
$(OUT)/%.jsonl:
	@mkdir -p $(@D); echo $* >> $(OUT)/made
	@test ! -e $(OUT)/hold || { sleep 60 & echo $$! > $(OUT)/child; wait; }
	@echo '{ROLLOUT}' > $@
	@echo '{"waited_s": 1.0, "duration_s": 2.0}' > $(@D)/steps.jsonl; cp $@ $(@D)/graded.jsonl
"""


def test_what_a_real_model_learnt_is_kept_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    real_lm = importlib.import_module("real_lm")
    rollout = {
        "messages": [],
        "task": {"id": "t", "name": "anes96_vote", "provenance": {}},
        "home": str(tmp_path / "out/x"),
    }
    (tmp_path / "examples/rl4mle").mkdir(parents=True)
    (tmp_path / "examples/rl4mle/Makefile").write_text(MAKEFILE.replace("{ROLLOUT}", json.dumps(rollout)))
    monkeypatch.setattr(real_lm, "ROOT", tmp_path)
    out, folder = tmp_path / "out", tmp_path / "kept"
    out.mkdir()
    base, full = list(real_lm.EXPERIMENTS["rl4mle"].parts([0]))[:2]
    for part in (base, full):
        assert real_lm.made(real_lm.EXPERIMENTS["rl4mle"], part, out, [], time.monotonic() + 60)
        real_lm.keep(folder, part, out)
    assert (out / "made").read_text().split() == ["base/anes96_vote", "full/anes96_vote/samples"]
    names = ["0-base-anes96_vote", "0-full-anes96_vote", "0-full-anes96_vote.learning", "0-full-anes96_vote.steps"]
    assert sorted(file.name for file in folder.iterdir()) == [f"{name}.jsonl.gz" for name in names]
    (kept,) = real_lm.read(full.kept(folder, "answers"))
    assert kept["rollout"]["home"] == "runs/small/x"  # no place of this machine

    (out / "hold").touch()  # the time is up: all that it began ends with it
    (out / "full/anes96_vote/samples.jsonl").unlink()
    assert not real_lm.made(real_lm.EXPERIMENTS["rl4mle"], full, out, [], time.monotonic() + 2)
    child, deadline = Path("/proc", (out / "child").read_text().strip(), "status"), time.monotonic() + 30
    while child.exists() and "zombie" not in child.read_text():  # it is killed, but may not have ended
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (out / "full/anes96_vote/samples.jsonl").exists()
