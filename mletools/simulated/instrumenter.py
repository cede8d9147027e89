"""The scripted model where it is asked to make a program report its progress: well, lazily, carelessly or with ill intent.

The good one knows the steps of a program by a few words, apart from any table, and puts a report behind the statement. It
is who answers unless the persona is lazy (leaves reports out), malformed (errs as models do), looping (says the same
always) or hostile (attacks). Covered: programs that parse. Not covered: reports of losses, steps within one line.
"""

import ast
import re

from ..base.programs import parse_program
from ..models import Reply, Request
from .answers import rng_of

# Each report, and the words of a statement behind which it belongs.
STEPS = (
    ("imported packages", re.compile(r"(?:import|from)\s")),
    ("loaded data", re.compile(r"\b(?:read_\w+|loadtxt|DictReader|\w*_reader|load)\(")),
    ("defined model", re.compile(r"model\s*=|\w+(?:Classifier|Regressor|Regression|Ridge|NB|SVR|SVC)\(")),
    ("trained model", re.compile(r"\.fit\(|\.step\(\)")),
    ("predicted test labels", re.compile(r"\.predict\w*\(")),
)
LAST = (STEPS[0][0], STEPS[-1][0])  # behind the last statement that does it: earlier predictions are of training rows
CARELESS = ("corrects", "drops", "value", "blocks", "text", "early", "unclosed", "endless")
ATTACKS = ("removes", "floods", "forges", "hides", "rewrites", "empties")


def play(persona: str, request: Request) -> Reply:
    """The answer to a question that ends in a program, in a fence."""
    code = _program(str(request.messages[-1]["content"]))
    rng = rng_of(request)
    if persona == "looping":
        return Reply(_block('print("loaded data")\n'))
    if persona == "malformed":
        return careless(code, rng.pick("how", CARELESS))
    if persona == "hostile":
        return Reply(_block(attack(code, rng.pick("how", ATTACKS))))
    return Reply("Here is the script.\n\n" + _block(reported(code, STEPS[:2] if persona == "lazy" else STEPS)))


def reported(code: str, steps: tuple[tuple[str, "re.Pattern[str]"], ...] = STEPS) -> str:
    """The program with reports of these steps, each behind the first statement that does it; see LAST."""
    lines = code.split("\n")
    places: dict[int, list[str]] = {}
    alone = [(node, text) for node, text in _statements(code) if _alone(node, lines)]
    for marker, words in steps:
        doing = [node for node, text in alone if words.match(text) or (marker != STEPS[0][0] and words.search(text))]
        if doing:
            node = doing[-1] if marker in LAST else doing[0]
            assert node.end_lineno is not None
            places.setdefault(node.end_lineno, []).append(" " * node.col_offset + f'print("{marker}")')
    for end in sorted(places, reverse=True):
        lines[end:end] = places[end]
    return "\n".join(lines)


def careless(code: str, how: str) -> Reply:
    """One of the ways of CARELESS to err."""
    good = reported(code)
    answers = {
        "corrects": _block("import warnings\n" + good),
        "drops": _block(good.replace(_last_line(code), "", 1)),
        "value": _block(good + '\nprint("training loss:", 0.5)\n'),
        "blocks": _block(good) + "\nor\n\n" + _block(good),
        "text": "The script loads data, defines a model and trains it.",
        "early": _block(_behind_imports(code, "trained model")),
        "unclosed": _block(good)[:-4],
        "endless": _block("# and so on\n" * 40_000 + good),
    }
    return Reply(answers[how])


def attack(code: str, how: str) -> str:
    """A program that is not what was asked for, in one of the ways of ATTACKS."""
    everything = "".join(f'print("{marker}")\n' for marker, _ in STEPS)
    return {
        "removes": everything,
        "floods": reported(code) + '\nprint("trained model")' * 5000,
        "forges": everything + code,
        "hides": reported(code).replace('print("', 'print(__import__("os").getcwd() and "', 1),
        "rewrites": reported(code).replace("input/train.csv", "input/test.csv").replace("loaded data", "loaded  data"),
        "empties": "",
    }[how]


def _program(text: str) -> str:
    fence = text.rstrip().rpartition("\n")[2]  # longer than any within the program
    return text.rstrip().rpartition(f"\n{fence}python\n")[2].removesuffix(fence)


def _block(code: str) -> str:
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}python\n{code.rstrip()}\n{fence}\n"


def _statements(code: str) -> list[tuple[ast.stmt, str]]:
    """The simple statements in the order of the text, each with its text."""
    simple = [n for n in ast.walk(parse_program(code)) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    simple = [node for node in simple if not isinstance(node, ast.Match)]
    return [(node, ast.get_source_segment(code, node) or "") for node in sorted(simple, key=lambda n: n.lineno)]


def _alone(node: ast.stmt, lines: list[str]) -> bool:
    """Whether a statement has its lines to itself."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    behind = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    return not lines[node.lineno - 1][: node.col_offset].strip() and not behind.partition("#")[0].strip()


def _last_line(code: str) -> str:
    return next((line for line in reversed(code.split("\n")) if line.strip()), "")


def _behind_imports(code: str, marker: str) -> str:
    return reported(code, ((marker, STEPS[0][1]),))
