"""Agents' programs are parsed without Python's warnings about them."""

import ast
import subprocess
import sys

import pytest
from conftest import ROOT

from mletools.base.programs import parse_expression, parse_program

WARNS = ["x = '\\d'\n", "x = 1if y else 2\n", "x = '\\400'\n", "x = y is 1\n"]
# Other threads put back filters that show everything, or make errors of warnings, all the time.
THREADS = """
import sys, threading, warnings
from mletools.base.programs import parse_expression, parse_program
sys.setswitchinterval(1e-5)
warnings.simplefilter("always")
over = threading.Event()
def disturb(action):
    while not over.is_set():
        with warnings.catch_warnings():
            warnings.simplefilter(action)
others = [threading.Thread(target=disturb, args=(action,)) for action in ("always", "default", "error", "always")]
for each in others: each.start()
try:
    for at in range(500):
        for code in WARNS: parse_program(code)
        parse_expression("['\\\\d']")
finally:
    over.set()
warnings.simplefilter("always")
warnings.warn("others are still shown")
"""

# Another thread gets in at each garbage collection, also inside the compiler.
COLLECTING = """
import gc, threading, time
from mletools.base.programs import parse_program
text = "\\n".join(f"x{i} = [a{i} + (b * {{'k': [1, 2, (3, 4)]}}) for a in f(g(h({i})))]" for i in range(20))
gc.set_threshold(20)
gc.callbacks.append(lambda *_: time.sleep(1e-5))
def parse():
    for _ in range(30):
        parse_program(text)
threads = [threading.Thread(target=parse) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_the_tree_is_that_of_ast() -> None:
    for code in [*WARNS, "", "def f(): pass\n", b"\xef\xbb\xbfx = 1\n"]:
        assert ast.dump(parse_program(code)) == ast.dump(ast.parse(code))
    assert ast.literal_eval(parse_expression("{'a': [1, None]}")) == {"a": [1, None]}
    with pytest.raises(SyntaxError, match=r"<unknown>, line 2"):
        parse_program("x = 1\nprint(")
    with pytest.raises((SyntaxError, ValueError), match="null bytes"):
        parse_program("x\0")


def test_no_warning_whatever_other_threads_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"WARNS = {WARNS!r}\n{THREADS}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "others are still shown" in done.stderr and "<unknown>" not in done.stderr


def test_threads_parse_at_once_while_garbage_is_collected() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


def test_agents_texts_are_parsed_nowhere_else() -> None:
    """But for modules that run in the sandbox."""
    inside = {"sandbox/session_driver.py", "instrument/weaving.py"}
    found = {
        path.relative_to(ROOT / "mletools").as_posix()
        for path in (ROOT / "mletools").rglob("*.py")
        if "ast.parse(" in path.read_text() or "literal_eval(text" in path.read_text()
    }
    assert found == inside
