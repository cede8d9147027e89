"""The options of a scaffold: declared once, shown with the scaffold, refused with another, a file's own among them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from conftest import COMMANDS, records, run_command

from mletools.base.options import declarations, option
from mletools.cli_options import options, value_of
from mletools.scaffolds import IN_TURNS, SCAFFOLDS, open_scaffold

OWN = """
from dataclasses import dataclass
from mletools.base.options import option
from mletools.scaffolds.episode import Episode
from mletools.scaffolds.messages import task_prompt
from mletools.scaffolds.interface import Ended, Scaffold, Settings

@dataclass(frozen=True)
class Few(Settings):
    max_turns: int = 2
    {name}: int = option("A number.", default=3, at_least=1)

class Once(Scaffold[Few]):
    settings = Few

    def play(self, job, environment):
        episode = Episode(job, environment, [{{"role": "user", "content": task_prompt("single", job, environment)}}])
        try:
            while True:
                episode.ask()
                episode.observe("again")
        except Ended as ended:
            yield episode.record(ended.reason)

class NotOne: pass
"""


def section(text: str, heading: str) -> str:
    return text.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_all_has_headings_and_fits_100_columns(command: str) -> None:
    text = run_command(command, "--help-all", COLUMNS="100").stdout.decode()
    assert max(map(len, text.splitlines())) <= 100
    assert "\nCommon:\n" in text and "--quiet" in section(text, "Common") and "--help" in section(text, "Common")


def flags(text: str) -> set[str]:
    """Those that have an entry below a heading; prose may begin a line with one, too."""
    entries = re.split(r"\n(?=[A-Z][^\n]*:\n  -)", text, maxsplit=1)[-1]
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", entries, re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_usual_options_and_says_how_many_more_there_are(command: str) -> None:
    short, full = (run_command(command, asked, COLUMNS="80").stdout.decode() for asked in ("--help", "--help-all"))
    assert {"--output", "--resume", "--help", "--help-all"} <= flags(short) <= flags(full)
    left = len(flags(full)) - len(flags(short))
    if left:
        assert short.endswith(f"\n\n{left} more options, and the details: {command} --help-all\n")
        assert "\nCommon:\n" not in short and len(flags(short)) <= 20 and short.count("\n") <= 70
        assert short.partition("\n\nOptions:\n")[0].rpartition("\n\n")[2] in full, "what it reads before it writes"


def test_help_shows_the_roles_of_the_source_that_is_named() -> None:
    short, all_of = (
        run_command("mle-gen-task", "--source", "llm", asked).stdout.decode() for asked in ("--help", "--help-all")
    )
    roles = flags(section(all_of, "Roles (--source llm)"))
    assert len(roles) == 36 and flags(section(short, "Roles (--source llm)")) == roles and "--number" in flags(short)


def test_help_shows_the_options_of_the_scaffold_that_is_named() -> None:
    for name in SCAFFOLDS:
        text = run_command("mle-rollout", "--scaffold", name, "--help").stdout.decode()
        settings = open_scaffold(name).settings
        shown = section(text, f"Scaffold {name}")
        for field, declared in declarations(settings, settings.WITHOUT).items():
            assert (declared.flags or (f"--{field.replace('_', '-')}",))[-1] in shown
        for other in {"--ideator", "--implementer", "--reset-ratio", "--preset"} - set(shown.split()):
            assert f"  {other} " not in text
    react = run_command("mle-rollout", "--scaffold=react", "--defaults", "evaluation", "--help").stdout.decode()
    assert "[default: 20; x>=1]" in " ".join(section(react, "Scaffold react").split())


def test_an_option_is_declared_once() -> None:
    """What several scaffolds have means the same, up to the default."""
    seen: dict[str, object] = {}
    for name in IN_TURNS:
        settings = open_scaffold(name).settings
        for field, declared in declarations(settings, settings.WITHOUT).items():
            assert seen.setdefault(field, declared.type) == declared.type, field


def test_a_scaffold_in_a_file_is_played_with_its_own_options(tmp_path: Path) -> None:
    made = ("--source", "sklearn:wine", "--backend", "none", "-o", "tasks.jsonl")
    run_command("mle-gen-task", *made, cwd=tmp_path)
    line = ("mle-rollout", "--scaffold", "own.py:Once", "--preimport", "json", "tasks.jsonl", "--number-of-it", "5")
    ids = []
    for comment in ("", "", "# changed\n"):
        (tmp_path / "own.py").write_text(comment + OWN.format(name="number_of_it"))
        (record,) = records(run_command(*line, cwd=tmp_path).stdout)
        ids.append(record["id"])
        assert record["settings"]["own"] == {"number_of_it": 5} and record["settings"]["max_turns"] == 2
        assert (
            record["scaffold"] == "own.py:Once" and record["stop_reason"] == "max_turns" and len(record["turns"]) == 2
        )
    assert ids[0] == ids[1] != ids[2]  # the text of the file counts for the id
    own = OWN.format(name="number_of_it")
    assert "yield episode.record(" in own
    (tmp_path / "own.py").write_text(
        own.replace("yield episode.record(", "episode.turns[0]['action'] = 5\n            yield episode.record(")
    )
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and done.stdout.strip() in (b"", b"{")
    assert b"own.py:Once has made a record that is none: turns[0].action: Expected `str`, got `int`" in done.stderr


@pytest.mark.parametrize(
    ("scaffold", "more", "message"),
    [
        ("own.py:Nobody", (), "--scaffold own.py:Nobody: own.py has no Nobody"),
        ("gone.py:Once", (), "--scaffold gone.py:Once: gone.py: no such file"),
        ("fails.py:Me", (), "fails.py:2: AttributeError: module 'json' has no attribute 'lods'"),
        ("torn.py:Me", (), "torn.py:1: SyntaxError: invalid syntax"),
        ("importing:Me", (), "importing.py:1: ModuleNotFoundError: No module named 'nobodys'"),
        ("search", ("--coding", "fails.py:Me"), "fails.py:2: AttributeError: module 'json' has no attribute 'lods'"),
        ("own.py:NotOne", (), "it is no subclass of mletools.scaffolds.interface.Scaffold"),
        ("reacts", (), "--scaffold reacts: known are single, improve, react, codeact, memory, idea, search, command; one of your own"),
        ("own.py:Once", (), "Scaffold own.py:Once has an option --patience, and so has mle-rollout"),
        ("react", ("--ideator", "x"), "--ideator is about --scaffold codeact"),
        ("search", ("--reveal-test",), "--reveal-test is about --scaffold improve or react or codeact or memory or idea"),
        ("single", ("--max-turns", "3"), "--max-turns is about agents in turns, not --scaffold single"),
        ("react", ("--max-turns", "0"), "Invalid value for '--max-turns'"),
        ("react", ("--nonsense",), "No such option"),
    ],
)  # fmt: skip
def test_what_is_no_scaffold_or_no_option_of_it(
    scaffold: str, more: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(name="patience"))
    (tmp_path / "fails.py").write_text("import json\nX = json.lods('1')\n")
    (tmp_path / "torn.py").write_text("def f(:\n")
    (tmp_path / "importing.py").write_text("import nobodys\n")
    done = run_command("mle-rollout", "--scaffold", scaffold, *more, cwd=tmp_path, check=False)
    failed = "--coding" in more  # it is loaded when the run begins
    assert (done.returncode, done.stdout) == ((1, b"{") if failed else (2, b"")) and message in done.stderr.decode()


@dataclass(frozen=True)
class Everything:
    """One option of each kind."""

    count: int = option("Some.", default=2, at_least=1)
    share: float | None = option("A part.", above=0, below=1)
    kind: str = option("Which.", default="a", choices=("a", "b"))
    names: tuple[str, ...] = option("Several.", default=())
    quick: bool = option("Now.", default=False)
    loud: bool = option("Aloud.", default=True, switch=True)
    pair: tuple[int, int] | None = option("Two.", read=lambda text: tuple(int(part) for part in text.split(",")))
    hidden: int = 7


@dataclass(frozen=True)
class Less(Everything):
    count: int = 5


def test_options_of_every_kind_arrive_as_one_value() -> None:
    seen: list[Less] = []

    @click.command()
    @options(Less, "given", kind={"default": "b"}, quick=None)
    def command(given: Less) -> None:
        seen.append(given)

    run = CliRunner().invoke
    assert run(command, []).exit_code == 0
    line = ["--count", "3", "--share", "0.5", "--names", "x", "--names", "y", "--no-loud", "--pair", "1,2"]
    assert run(command, line).exit_code == 0
    assert seen == [Less(kind="b"), Less(3, 0.5, "b", ("x", "y"), False, False, (1, 2))]
    assert "invalid literal" in run(command, ["--pair", "1,x"]).output
    for wrong in (["--share", "1"], ["--count", "0"], ["--kind", "c"], ["--quick"], ["--hidden", "1"]):
        assert run(command, wrong).exit_code == 2, wrong


def test_a_value_is_found_before_the_line_is_parsed() -> None:
    assert value_of(["--scaffold", "a", "--scaffold=b"], "--scaffold", "c") == "b"
    assert value_of(["--", "--scaffold", "a"], "--scaffold", "c") == "c"
    assert value_of(["--scaffold"], "--scaffold", "c") == "c"


def test_settings_of_a_record_hold_every_bound_and_what_is_the_scaffolds_own() -> None:
    for name in IN_TURNS:
        settings = open_scaffold(name).settings()
        written = json.loads(json.dumps(settings.as_record()))
        assert {"max_turns", "validation", "own"} <= set(written)
        assert not {"graph", "states", "steps", "ideator_url", "set"} & set(written["own"])
