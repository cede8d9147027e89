"""A conversation as text and as tokens, by a tokenizer's chat template: its marks come from the template alone.

Marks are the tokens that separate messages (<|im_end|>). A content that spells one gets the tokens of its characters, so
it cannot begin or end a message. For this, the template is given stand-ins for the marks in contents: plain words, which
it treats as any other text. Text without such marks has the tokens that the tokenizer gives the whole.
Covered: special tokens; other added tokens that the template writes (DeepSeek's <｜User｜>), in a tool's message also
pairs of tags (Qwen's <tool_response>). Elsewhere pairs (<think>, <tool_call>) stay single tokens, as policies write them.
Tool calls and a separate reasoning reach the template too. Templates may tell the past in another way than it was: drop
earlier thoughts, insert empty ones, move the system prompt.
Not covered: templates whose marks are plain words ("### Instruction:"), images, tool schemas.
"""

# ruff: noqa: RUF002 - DeepSeek writes a full-width bar in its marks

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any

from .errors import RecordError
from .jsonl import JsonObject
from .output import AnyRecord

SPECIAL, PAIR, OTHER = "special", "pair", "other"
REASONING = ("reasoning_content", "reasoning", "thinking")  # the names that templates have for it
_REASONING = re.compile(r"\W{1,3}think(?:ing)?\W{1,2}", re.IGNORECASE)


class Conversation:
    """`messages` under the chat template of `tokenizer`. RecordError: the template refuses them.

    Read of a message: role, content, reasoning, tool_calls (arguments as JSON text or an object), tool_call_id, name.
    """

    def __init__(self, tokenizer: Any, messages: Sequence[AnyRecord]) -> None:
        self._tokenizer = tokenizer
        given = [_given(message, place) for place, message in enumerate(messages)]
        text = "\n".join(string for message in given for string in _strings(message))
        self._marks = _marks(tokenizer)
        kinds, self._spelled = self._marks.kinds, self._marks.within(text)
        word = next(word for number in count() if (word := f"Mark{number}is") not in text)
        self._stand_in = re.compile(rf"{word}(\d+)x")
        self._messages = []
        for message in given:
            marks = [mark for mark in self._spelled if kinds[mark] != PAIR or message["role"] == "tool"]
            hide = partial(_any(marks).sub, lambda match: f"{word}{self._spelled.index(match[0])}x")
            self._messages.append({**_each_string(message, hide), "role": message["role"]})
        whole = self._rendered(len(messages), messages[-1]["role"] != "assistant")
        # Tags that are no special tokens are marks where the template writes them.
        self._written = {mark for mark in self._marks.within(whole) if kinds[mark] != SPECIAL}
        self._control_ids = self._marks.special_ids | set(tokenizer.convert_tokens_to_ids(sorted(self._written)))

    def text(self, messages: int, ask: bool) -> str:
        """The first `messages` messages; with `ask`, and the beginning of the assistant's next one.

        Marks that stand in it are the template's. It may be cut anywhere and goes to `token_ids`; it is not for reading.
        """
        return self._spelled_back(self._rendered(messages, ask))

    def after(self, answer: int) -> str | None:
        """What the prompt for the next message says behind the policy's message `answer`, whose end mark comes first.

        None where the template does not tell what the policy was asked then, and what it answered, as it was.
        """
        told, asked = self.text(len(self._messages), True), self.text(answer, True)
        if not told.startswith(asked):
            return None
        # Templates may strip an answer, and models write white space around it.
        content = self._spelled_back(self._messages[answer]["content"])
        core, rest = content.strip(), told[len(asked) :].lstrip()
        if not rest.startswith(core):
            return None
        return rest[len(core) :].removeprefix(content[len(content.rstrip()) :])

    def turn(self, answer: int) -> tuple[str, str]:
        """What the policy is given before its message `answer`, and what it writes, up to and with the end mark.

        Written is what the template tells where that begins as the template asks (a reasoning is in it, white space
        behind the end mark is not); else the message's own content and the calls that the template tells, behind its
        reasoning where the prompt opens a tag for one. RecordError: which part of the text is the calls cannot be told.
        """
        asked, told = self.text(answer, True), self.text(answer + 1, False)
        end = self._tokenizer.eos_token or ""
        if told.startswith(asked):
            written = told[len(asked) :]
            return asked, written[: written.rindex(end) + len(end)] if end in written else written
        message = self._messages[answer]
        written = self._spelled_back(message["content"])
        opened = re.search(r"<(\w+)>\s*$", asked)
        begin, close = (f"<{opened[1]}>", f"</{opened[1]}>") if opened else ("", "")
        if begin and written.lstrip().startswith(begin):
            written = written.lstrip().removeprefix(begin).lstrip()
        thought, closed, said = written.rpartition(close) if close else ("", "", written)
        if message.get("tool_calls"):
            before = asked[: opened.start()] if opened else asked
            gap = said[: len(said) - len(said.lstrip())] or ("\n\n" if closed else "")
            said = gap + self._with_calls(answer, said.strip(), told, before.rstrip(), (begin, close), end)
        if close and not closed:
            thought, closed = self._spelled_back(message.get(REASONING[0], "")), f"\n{close}\n\n"
        return asked, thought + closed + said + end

    def _with_calls(self, answer: int, said: str, told: str, before: str, tags: tuple[str, str], end: str) -> str:
        """What the message `answer` says, with its calls, as `told` has both behind `before`, without a thought."""
        text = told[len(before) :].strip()
        if tags[0] and text.startswith(tags[0]) and tags[1] in text:
            text = text.partition(tags[1])[2].strip()
        text = text[: text.rindex(end)].rstrip() if end and end in text else text
        names = [self._spelled_back(call["function"]["name"]) for call in self._messages[answer]["tool_calls"]]
        if not told.startswith(before) or not text.startswith(said) or any(name not in text for name in names):
            raise RecordError(
                f"messages[{answer}]: the model's chat template tells a message with tool calls in another way than it "
                "asks for one, so what the model would write is not known"
            )
        return text

    def _spelled_back(self, text: str) -> str:
        """`text` with what contents spelled in place of the stand-ins, but for what is a mark of the template's."""

        def spelled(match: "re.Match[str]") -> str:
            mark = self._spelled[int(match[1])]
            return match[0] if self._is_control(mark) else mark

        return self._stand_in.sub(spelled, text)

    def token_ids(self, text: str) -> list[int]:
        """The tokens of a part of `text`. RecordError: a content gives a mark in yet another way."""
        marks = self._control_in(text)
        if not self._stand_in.search(text):
            ids = self._encoded(text)
            if sum(token in self._control_ids for token in ids) <= sum(1 for _ in marks.finditer(text)):
                return ids
        ids, at = [], 0
        for match in marks.finditer(text):
            ids += self._spelled_out(text[at : match.start()]) + self._encoded(match[0])
            at = match.end()
        return ids + self._spelled_out(text[at:])

    def _spelled_out(self, part: str) -> list[int]:
        """The tokens of a part without marks of the template's; what contents spell like one is no single token."""
        text = self._stand_in.sub(lambda match: self._spelled[int(match[1])], part)
        ids = self._encoded(text, split_special_tokens=True)
        if self._control_ids.isdisjoint(ids):
            return ids
        ids, at = [], 0
        for match in self._control_in(text).finditer(text):
            ids += self._encoded(text[at : match.start() + 1], split_special_tokens=True)
            at = match.start() + 1
        ids += self._encoded(text[at:], split_special_tokens=True)
        if self._control_ids.isdisjoint(ids):
            return ids
        found = self._tokenizer.decode([token for token in ids if token in self._control_ids][:1])
        raise RecordError(
            f"the tokenizer reads a message's text as the mark {found}: it cannot be told from a real one"
        )

    def _is_control(self, mark: str) -> bool:
        return self._marks.kinds[mark] == SPECIAL or mark in self._written

    def _control_in(self, text: str) -> "re.Pattern[str]":
        return _any(mark for mark in self._marks.within(text) if self._is_control(mark))

    def _encoded(self, text: str, **options: bool) -> list[int]:
        if not text:
            return []
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, **options)["input_ids"]
        return ids

    def _rendered(self, messages: int, ask: bool) -> str:
        from jinja2 import TemplateError

        template = self._tokenizer.apply_chat_template
        try:
            return str(template(self._messages[:messages], tokenize=False, add_generation_prompt=ask))
        except (TemplateError, ValueError) as error:
            raise RecordError(f"the model's chat template refuses the messages: {error}") from error


def check_calls(message: AnyRecord, place: int) -> None:
    """RecordError: a tool call of the message, the `place`-th, is not in the form of the chat protocol."""
    calls: Any = message.get("tool_calls") or ()
    for number, call in enumerate(calls):
        function = call.get("function")
        called = function if isinstance(function, Mapping) else {}
        if not (isinstance(called.get("name"), str) and isinstance(called.get("arguments"), (str, Mapping))):
            raise RecordError(
                f'messages[{place}].tool_calls[{number}]: a call is {{"function": {{"name": ..., "arguments": ...}}}}, with the '
                "arguments as JSON text or an object"
            )


def _given(message: AnyRecord, place: int) -> JsonObject:
    """A message with what templates read of one, its tool calls' arguments as objects where they are JSON."""
    check_calls(message, place)
    given: JsonObject = {
        name: message[name] for name in ("role", "content", "tool_calls", "tool_call_id", "name") if name in message
    }
    if message.get("reasoning"):
        given |= dict.fromkeys(REASONING, message["reasoning"])
    if given.get("tool_calls"):
        given["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _as_object(call["function"]["arguments"])}}
            for call in given["tool_calls"]
        ]
    return given


def _as_object(arguments: Any) -> Any:
    with suppress(TypeError, ValueError):
        if isinstance(value := json.loads(arguments), dict):
            return value
    return arguments


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in (*value, *value.values()):
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _each_string(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a value of JSON whose texts, keys of objects among them, are changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _each_string(each, change) for name, each in value.items()}
    if isinstance(value, list):
        return [_each_string(each, change) for each in value]
    return value


def _any(marks: Iterable[str]) -> "re.Pattern[str]":
    """Finds any of the marks, of several that begin at a place the longest; without marks nothing."""
    return re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))) or "(?!)")


@dataclass(frozen=True)
class _Marks:
    """What could be a mark of a tokenizer's: every special token, and added tokens that look like a tag.

    kinds: SPECIAL, PAIR (<x> or </x> of two that both are tokens) or OTHER. by_head: the marks by their first letters.
    """

    kinds: Mapping[str, str]
    by_head: Mapping[str, Sequence[str]]
    special_ids: frozenset[int]

    def within(self, text: str) -> list[str]:
        """Those that the text contains; a model may have thousands."""
        return [mark for head, marks in self.by_head.items() if head in text for mark in marks if mark in text]


@lru_cache(maxsize=4)
def _marks(tokenizer: Any) -> _Marks:
    """Tags for reasoning, special or not, are no marks: they separate no messages, and policies and prompts write them."""
    added = tokenizer.added_tokens_decoder.values()
    known = {token.content: SPECIAL if token.special else OTHER for token in added}
    known |= dict.fromkeys(tokenizer.all_special_tokens, SPECIAL)
    kinds: dict[str, str] = {}
    by_head: dict[str, list[str]] = {}
    for mark, kind in known.items():
        is_tag = re.match(r"[^\w\s]", mark) and re.search(r"[^\W_]", mark)
        if len(mark) < 2 or _REASONING.fullmatch(mark) or (kind == OTHER and not is_tag):
            continue
        other = mark[0] + (mark[2:] if mark[1] == "/" else "/" + mark[1:])
        kinds[mark] = PAIR if kind == OTHER and other in known else kind
        by_head.setdefault(mark[:3], []).append(mark)
    special = tokenizer.convert_tokens_to_ids([mark for mark, kind in kinds.items() if kind == SPECIAL])
    return _Marks(kinds, by_head, frozenset(special) - {tokenizer.unk_token_id})
