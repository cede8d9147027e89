"""Arguments of a program: sys.argv as after `python solution.py ARGUMENTS`, warm and cold, in every backend.

And an observer, which goes the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import Daemon
from solving import make_public, printed

from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Sandbox, Setup
from mletools.sandbox.container import DockerSandbox
from mletools.sandbox.local import LocalSandbox

CODE = "import json, os, sys\nprint(json.dumps([sys.argv, sys.orig_argv[1:], __name__]))"
FLAG = "import argparse\nadd = argparse.ArgumentParser()\nadd.add_argument('--debug', action='store_true')\nprint(add.parse_args())"
AWKWARD = ["--debug", "", "a b", "-c", "'\"\\", "é\n", "\ud800", "--", "solution.py"]
SMALL = ("json",)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


@pytest.fixture(scope="module", params=["warm", "cold"])
def started(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(1, SMALL, start=request.param)) as opened:
        yield opened


def check(sandbox: Sandbox, public: Path) -> None:
    """The arguments reach the program, and none of them the next one."""
    for given in (AWKWARD, [], ["--debug"]):
        outcome = sandbox.run(CODE, public, Limits(wall_s=20.0), 0, given)
        wanted = ["solution.py", *given]
        assert json.loads(printed(outcome)) == [wanted, wanted, "__main__"]
    assert json.loads(printed(sandbox.run(CODE, public, Limits(wall_s=20.0), 0)))[0] == ["solution.py"]


def test_arguments_reach_the_program(started: LocalSandbox, public: Path) -> None:
    check(started, public)


def test_arguments_without_namespaces(public: Path) -> None:
    with LocalSandbox(Setup(1, SMALL), namespaces=False) as sandbox:
        try:
            assert not sandbox.protections["mount_namespace"]
        except ToolError as error:
            pytest.skip(f"not as this user: {error}")
        check(sandbox, public)


def test_a_flag_is_parsed(started: LocalSandbox, public: Path) -> None:
    assert printed(started.run(FLAG, public, Limits(), 0, ("--debug",))) == "Namespace(debug=True)\n"
    assert printed(started.run(FLAG, public, Limits(), 0)) == "Namespace(debug=False)\n"
    unknown = started.run(FLAG, public, Limits(), 0, ("--other",))
    assert (unknown.status, unknown.exit_code) == ("error", 2)
    assert b"usage: solution.py [-h] [--debug]" in unknown.stderr


def test_a_session_has_no_arguments(started: LocalSandbox, public: Path) -> None:
    session = started.session(public, Limits(wall_s=30.0), 0)
    try:
        assert session.python("import sys\nprint(sys.argv)", 10.0).output == b"['']\n"
    finally:
        session.close()


def test_as_large_as_they_may_be_and_no_larger(started: LocalSandbox, public: Path) -> None:
    most = "x" * ((32 << 10) - 2)  # and two quotes around them
    assert printed(started.run("import sys; print(len(sys.argv[1]))", public, Limits(), 0, [most])) == "32766\n"
    for given in ([most, ""], ["a\0b"]):
        with pytest.raises(ToolError) as caught:
            started.run(CODE, public, Limits(), 0, given)
        assert str(caught.value) == "program arguments may have no zero byte and at most 32 KB"


def test_a_time_limit_may_be_longer_than_a_poll_takes(started: LocalSandbox, public: Path) -> None:
    seconds = 1e9
    assert printed(started.run("print(1)", public, Limits(wall_s=seconds), 0)) == "1\n"
    session = started.session(public, Limits(wall_s=seconds), 0)
    try:
        assert session.python("print(1)", seconds).output == b"1\n"
    finally:
        session.close()


def test_an_observer_may_be_larger_than_a_packet(started: LocalSandbox, public: Path) -> None:
    known = "x" * (1 << 20)  # of tables with many columns, and of the calls of a long program
    observer = f"known = {known!r}\ndef load(text, path):\n    return compile(f'print({{len(known)}})', path, 'exec')"
    assert printed(started.run("", public, Limits(wall_s=20.0), 0, observer=observer)) == f"{1 << 20}\n"


@pytest.mark.slow
def test_arguments_in_a_container(docker_daemon: Daemon, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    with DockerSandbox(Setup(1, SMALL, image=docker_daemon.image)) as sandbox:
        check(sandbox, public)


@pytest.fixture
def on_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if find_spec("ray") is None:
        pytest.skip("needs the [ray] extra")
    from ray.cluster_utils import Cluster

    from mletools.sandbox.on_ray import RaySandbox

    settings = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=settings)
    try:
        monkeypatch.setenv("RAY_ADDRESS", made.address)
        opened = RaySandbox("ray", "local", Setup(1, SMALL))
        try:
            yield opened
        finally:
            opened.close()
    finally:
        made.shutdown()


@pytest.mark.slow
def test_arguments_on_a_cluster(on_ray: Any, public: Path) -> None:
    check(on_ray, public)
