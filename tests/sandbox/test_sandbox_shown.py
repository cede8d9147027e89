"""What other people's agents need of the local sandbox: folders at their own places, and a loopback network of their own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from solving import make_public, printed, run

from mletools.base.errors import ToolError
from mletools.sandbox import Setup
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.options import SandboxOptions

SMALL = Setup(2, preimport=("json",))
TALKS = """
    import socket, threading
    server = socket.create_server(("127.0.0.1", 8000))
    try:
        end = socket.create_connection(("127.0.0.1", 8000), 2)
    except OSError:
        print("none")
    else:
        there = server.accept()[0]
        end.sendall(b"x" * 1000)
        print(len(there.recv(2000)))
        end.setblocking(False)
        sent = 0
        try:
            while True:
                sent += end.send(b"x" * 65536)
        except BlockingIOError:
            print(sent < 1 << 20)
"""
LEAVES = """
    import socket
    for host, port in (("127.0.0.1", {port}), ("::1", {port}), ("192.0.2.1", 9), ("10.0.0.1", 9)):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as end:
                end.settimeout(2)
                try:
                    end.connect((host, port))
                    end.send(b"x")
                    end.send(b"x")
                    print("reached", host, kind)
                except OSError:
                    pass
"""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


@pytest.fixture(scope="module")
def talking() -> Iterator[LocalSandbox]:
    with LocalSandbox(replace(SMALL, loopback=True)) as opened:
        try:
            assert opened.protections
        except ToolError as error:
            pytest.skip(f"no namespaces here: {error}")
        yield opened


def test_processes_of_a_run_reach_each_other_only_where_it_is_asked_for(talking: LocalSandbox, public: Path) -> None:
    assert printed(run(talking, public, TALKS)) == "1000\nTrue\n"
    with LocalSandbox(SMALL) as usual:
        assert printed(run(usual, public, TALKS)) == "none\n"
        assert usual.protections == talking.protections and talking.protections["no_network"]


def test_loopback_leads_nowhere_else(talking: LocalSandbox, public: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = LEAVES.format(port=server.getsockname()[1])
        assert printed(run(talking, public, code)) == ""


def test_loopback_needs_namespaces(public: Path) -> None:
    with (
        LocalSandbox(replace(SMALL, loopback=True), namespaces=False) as sandbox,
        pytest.raises(ToolError, match="a loopback network of their own, which needs namespaces"),
    ):
        run(sandbox, public, "print(1)")


def test_a_folder_is_shown_at_its_own_place_and_cannot_be_changed(public: Path, tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "bin"
    folder.mkdir(parents=True)
    (folder / "run").write_text("#!/bin/sh\necho it runs\n")
    (folder / "run").chmod(0o755)
    (tmp_path / "agent" / "leads").symlink_to(public)
    (tmp_path / "beside").write_text("not shown")
    code = f"""
        import os, subprocess
        print(subprocess.run([{str(folder / "run")!r}], capture_output=True, text=True).stdout.strip())
        print(os.listdir({str(tmp_path)!r}), os.path.exists({str(tmp_path / "agent/leads")!r}))
        try:
            open({str(folder / "new")!r}, "w")
        except OSError as error:
            print(error.strerror)
    """
    with LocalSandbox(replace(SMALL, shown=(str(tmp_path / "agent"),))) as sandbox:
        if not sandbox.protections["mount_namespace"]:
            pytest.skip(f"no namespaces here: {sandbox.weaker_because}")
        assert printed(run(sandbox, public, code)) == "it runs\n['agent'] False\nRead-only file system\n"


def test_folders_that_hold_too_much_are_refused(public: Path, tmp_path: Path) -> None:
    for name in ("/", "/tmp", str(Path.home())):
        with pytest.raises(ToolError, match="programs would see all of"):
            LocalSandbox(replace(SMALL, shown=(name,)))
    with pytest.raises(ToolError, match="no such folder to show"):
        LocalSandbox(replace(SMALL, shown=(str(tmp_path / "none"),)))
    private = public.parent / "private"
    private.mkdir(exist_ok=True)
    for folder in (public.parent, public, private):
        with (
            LocalSandbox(replace(SMALL, shown=(str(folder),))) as sandbox,
            pytest.raises(
                ToolError, match=r"lie in one another: move either|lies in .*, which every solution can read"
            ),
        ):
            run(sandbox, public, "print(1)")
    with socket.socket(socket.AF_UNIX) as end:
        (tmp_path / "served").mkdir()
        end.bind(str(tmp_path / "served" / "socket"))
        with pytest.raises(ToolError, match="neither a file nor a folder"):
            LocalSandbox(replace(SMALL, shown=(str(tmp_path / "served"),)))


@pytest.mark.parametrize(
    "options", [SandboxOptions(backend="docker"), SandboxOptions(backend="auto"), SandboxOptions(on="ray")]
)
def test_other_backends_are_refused(options: SandboxOptions) -> None:
    with pytest.raises(ToolError, match="leave --on out, and take --backend local"):
        options.check_place((), loopback=True)
