"""Conversion to types that several threads meet for the first time at once."""

import subprocess
import sys

import pytest

AT_ONCE = """
import sys, threading
import msgspec
from mletools.base.typed import convert
from mletools.records import schema
from mletools.scaffolds.search.graph import Node

sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
refused = []

def first_use():
    start.wait()
    for wanted in [*schema.KINDS.values(), Node]:
        try:
            convert({"kind": "none"}, wanted)
        except msgspec.ValidationError:
            refused.append(wanted)

threads = [threading.Thread(target=first_use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(refused))
"""


@pytest.mark.parametrize("again", range(4))  # msgspec.convert alone crashed two of three such processes
def test_threads_may_meet_a_type_for_the_first_time_at_once(again: int) -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "64\n"), done.stderr
