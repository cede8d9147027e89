"""The files that leave a sandbox: those that its caller has declared, and none that a program could smuggle out or in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from solving import make_public

from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Outcome, Setup
from mletools.sandbox.agent import message_of, read_result
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.outputs import check_outputs, read_outputs

LIMITS = Limits(wall_s=20.0, submission_mb=1)
PREPARE = "import os\nos.makedirs('env/docs')\n"
# What a program does to a folder that is handed out, and what is said of it.
REFUSED = {
    "link": ("os.symlink('/etc/passwd', 'env/a')", "env/a is a symbolic link"),
    "link to itself": ("os.symlink('a', 'env/a')", "env/a is a symbolic link"),
    "linked folder": ("os.symlink('/etc', 'env/a')", "env/a is a symbolic link"),
    "linked root": ("os.rename('env', 'gone'); os.symlink('/etc', 'env')", "env is a symbolic link"),
    "no root": ("os.rename('env', 'gone')", "no env"),
    "file as root": ("os.rename('env', 'gone'); open('env', 'w').close()", "env is not a directory"),
    "pipe": ("os.mkfifo('env/docs/a')", "env/docs/a is a named pipe"),
    "socket": ("import stat; os.mknod('env/a', stat.S_IFSOCK | 0o600)", "env/a is not a regular file"),
    "sparse": ("open('env/a', 'wb').truncate(30 << 20)", "env/ is larger than 1 MB"),
    "together": ("[open(f'env/{at}', 'wb').write(bytes(600_000)) for at in range(2)]", "env/ is larger than 1 MB"),
    "many": ("[open(f'env/{at}', 'w').close() for at in range(2001)]", "more than 2000 files and folders in env/"),
    "many folders": (
        "[os.mkdir(f'env/{at}') for at in range(1200)]; [os.mkdir(f'env/docs/{at}') for at in range(1200)]",
        "more than 2000 files and folders in env/",
    ),
    "deep": ("os.makedirs('env/a/b/c'); open('env/a/b/c/d', 'w').close()", "the file name 'a/b/c/d' is refused"),
    "hidden": ("open('env/.hidden', 'w').close()", "the file name '.hidden' is refused"),
    "backslash": ("open('env/a' + chr(92) + 'b', 'w').close()", r"the file name 'a\\\\b' is refused"),
    "new line": ("open('env/a\\n', 'w').close()", r"the file name 'a\\n' is refused"),
    "not ASCII": ("open('env/é', 'w').close()", r"the file name '\\xe9' is refused"),
    "no UTF-8": ("open(b'env/\\xff', 'w').close()", r"the file name '\\udcff' is refused"),
    "long": ("open('env/' + 'a' * 101, 'w').close()", "is refused"),
    "case": ("open('env/a', 'w').close(); open('env/A', 'w').close()", "two names in env/ differ in case alone"),
}


@pytest.fixture(scope="module", params=["namespaces", "Landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(1, ("json",)), namespaces=request.param == "namespaces") as opened:
        try:
            assert opened.protections
        except ToolError as error:
            pytest.skip(f"not as this user: {error}")
        yield opened


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


def test_the_declared_files_leave_and_no_other(sandbox: LocalSandbox, public: Path) -> None:
    code = PREPARE + "".join(
        f"open({name!r}, 'w').write({name!r})\n"
        for name in ("submission.csv", "other.csv", "env/a.csv", "env/docs/b", "kept.csv")
    )
    outcome = sandbox.run(code, public, LIMITS, 0, outputs=("submission.csv", "env/docs/b", "missing.csv", "env/"))
    left = ("submission.csv", "env/docs/b", "env/a.csv")
    assert outcome.outputs == {name: name.encode() for name in left}
    assert outcome.problems == {"missing.csv": "no missing.csv"}
    assert (outcome.submission, outcome.submission_problem) == (b"submission.csv", None)
    outcome = sandbox.run(code, public, LIMITS, 0, outputs=())
    assert (outcome.status, outcome.outputs, outcome.problems, outcome.submission) == ("ok", {}, {}, None)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_hostile_folder_is_refused_whole(sandbox: LocalSandbox, public: Path, kind: str) -> None:
    code, problem = REFUSED[kind]
    code = PREPARE + "open('env/ok', 'w').close(); open('submission.csv', 'w').write('mine')\n" + code
    outcome = sandbox.run(code, public, LIMITS, 0, outputs=("env/", "submission.csv"))
    assert outcome.status == "ok", outcome.stderr.decode()
    assert outcome.outputs == {"submission.csv": b"mine"} and list(outcome.problems) == ["env/"]
    assert problem in outcome.problems["env/"].replace("\\", "\\\\") and outcome.problems["env/"].isascii()


def test_a_file_in_a_linked_folder_is_refused(sandbox: LocalSandbox, public: Path) -> None:
    code = "import os\nos.mkdir('a'); open('a/passwd', 'w').close(); os.symlink('/etc', 'b'); open('c', 'w').close()"
    outcome = sandbox.run(code, public, LIMITS, 0, outputs=("a/passwd", "b/passwd", "c/passwd", "a"))
    assert outcome.outputs == {"a/passwd": b""}
    told = {"b/passwd": "b is a symbolic link", "c/passwd": "c is not a directory", "a": "a is a directory"}
    assert outcome.problems == told


@pytest.mark.parametrize(
    "name", ["", "/", "/etc/passwd", "../a", "a/../../b", "./a", "a//b", "a\0", ".hidden", "a\n", "é"]
)
def test_names_that_lead_elsewhere_are_refused(sandbox: LocalSandbox, public: Path, name: str) -> None:
    with pytest.raises(ToolError, match="plain names below the work folder"):
        sandbox.run("", public, LIMITS, 0, outputs=(name,))
    with pytest.raises(ToolError, match="plain names below the work folder"):
        sandbox.session(public, LIMITS, 0, outputs=(name,))
    with pytest.raises(ToolError, match="at most 8"):
        check_outputs([f"{at}.csv" for at in range(9)])


def test_a_session_hands_out_the_declared_files_after_each_cell(sandbox: LocalSandbox, public: Path) -> None:
    session = sandbox.session(public, Limits(wall_s=60.0), 0, outputs=("verdict.json", "env/"))
    try:
        cell = session.python("open('submission.csv', 'w').write('a'); open('verdict.json', 'w').write('b');", 20.0)
        assert (cell.outputs, cell.problems) == ({"verdict.json": b"b"}, {"env/": "no env"})
        cell = session.bash("mkdir env && echo c > env/c && rm verdict.json", 20.0)
        assert (cell.outputs, cell.problems) == ({"env/c": b"c\n"}, {"verdict.json": "no verdict.json"})
    finally:
        session.close()


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "submission.csv"
    path.write_bytes(b"x")
    really, work = os.fstat, os.open(tmp_path, os.O_RDONLY)

    def and_grow(descriptor: int) -> Any:
        status = really(descriptor)
        path.write_bytes(bytes((1 << 20) + 1))
        return status

    monkeypatch.setattr(os, "fstat", and_grow)
    assert read_outputs(work, ["submission.csv"], 1) == ({}, {"submission.csv": "submission.csv is larger than 1 MB"})


def test_a_container_hands_out_what_was_asked_for_alone() -> None:
    outputs = {"submission.csv": b"s", "env/a.csv": b"", "env/docs/b": b"bb"}
    outcome = Outcome("ok", 0, 0.1, 0.1, 1.0, b"out", b"err", outputs, {"c": "no c"})
    assert read_result(Outcome, ("submission.csv", "env/", "c"), *message_of(outcome)) == outcome
    for name in ("other.csv", "env", "env/../../a", "/env/a", "env//a", "../env/a", "env/\udcff"):
        message, content = message_of(outcome)
        message["outputs"][1] = name
        with pytest.raises(ToolError, match="was not asked for"):
            read_result(Outcome, ("submission.csv", "env/", "c"), message, content)
