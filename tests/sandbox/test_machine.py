"""What records tell of the machine that programs ran on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from solving import make_public

from mletools.sandbox import Limits, Setup, machine
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.machine import this_machine


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder /proc of a machine."""
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    machine._processor_and_memory.cache_clear()
    (tmp_path / "proc").mkdir()
    yield tmp_path / "proc"
    machine._processor_and_memory.cache_clear()


def test_the_kernel_tells_of_processor_and_memory(proc: Path) -> None:
    one = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC 9654 96-Core Processor \n"
    (proc / "cpuinfo").write_text(one * 2)
    (proc / "meminfo").write_text("MemTotal:       263736216 kB\nMemFree:         1000000 kB\n")  # 251.5 GB
    cores = len(os.sched_getaffinity(0))
    assert this_machine() == {"cpu": "AMD EPYC 9654 96-Core Processor", "cores": cores, "memory_gb": 252, "gpu": None}
    assert this_machine("NVIDIA L4")["gpu"] == "NVIDIA L4"


def test_a_kernel_that_tells_nothing(proc: Path) -> None:
    (proc / "cpuinfo").write_text("processor\t: 0\nCPU implementer\t: 0x41\n")  # of an ARM
    found = this_machine()
    assert (found["cpu"], found["memory_gb"]) == (os.uname().machine, None)


def test_runs_and_sessions_tell_where_they_ran(tmp_path: Path) -> None:
    public = make_public(tmp_path)
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        assert sandbox.run("", public, Limits(), 0).machine == this_machine()
        session = sandbox.session(public, Limits(), 0)
        assert session.machine == this_machine()
        session.close()
