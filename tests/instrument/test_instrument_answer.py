"""A model's answer: which are taken, where its reports then stand, and why others are refused, word for word."""

import ast
from typing import Any

import pytest
from conftest import TESTS

from mletools.instrument import MARKERS, instrument, instrument_as
from mletools.instrument.answer import MOST_REPORTS
from mletools.instrument.insert import Instrumented
from mletools.instrument.removal import without_reports
from mletools.simulated import instrumenter
from mletools.solutions import bank, programs

PROGRAM = '''"""What it does."""
from __future__ import annotations
import pandas as pd  # a comment
from sklearn.linear_model import Ridge


def load(name):
    """Reads a file."""
    return pd.read_csv(name)


train = load("train.csv")
model = Ridge()
if len(train) > 3:
    model.fit(train[["a"]], train["y"])
else:
    print("trained model")
for name in ("test",):
    with open(name) as file:
        pred = model.predict(load(file))
print("done")
'''


def put(code: str, *reports: tuple[str, str]) -> str:
    """The program with a report behind each line that begins so, indented like it."""
    lines: list[str] = []
    left = list(reports)
    for line in code.split("\n"):
        lines.append(line)
        for start, marker in list(left):
            if line.strip().startswith(start):
                lines.append(" " * (len(line) - len(line.lstrip())) + f'print("{marker}")')
                left.remove((start, marker))
    assert not left
    return "\n".join(lines)


GOOD = put(
    PROGRAM,
    ("from sklearn", "imported packages"),
    ("train = load", "loaded data"),
    ("model = Ridge", "defined model"),
    ("model.fit", "trained model"),
    ("pred =", "predicted test labels"),
)


def where(result: Instrumented) -> list[tuple[int, str]]:
    """(line, text) of each report in the program that runs."""
    assert result.code is not None, result.problem
    return sorted(
        (node.lineno, str(node.args[0].value))  # type: ignore[attr-defined]
        for node in ast.walk(ast.parse(result.code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("_report")
    )


def taken_out(result: Instrumented) -> str:
    assert result.code is not None
    tree = without_reports(ast.parse(result.code), MARKERS)
    assert tree is not None
    return ast.dump(tree)


def test_reports_stand_in_the_program_s_own_text_where_the_model_put_them() -> None:
    # the answer has other quotes, no comments and other empty lines: none of that is taken
    answer = GOOD.replace("  # a comment", "").replace('"train.csv"', "'train.csv'").replace("\n\n\n", "\n")
    result = instrument_as(PROGRAM, answer)
    assert where(result) == [
        (4, "imported packages"),
        (12, "loaded data"),
        (13, "defined model"),
        (15, "trained model"),
        (20, "predicted test labels"),
    ]
    assert result.code is not None and result.code.count("\n") == PROGRAM.count("\n")
    assert "# a comment" in result.code and taken_out(result) == ast.dump(ast.parse(PROGRAM))
    assert result.markers == [m for m in MARKERS if "loss" not in m]


@pytest.mark.parametrize(
    ("answer", "reports"),
    [
        # behind a loop, which ends a program without an empty line after it: a line is added
        (put(PROGRAM, ("train = load", "loaded data")) + 'print("trained model")\n', [(12, "loaded data"), (21, "trained model")]),
        # ahead of a loop: on the line of the statement before it
        (PROGRAM.replace("for name", 'print("defined model")\nfor name'), [(18, "defined model")]),
        # the same text in a loop and in a branch: the report prints once
        (put(PROGRAM, ("model.fit", "trained model"), ('print("trained', "trained model")), [(15, "trained model"), (17, "trained model")]),
        # first in a block
        (PROGRAM.replace("    with", '    print("defined model")\n    with'), [(19, "defined model")]),
        (PROGRAM.replace('"""Reads a file."""', '"""Reads a file."""; print("imported packages")'), [(8, "imported packages")]),
    ],
)  # fmt: skip
def test_reports_in_any_allowed_place_are_found(answer: str, reports: list[tuple[int, str]]) -> None:
    result = instrument_as(PROGRAM, answer)
    assert where(result) == reports
    assert taken_out(result) == ast.dump(ast.parse(PROGRAM))


ALL = "".join(f"print({marker!r})\n" for marker in MARKERS)
LATE = PROGRAM.index("train = load")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "changes the program"),
        ("def (", "does not parse: SyntaxError"),
        ("\0", "does not parse: "),
        (PROGRAM, "has no reports"),
        (ALL, "has a report before a docstring or a __future__ import: line 1 of the answer"),
        (ALL + PROGRAM, "has a report before a docstring or a __future__ import: line 1 of the answer"),
        (GOOD.replace("    return pd", "    print('loaded data')\n    return pd").replace('"""Reads a file."""', "''"), "changes the program: line 9 of the answer"),
        (PROGRAM.replace('    """Reads', '    print("imported packages")\n    """Reads'), "has a report before a docstring or a __future__ import: line 8 of the answer"),
        # removed, moved, changed, added
        (GOOD.replace('print("done")', ""), "leaves out line 21 of the program"),
        (GOOD.replace("train = load", "train = pd.load"), "changes the program: line 13 of the answer"),
        (GOOD.replace("len(train) > 3", "True"), "changes the program: line 17 of the answer"),
        (GOOD.replace("import pandas", "import os\nimport pandas"), "changes the program: line 3 of the answer"),
        (GOOD.replace('"""What it does."""', '"""What it did."""'), "changes the program: line 1 of the answer"),
        (GOOD.replace('("test",)', '["test"]'), "changes the program: line 22 of the answer"),
        (GOOD.replace("else:", "elif 1:"), "changes the program: line 20 of the answer"),
        (GOOD + "else:\n    print('loaded data')\n", "does not parse: SyntaxError"),
        # the program's own statement is no report, and has to be there
        (GOOD.replace('else:\n    print("trained model")', 'else:\n    print("loaded data")'), "leaves out line 17 of the program"),
        (GOOD.replace('else:\n    print("trained model")', "else:\n    pass"), "changes the program: line 21 of the answer"),
        # only the exact form is a report
        (GOOD.replace('print("loaded data")', 'print("loaded  data")'), "changes the program: line 14 of the answer"),
        (GOOD.replace('print("loaded data")', 'print("loaded data", flush=True)'), "changes the program: line 14 of the answer"),
        (GOOD + 'print("training loss:", 0.5)\n', "changes the program: line 27 of the answer"),
        (GOOD + 'print(f"loaded data")\n', "changes the program: line 27 of the answer"),
        (GOOD + 'print(__import__("os").getcwd() and "loaded data")\n', "changes the program: line 27 of the answer"),
        (GOOD + 'sys.stdout.write("loaded data")\n', "changes the program: line 27 of the answer"),
        (GOOD + 'x = print("loaded data")\n', "changes the program: line 27 of the answer"),
        # before what earns it
        (put(PROGRAM, ("from sklearn", "trained model")), "reports 'trained model' before anything that earns it"),
        (put(PROGRAM, ("train = load", "predicted test labels")), "reports 'predicted test labels' before anything that earns it"),
        (put(PROGRAM, ("from __future__", "loaded data")), "reports 'loaded data' before anything that earns it"),
        # floods
        (GOOD + 'print("trained model")\n' * MOST_REPORTS, f"has more than {MOST_REPORTS} reports"),
        (GOOD + "# and so on\n" * 2000, "is too long to be the program with reports"),
        ("x = " + "-" * 5000 + "1\n", "does not parse"),
    ],
)  # fmt: skip
def test_refused(answer: str, problem: str) -> None:
    result = instrument_as(PROGRAM, answer)
    assert (result.code, result.markers) == (None, [])
    assert str(result.problem).startswith(problem) or ("deeply" in str(result.problem) and "-----" in answer)


def test_a_loss_that_no_known_call_computes_is_believed_behind_any_call() -> None:
    answer = put(PROGRAM, ("pred =", "testing loss:"))
    assert instrument_as(PROGRAM, answer).markers == ["testing loss:"]
    early = "x = 1\nprint('testing loss:')\nf(x)\n"
    problem = instrument_as("x = 1\nf(x)\n", early).problem
    assert problem == "reports 'testing loss:' before anything that earns it"


def test_statements_of_the_program_s_own_that_look_like_reports_stay() -> None:
    code = 'import os\nprint("loaded data")\nos.getcwd()\nprint("loaded data")\n'
    assert instrument_as(code, code).problem == "has no reports"
    answer = code + 'print("loaded data")\n'
    result = instrument_as(code, answer)
    assert result.code is not None and result.code.count('print("loaded data")') == 2
    assert where(result) == [(4, "loaded data")]
    assert instrument_as(code, code.replace('print("loaded data")\n', "", 1)).problem is not None


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("if f(1): pass\nelif f(2): pass\n", "if f(1): pass\nelse:\n  print('loaded data')\n  if f(2): pass\n"),
        ("'only a docstring'\n", "'only a docstring'\nprint('loaded data')\n"),
        ("f(1)\nfor x in y: pass \\\n\n", "f(1)\nfor x in y: pass\nprint('loaded data')\n"),
    ],
)
def test_where_the_text_has_no_room_the_answer_is_refused(code: str, answer: str) -> None:
    assert instrument_as(code, answer).code is None


def texts() -> dict[str, str]:
    """Programs of many kinds: of the sandbox's tests, of the scripted model's bank and its readers."""
    found = {path.name: path.read_text() for path in sorted((TESTS / "solutions").glob("*.py"))}
    found["measures"] = programs.MEASURES.read_text()
    for problem in ("regression", "multiclass_classification"):
        task: dict[str, Any] = {
            "modality": "tabular",
            "problem": problem,
            "metric": {"name": "mae" if problem == "regression" else "accuracy"},
            "data": {"public": list(programs.NEEDED)},
            "submission": {"columns": ["y"], "parse": "number"},
        }
        found |= {f"{problem} {choice.model}": _program(task, choice) for choice in bank.choices(task)}
    return found


def _program(task: dict[str, Any], choice: bank.Choice) -> str:
    return bank.PROGRAM.format(imports="import sklearn", model=choice.model, columns="c", predict="predict(T)")


@pytest.mark.slow
def test_round_trip_of_many_programs() -> None:
    """With the reports taken out, the syntax tree is the one before, for both ways of inserting."""
    programs = texts()
    assert len(programs) >= 70
    inserted = 0
    for name, code in programs.items():
        before = ast.dump(ast.parse(code))
        by_table = instrument(code)
        if by_table.code is not None and by_table.markers:
            assert taken_out(by_table) == before, name
            assert by_table.code.count("\n") - code.count("\n") in (0, 1), name
        by_model = instrument_as(code, instrumenter.reported(code))
        if by_model.problem is None:
            assert taken_out(by_model) == before, name
            inserted += 1
        else:
            assert by_model.problem in ("has no reports", "does nothing"), name
    assert inserted >= 60


@pytest.mark.parametrize("way", instrumenter.ATTACKS)
def test_no_attack_of_the_scripted_model_gets_through(way: str) -> None:
    assert instrument_as(PROGRAM, instrumenter.attack(PROGRAM, way)).code is None


@pytest.mark.parametrize("code", ["def (", "x = '\ud800'\n", "x = 1\ry = 2\n", "f(" * 3000])
def test_a_program_that_does_not_parse_is_a_problem(code: str) -> None:
    assert instrument_as(code, code).code is None
    assert instrument(code).code is None
