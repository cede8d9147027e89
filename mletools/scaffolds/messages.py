"""What an agent reads: the facts of a task, what came of its programs and submissions, and which messages it still sees.

Covered: a task's facts by the names that prompts use, never its answers, thresholds or provenance; outputs in a fence
that they cannot close, with control characters and chat markers escaped, so that nobody takes them for our own words;
test scores only where revealed; SandMLE's rule for a long conversation. Not covered: the prompts (mletools.prompts).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .. import prompts
from ..records.common import LongText
from ..records.rollout import Execution, Feedback, Message, Turn, TurnGrade
from ..records.task import MetricSpec, Task
from .interface import Job, Settings

# --- a task ------------------------------------------------------------------------------------------------------------

MOST_COLUMNS = 40  # named in a prompt
MOST_FILES = 5  # of one folder


class Facts(Protocol):
    """What knows where programs run."""

    def fact(self, name: str) -> str:
        """The text of one of prompts.ENVIRONMENT_FACTS."""


def task_facts(task: Task) -> dict[str, str]:
    """The values of the placeholders that a prompt about a task may use."""
    submission, metric = task["submission"], task["metric"]
    return {
        "name": task["name"],
        "description": task["description"].strip(),
        "modality": task["modality"],
        "problem": task["problem"].replace("_", " "),
        "metric": _metric(metric),
        "direction": "lower is better" if metric["lower_is_better"] else "higher is better",
        "files": _files(task["data"]["public"]),
        "columns": _columns(submission["id"] + submission["target"]),
    }


def task_prompt(prompt: str, job: Job[Any], environment: Facts, **more: str) -> str:
    """The prompt, filled in with the facts that it asks for and with `more`.

    What `environment` knows (libraries, limits, the data) is asked for only where the prompt has the placeholder.
    """
    placeholders = prompts.placeholders(prompt)
    values = {
        **task_facts(job.task),
        "split": _scores_note(job.settings),
        **{name: environment.fact(name) for name in prompts.ENVIRONMENT_FACTS if name in placeholders},
        **more,
    }
    return prompts.render(prompt, **{name: values[name] for name in placeholders & values.keys()})


def _files(names: list[str]) -> str:
    """The public files; of a folder with many only how many, and the first."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    lines = []
    for folder, files in by_folder.items():
        if folder and len(files) > MOST_FILES:
            lines.append(f"{folder}/ ({len(files)} files, the first is {files[0]})")
        else:
            lines += files
    return ", ".join(lines)


def _metric(metric: MetricSpec) -> str:
    """The metric in words: its name and parameters; one that is code has nothing to show but the description."""
    if "name" not in metric:
        return "the one that the description defines"
    return " ".join([metric["name"], *(f"{key}={value}" for key, value in sorted(metric["params"].items()))])


def _columns(names: list[str]) -> str:
    if len(names) <= MOST_COLUMNS:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_COLUMNS])} and {len(names) - MOST_COLUMNS} more, as in the sample submission"


def _scores_note(settings: Settings) -> str:
    """Which scores an agent sees, and how many: on rows held out of the training data, on the test rows, or none."""
    most, digits = settings.max_scores, settings.score_digits
    if most == 0 if settings.reveal_test else settings.validation == 0:
        return "You see whether a submission is valid, but no score."
    bounds = [] if most is None else [f"You see at most {most} scores; after that, only whether a submission is valid."]
    bounds += [f"Scores are rounded to {digits} significant digit{'s' * (digits > 1)}."] if digits < 6 else []
    return " ".join([_rows_note(settings.reveal_test), *bounds])


def _rows_note(revealed: bool) -> str:
    if revealed:
        return "The scores that you see are computed on the rows of test.csv."
    return (
        "Some training rows were moved, with their files, to the rows to predict (test.csv, or else the sample submission) "
        "for validation, so the numbers of rows may differ from the description. Predict all rows there: the scores that "
        "you see are computed on the validation rows, the final score on the others."
    )


# --- programs and submissions ------------------------------------------------------------------------------------------

MAX_OUTPUT = 6000  # characters of an output

STATUS_WORDS = {
    "ok": "The program ended normally",
    "error": "The program failed",
    "timeout": "The program ran too long and was stopped",
    "memory": "The program needed too much memory and was stopped",
    "disk": "The program wrote too much to the disk and was stopped",
    "output": "The program printed too much and was stopped",
    "killed": "The program was ended by a signal",
}


def output_text(output: LongText, most: int = MAX_OUTPUT) -> str:
    """A recorded output as text of at most about `most` characters, all that is hidden in it spelled out."""
    head, tail, left_out = output["head"], output["tail"], 0
    if tail:
        left_out = max(0, output["bytes"] - len(head.encode()) - len(tail.encode()))
    text = head if not tail else f"{head}\n[... {left_out} bytes left out ...]\n{tail}" if left_out else head + tail
    text = escaped(text)
    if len(text) > most:
        text = f"{text[: most // 3]}\n[... {len(text) - most} characters left out ...]\n{text[-(most - most // 3) :]}"
    return text.strip("\n")


def duration_text(seconds: float) -> str:
    """How long something took, in whole seconds: measured times differ, and what a policy reads should not."""
    return f"after {seconds:.0f} s" if seconds >= 1 else "in less than a second"


def execution_message(execution: Execution) -> str:
    """How a program ended, in seconds and words, and what it printed."""
    code = f" with exit code {execution['exit_code']}" if execution["exit_code"] else ""
    sentences = [f"{STATUS_WORDS[execution['status']]}{code} {duration_text(execution['duration_s'])}."]
    sentences += progress_sentences(execution)
    said = len(sentences)
    for name, output in (("stdout", execution["stdout"]), ("stderr", execution["stderr"])):
        text = output_text(output)
        if text:
            sentences.append(f"{name}:\n{fenced(text)}")
    if len(sentences) == said:
        sentences.append("It printed nothing.")
    return "\n\n".join(sentences)


def progress_sentences(execution: Execution) -> list[str]:
    """One sentence on the stages that the sandbox saw the program reach (RL for MLE agents, section 3.2), or none.

    It speaks for the sandbox, so it needs `watched`: where programs print the reports themselves (plain markers), these
    stand in the output alone, and nothing is said here.
    """
    if "watched" not in execution:
        return []
    reached = execution["markers"]
    missing = [marker for marker in execution["watched"] if marker not in reached]
    seen = ", ".join(marker.rstrip(":") for marker in reached) or "none"
    sentence = f"Stages that the sandbox saw it complete: {seen}."
    if missing:
        sentence += f" Not seen: {', '.join(marker.rstrip(':') for marker in missing)}."
    return [sentence]


def submission_message(execution: Execution) -> str:
    """Whether there is a submission, without judging it."""
    if execution["submission"] is None:
        return f"There is nothing to score: {execution['submission_problem']}."
    return f"submission.csv was written ({execution['submission']['bytes']} bytes)."


def invalid_message(verdict: Feedback | TurnGrade) -> str:
    """Why a submission is refused. The reason quotes it: names of columns, cells."""
    return f"submission.csv is invalid: {one_line(verdict['reason'] or '')}"


def score_message(turn: Turn | None, task: Task, revealed: bool, shown: float | None, left: int | None = None) -> str:
    """What is said of a turn's submission: its score on the validation rows, or on the test rows where `revealed`.

    shown: the score as it is shown; None: it is not. left: scores that may still be shown after this; None: any number.
    Without a validation split only whether the file is valid.
    """
    feedback, grade = (turn.get("validation"), turn.get("grade")) if turn else (None, None)
    verdict = grade if revealed else feedback or grade
    if verdict is None:
        return "There is no submission.csv to score."
    if not verdict["valid"]:
        return invalid_message(verdict)
    if not revealed and feedback is None:
        return "submission.csv is valid. No score is told in this task."
    if shown is None:
        return "submission.csv is valid. Its score is not told: you have seen all the scores that this work allows."
    more = "" if left is None else f" You can see {left or 'no'} more score{'s' * (left != 1)}."
    metric = task["metric"]
    direction = "lower is better" if metric["lower_is_better"] else "higher is better"
    rows = "test rows" if revealed else "validation rows"
    return f"submission.csv is valid. {metric.get('name', 'The score')} on the {rows}: {shown:g} ({direction}).{more}"


# --- text of programs and models ---------------------------------------------------------------------------------------

# Tabs and line ends stay; joiners, which some scripts and emoji need, do too.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
# What models' chat templates separate messages with, by its shape where that is no ordinary text, else by name.
_MARKS = re.compile(
    r"""
    < (?= [|\uff5c]                                                    # <|im_end|>, and DeepSeek's full-width bars
        | /? \w{1,40} \|>                                             # Gemma 4: <turn|>
        | /? (?i: s | bos | eos | pad | unk | mask | cls | sep | sop | eop | eod | eot | eom | user | assistant | system
            | human | bot | ai | \u7528\u6237 | role | think | thinking | image | video | audio | unused\d{1,9}
            | _[a-z]{1,20} | seed:\w{1,20} | [a-z]{1,20}_id_\d{1,9} | (?:special|reserved)_\w{1,40} | \w{1,20}_token
            | (?:start|end|begin|beginning)_(?:of_)?\w{1,40} ) \s{0,9} >
        | /? (?i: tools?_\w{1,40} | function_\w{1,40} | observation | invoke ) (?: \s [^<>\n]{0,80} )? >
        | (?i: function | parameter ) =
        | < /? SYS >> )
    | \[ (?= \| | e~\[                                                 # EXAONE, MiniMax
        | /? (?: (?i:inst) | THINK | ARGS | IMG | AUDIO | PREFIX | SUFFIX | MIDDLE | BOS | EOS | PAD | UNK | CLS | SEP
            | [gs]? MASK | USER | ASSISTANT | SYSTEM | HUMAN | BOT | unused\d{1,9} | [A-Z]{2,20} (?: _ [A-Z0-9]{1,20} ){1,4} ) \] )
    | \] (?= ~ )                                                       # MiniMax: ]~b]
    | \u25c1 (?= /? \w{1,20} \u25b7 )                                   # Kimi's white triangles around think
    """,
    re.VERBOSE,
)
_TICKS = re.compile("`+")


def escaped(text: str) -> str:
    """The text with all that is hidden spelled out (`\\x1b`), and a backslash in each mark of a chat's (`<\\|im_end|>`).

    Marks of known families and what looks like them (`_MARKS`), on the way to servers that may read them as tokens.
    """
    return _MARKS.sub(r"\g<0>\\", _HIDDEN.sub(_spelled, text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """A text that an agent has a say in, as part of a sentence of ours."""
    return escaped(" ".join(text.split()))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fenced(text: str, language: str = "") -> str:
    """A text in a fence that it cannot close."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


# --- the length of a conversation --------------------------------------------------------------------------------------

CHARACTERS_A_TOKEN = 4
KEPT_AT_EACH_END = 2
FINENESS = 100  # a text that is cut has all that fits but for this part of it


def characters_of(message: Message) -> int:
    """Characters of a message, the arguments of its calls included."""
    return len(message["content"]) + sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))


def tokens_of(message: Message, a_token: float = CHARACTERS_A_TOKEN) -> int:
    """Tokens of a message, estimated at so many characters each."""
    return int(characters_of(message) / a_token) + 1


def characters_a_token(messages: Sequence[Message], turns: Sequence[Turn]) -> float | None:
    """How many characters a token had in the questions that the turns answer, by what their server counted; the fewest.

    None: nobody has counted, or some messages were not sent.
    """
    if any("dropped" in turn or "message" not in turn for turn in turns):
        return None
    sizes = [(sum(map(characters_of, messages[: turn["message"]])), turn.get("usage")) for turn in turns]
    return min(
        (size / usage["prompt_tokens"] for size, usage in sizes if usage and usage["prompt_tokens"]), default=None
    )


def visible(
    messages: Sequence[Message], failed: Sequence[int], most: int | None, a_token: float = CHARACTERS_A_TOKEN
) -> list[int]:
    """The places of the messages that the policy is shown, in order, of about `most` tokens (None: all), see tokens_of.

    failed: places of the policy's messages whose program failed; each is dropped with the observations that follow it,
    oldest first and only as far as needed, but never the last exchange. Where that is not enough: the first two
    messages and the last two.
    """
    places = list(range(len(messages)))
    if most is None:
        return places
    total = sum(tokens_of(message, a_token) for message in messages)
    last = max((place for place in places if messages[place]["role"] == "assistant"), default=-1)
    for place in failed:
        if total <= most:
            break
        if place == last:
            continue
        gone = [place]
        while (following := gone[-1] + 1) < len(messages) and messages[following]["role"] != "assistant":
            gone.append(following)
        total -= sum(tokens_of(messages[each], a_token) for each in gone)
        places = [each for each in places if each not in gone]
    if total <= most or len(places) <= 2 * KEPT_AT_EACH_END:
        return places
    end = len(places) - KEPT_AT_EACH_END
    while messages[places[end]]["role"] == "tool":  # servers refuse an answer to a call without the call before it
        end -= 1
    return places[:KEPT_AT_EACH_END] + places[end:]


def shortened(
    text: str, tokens: int, count: Callable[[str], int] | None = None, a_token: float = CHARACTERS_A_TOKEN
) -> str:
    """The text, or its beginning and its end with a note between them, of at most `tokens` tokens as `count` has them.

    Without `count` a token is `a_token` characters, and the note is not counted.
    """
    if count is None:
        return _ends_of(text, int(tokens * a_token))
    if count(text) <= tokens:
        return text
    fits, too_many = 0, len(text)  # characters
    while too_many - fits > 1 + too_many // FINENESS:
        most = (fits + too_many) // 2
        fits, too_many = (most, too_many) if count(_ends_of(text, most)) <= tokens else (fits, most)
    return _ends_of(text, fits)


def _ends_of(text: str, most: int) -> str:
    """The text, or `most` characters of its beginning and its end, with a note between them."""
    if len(text) <= most:
        return text
    head = most // 4
    note = f"\n[... {len(text) - most} characters left out ...]\n"
    return text[:head] + note + text[len(text) - (most - head) :]
