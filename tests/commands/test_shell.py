"""The index of the commands; completion in a real bash, and man pages in a real troff, of every command."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, COMMANDS, run_command

from mletools import shell

MLE = str(BIN / "mle")


def told(*args: str, code: int = 0) -> str:
    done = subprocess.run([MLE, *args], capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_index_has_every_command_in_the_order_of_the_pipe() -> None:
    text = told()
    assert text == told("--help") and max(map(len, text.splitlines())) <= 80
    listed = re.findall(r"^  (mle-[\w-]+)  +\w", text, re.MULTILINE)
    assert sorted(listed) == COMMANDS
    pipe = ["mle-gen-task", "mle-rollout", "mle-sandbox", "mle-grade", "mle-filter", "mle-report", "mle-train-grpo"]
    assert [name for name in listed if name in pipe] == pipe


def test_a_command_runs_by_the_index_as_on_its_own() -> None:
    assert told("grade", "--list-metrics") == run_command("mle-grade", "--list-metrics").stdout.decode()
    assert told("import", "--version") == run_command("mle-import", "--version").stdout.decode()
    assert "mle-grade: no-such-file: No such file" in told("grade", "no-such-file", code=1)


def test_a_command_that_does_not_exist_is_taken_for_the_nearest() -> None:
    assert told("rolout", code=2).endswith("Error: there is no command rolout; did you mean rollout?\n")
    assert told("xyz", code=2).endswith("Error: there is no command xyz\n")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("mle > /dev/full", 1, "mle: cannot write stdout: No space left on device\n"),
        ("mle completion bash > /dev/full", 1, "mle: cannot write stdout: No space left on device\n"),
        ("mle man /dev/null/x", 1, "mle: /dev/null/x: Not a directory\n"),
    ],
)
def test_an_output_that_cannot_be_written_ends_it_like_every_command(line: str, code: int, said: str) -> None:
    path = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=path)
    assert (done.returncode, done.stderr) == (code, said)


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([MLE, "completion", "bash"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def completed(words: str) -> list[str]:
    """What Tab offers after these words in a bash with the completion that is printed for it."""
    script = f"""
        eval "$({MLE} completion bash)"
        COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        complete -p {words.split()[0]} >&2
        _{words.split()[0].replace("-", "_")}_completion {BIN / words.split()[0]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert f"{words.split()[0]}" in done.stderr
    return done.stdout.split()


def test_tab_completes_options_and_choices() -> None:
    assert completed("mle-grade --re") == ["--reward", "--reward-json", "--resume", "--rejects"]
    assert completed("mle-rollout --scaffold co") == ["codeact", "command"]
    assert completed("mle-rollout --scaffold codeact --ideator-k") == ["--ideator-key-file", "--ideator-key-env"]
    assert completed("mle roll") == ["rollout"] and "completion" in completed("mle ''")
    assert completed("mle grade --reward-") == ["--reward-json"]
    assert completed("mle-grade --reward ''") == ["milestone", "partial-credit", "raw", "human-rank", "improvement"]


@pytest.mark.parametrize("other", ["zsh", "fish"])
def test_other_shells_know_every_command(other: str) -> None:
    script = told("completion", other)
    assert all(f" {name}" in script for name in ["mle", *COMMANDS])


def test_man_pages(tmp_path: Path) -> None:
    told("man", str(tmp_path / "man1"))
    pages = sorted((tmp_path / "man1").iterdir())
    assert [page.stem for page in pages] == COMMANDS
    for page in pages:
        text = page.read_text()
        assert "\b" not in text and ".SH OPTIONS" in text and text.count(".nf\n") == text.count("\n.fi") > 0
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: the pages are not set")
    done = subprocess.run(
        ["groff", "-k", "-Tutf8", "-man", "-ww", *map(str, pages)], capture_output=True, text=True, check=True
    )
    assert not done.stderr and "    mle-sandbox rollouts.jsonl | mle-grade --reward raw | jq .reward" in done.stdout


def test_the_help_is_left_as_it_was() -> None:
    found = shell.command("mle-grade")
    before = (found.help, found.short_help)
    shell.page("mle-grade")
    assert (found.help, found.short_help) == before
