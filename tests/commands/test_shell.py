"""Completion in a real bash, and man pages in a real troff, of every command."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, ROOT

from mletools import shell

NAMES = sorted(path.name for path in (ROOT / "bin").iterdir())


def test_every_command_is_there() -> None:
    assert shell.names() == NAMES


def completed(words: str) -> list[str]:
    """What Tab offers after these words in a bash with the completion that is printed for it."""
    script = f"""
        eval "$({sys.executable} -m mletools.shell completion bash)"
        COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        complete -p {words.split()[0]} >&2
        _{words.split()[0].replace("-", "_")}_completion {BIN}/{words.split()[0]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert f"{words.split()[0]}" in done.stderr
    return done.stdout.split()


def test_tab_completes_options_and_choices() -> None:
    assert completed("mle-grade --re") == ["--reward", "--reward-json", "--resume", "--rejects"]
    assert completed("mle-rollout --scaffold co") == ["codeact", "command"]
    assert completed("mle-rollout --scaffold codeact --ideator-k") == ["--ideator-key-file", "--ideator-key-env"]
    assert completed("mle-grade --reward ''") == ["milestone", "partial-credit", "raw", "human-rank", "improvement"]


@pytest.mark.parametrize("other", ["zsh", "fish"])
def test_other_shells_know_every_command(other: str) -> None:
    command = [sys.executable, "-m", "mletools.shell", "completion", other]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(f" {name}" in told for name in NAMES)


def test_man_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mletools.shell", "man", str(tmp_path / "man1")]
    subprocess.run(command, check=True, capture_output=True)
    pages = sorted((tmp_path / "man1").iterdir())
    assert [page.stem for page in pages] == NAMES
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
