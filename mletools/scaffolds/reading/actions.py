"""Tools, and the action of a message: the papers' tags, the chat protocol's tool calls, and what agents write instead.

Exact: one action in the form that the prompt asks for, or as one tool call. Lenient: any family's form of a call, the
first of several actions, small faults of form (docs/replies.md lists the rules). A message without an action that is
clear gets a Fault, which is answered with a correction and marked. Not covered: repairing programs.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..interface import Reply
from ..messages import one_line
from .calls import Arguments, Call, first_call, next_call
from .disguise import plain_program, undisguised
from .programs import read_answer
from .sections import sections
from .text import (
    Tagged,
    acts,
    after_first_thought,
    all_tags,
    first_tag,
    foreign_part,
    only_reasoning,
    other_reasoning,
    own_length,
    parsed,
    read_arguments,
    read_json,
    strict_arguments,
    without_fence,
)
from .tool import Action, Fault, Tool

SEVERAL = "Your message takes more than one action, and none was carried out."
_FRAMES = ("fence_in_tag", "argument_tag", "tag_in_string", "mentioned_tag")
_MOST_CALL = 10_000  # characters of a tag that may hold a family's call
_MOST_AFTER_END = 40  # characters after an unclosed tag that ends the work
EARLY = "No program of yours has left a submission.csv yet: there is nothing to hand in."
CUT_OFF = "Your message was cut off at the limit of its length: say the same in fewer words."


_PREFIX = re.compile(r".*(?:[./:]|__)")  # of a name: functions., tools/, mcp__server__
_ACTION_TAG = re.compile(r"<action>\s{0,9}(\w{1,80})\b[^<>]{0,200}</action>\s*\Z")
_OUTPUT_FENCE = re.compile(
    r"(?m)^```(?:output|text|txt|plaintext|console|stdout|log)?[ \t]*$"
)  # of an invented observation
_SHELL_FENCE = re.compile(r"(?m)^```(?:bash|sh|shell)[ \t]*\n([^`]*)^```[ \t]*$")

# Reads what stands between a tool's tags. ValueError, in words for the policy, where it cannot.
Body = Callable[[Tool, str], tuple[str, dict[str, str]]]


def read_action(
    reply: Reply, tools: Sequence[Tool], body: Body | None = None, tags: Sequence[str] = (), too_early: str = ""
) -> Action | Fault:
    """The action of a reply.

    Tags are the tools' names, unless `tags` names others; `body` reads what stands between them (default: `plain`). A
    finished reply that is reasoning alone takes the only action in it: the server took the answer for reasoning.
    too_early: a tool that ends the work while there is nothing to hand in: what else the reply does is its action, such as
    a program in a fence ahead of the end.
    """
    action = _as_seen(reply, tools, body, tags)
    if not isinstance(action, Action) or action.name != too_early:
        return action
    calls = [call for call in reply.get("tool_calls") or [] if call["name"] != too_early]
    others, other_tags = [tool for tool in tools if tool.name != too_early], [tag for tag in tags if tag != too_early]
    text, end = reply["text"], first_tag(reply["text"], [tool for tool in tools if tool not in others], [too_early])
    beside = text[: end.begin] + text[end.end :] if end else text
    other = _as_seen({**reply, "text": beside, "tool_calls": calls}, others, body, other_tags)
    return replace(other, rule="first_action") if isinstance(other, Action) else Fault("early", EARLY, action.format)


def _as_seen(reply: Reply, tools: Sequence[Tool], body: Body | None, tags: Sequence[str]) -> Action | Fault:
    """The action of a reply, of its text as a person sees it where the characters take none, with a program as seen."""
    action = _read_finished(reply, tools, body, tags)
    if isinstance(action, Fault) and action.kind != "length" and not reply.get("tool_calls"):
        for rule, seen in undisguised(reply["text"]):
            read = _read_finished({**reply, "text": seen}, tools, body, tags)
            if isinstance(read, Action):
                action = replace(read, rule=rule)
                break
    if isinstance(action, Action) and "code" in action.fields:
        code, named = plain_program(action.fields["code"])
        if named:
            return replace(action, fields={**action.fields, "code": code}, rule=action.rule or named)
    return action


def _read_finished(reply: Reply, tools: Sequence[Tool], body: Body | None, tags: Sequence[str]) -> Action | Fault:
    action = _read_text(reply, tools, body, tags)
    if isinstance(action, Action) or reply.get("tool_calls") or reply["finish_reason"] != "stop":
        return action
    reasoning_alone: Reply = {**reply, "text": only_reasoning(reply), "tool_calls": [], "reasoning": None}
    inside = _read_text(reasoning_alone, tools, body, tags)
    if isinstance(inside, Action) and inside.rule != "first_action":
        return replace(inside, rule="answer_in_reasoning")
    return action


def _read_text(reply: Reply, tools: Sequence[Tool], body: Body | None, tags: Sequence[str]) -> Action | Fault:
    reader = _Reader(reply, tools, body or plain, tags or [tool.name for tool in tools])
    exact = reader.exact()
    if isinstance(exact, Action) and not _is_framed(exact):
        return exact
    lenient = reader.lenient()
    if isinstance(exact, Action):
        return lenient if isinstance(lenient, Action) and lenient.rule in _FRAMES else exact
    if isinstance(lenient, Action) or (exact.kind in ("missing", "several") and lenient is not None):
        return lenient
    return exact


def plain(tool: Tool, text: str) -> tuple[str, dict[str, str]]:
    """The body of a tool with one field is that field; with several, sections that begin with NAME: in capitals."""
    if len(tool.fields) <= 1:
        return tool.name, dict.fromkeys(tool.fields, without_fence(text))
    return tool.name, sections(text, list(tool.fields))


def named_call(text: str) -> tuple[str, dict[str, str]]:
    """(name, fields) of {"name": ..., "arguments": {...}}. ValueError, in words, for anything else."""
    try:
        call = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what stands in the call is no JSON: {error}") from None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise ValueError('a call is {"name": ..., "arguments": {...}}')
    arguments = call.get("arguments", {})
    return call["name"], strict_arguments(arguments if isinstance(arguments, str) else json.dumps(arguments))


class _Reader:
    """The readings of one reply."""

    def __init__(self, reply: Reply, tools: Sequence[Tool], body: Body, tags: Sequence[str]):
        self.tools, self.body, self.tags = tools, body, tags
        self.tool_of = {tool.name: tool for tool in tools}
        self.calls, self.cut = reply.get("tool_calls") or [], reply["finish_reason"] == "length"
        _, text, self.reasoning_rule = other_reasoning(reply["text"])
        self.text: str = text if self.reasoning_rule else after_first_thought(text, tags)

    def exact(self) -> Action | Fault:
        """The only action, in the form that the prompt asks for."""
        calls, text = self.calls, self.text
        if self.cut:
            return Fault("length", CUT_OFF)
        try:
            tagged = all_tags(text, self.tags)
        except ValueError as error:
            return Fault("malformed", str(error))
        own = own_length(text)
        tagged = [each for each in tagged if each.begin <= own]
        if len(calls) + len(tagged) == 0:
            return Fault("missing", "Your message takes no action.")
        if len(calls) + len(tagged) > 1:
            return Fault("several", SEVERAL)
        try:
            if calls:
                return self._action(calls[0]["name"], strict_arguments(calls[0]["arguments"]), calls[0]["id"])
            read = self._in_tag(tagged[0])
        except ValueError as error:
            return Fault("malformed", str(error))
        if isinstance(read, Action):
            foreign = foreign_part(text, tagged[0].end)
            return replace(read, rule=foreign[1] if foreign else self.reasoning_rule)
        return read

    def lenient(self) -> Action | Fault | None:
        """The first action, in any form; None where there is none, Fault where it is no action of these tools."""
        if self.calls:
            return self._native()
        action, rule = self._first_in_text()
        if isinstance(action, Action):
            rule = action.rule or rule if rule == "end_of_turn" else rule or action.rule
            return replace(action, rule=rule or self.reasoning_rule or "end_of_turn")
        return action

    # --- tool calls -----------------------------------------------------------------------------------------------

    def _native(self) -> Action | Fault | None:
        calls = self.calls
        if self.cut and len(calls) == 1:  # it was cut off inside the call
            return None
        call = calls[0]
        action = self._resolved(call["name"], call["arguments"], True, call["id"])
        if not isinstance(action, Action):
            return action
        others: list[Action | Fault | None]
        try:
            others = [self._in_tag(tagged) for tagged in all_tags(self.text, self.tags)]
        except ValueError:
            return None
        others += [self._resolved(each["name"], each["arguments"], True) for each in calls[1:]]
        if not others:
            return action
        same = all(isinstance(other, Action) and _alike(other, action) for other in others)
        if len(calls) - 1 < len(others) and not same:  # another action stands in the text: which one is meant?
            return None
        return replace(action, rule="same_action_twice" if same else "first_action")

    # --- text -----------------------------------------------------------------------------------------------------

    def _first_in_text(self) -> tuple[Action | Fault | None, str | None]:
        """(the first action of the text, the rule that says what followed it)."""
        text, cut = self.text, self.cut
        tagged = first_tag(text, self.tools, self.tags)
        call, second = first_call(text, self._names)
        if tagged and (call is None or tagged.begin <= call.begin):
            begin, end, closed = tagged.begin, tagged.end, tagged.rule != "unclosed_tag"
            action = self._leniently_in_tag(tagged)
            if action is None and call is not None and call.begin == tagged.begin:
                action, end, closed = self._resolved_call(call), call.end, call.closed
            second = next_call(text, end, self._names)
        elif call is not None:
            action, begin, end, closed = self._resolved_call(call), call.begin, call.end, call.closed
        else:
            return self._fence(), None
        if (begin > own_length(text) and self.reasoning_rule != "harmony") or (cut and not closed):
            return None, None
        if second is None and (following := first_tag(text[end:], self.tools, self.tags)):
            second = end + following.begin
        foreign = foreign_part(text, end)
        if foreign is not None and (second is None or foreign[0] <= second):
            return action, foreign[1]
        if second is not None:
            return action, "first_action"
        return action, "cut_after_action" if cut else None

    def _in_tag(self, tagged: Tagged) -> Action | Fault:
        """The action in a tag. ValueError, in words, where it cannot be read."""
        body = self.body if tagged.tag in self.tags else plain
        return self._action(*body(self.tool_of.get(tagged.tag, Tool(tagged.tag, "")), tagged.body))

    def _leniently_in_tag(self, tagged: Tagged) -> Action | Fault | None:
        unclosed = tagged.rule == "unclosed_tag"
        try:
            read = self._in_tag(replace(tagged, body=self._completed(tagged) if unclosed else tagged.body))
        except ValueError:
            call = first_call(tagged.body, self._names)[0] if len(tagged.body) < _MOST_CALL else None
            if call is not None and tagged.tag not in self.tool_of and not unclosed:
                return self._resolved(call.name, call.arguments, call.closed, rule=call.form)
            return self._from_json(tagged) or self._raw_program(tagged)
        if not isinstance(read, Action):
            return self._from_json(tagged) or read
        code = read.fields.get("code")
        rule = tagged.rule
        if _unframed(read) is not read:
            return _unframed(read)
        if code is not None and parsed(code) is None:
            inner = read_answer(code)
            # the tag is a frame: what stands in it is the program, whatever is ahead of its imports
            if inner.code is not None and inner.rule != "no_fence":
                return replace(read, fields={**read.fields, "code": inner.code}, rule=rule or "fence_in_tag")
            if unclosed:
                return None
        elif unclosed and code is None and (read.fields or len(tagged.body.strip()) > _MOST_AFTER_END):
            return None
        return replace(read, rule=rule)

    def _completed(self, tagged: Tagged) -> str:
        """The body of a tag that is never closed, with a react program's inner tag closed."""
        inside = tagged.body.rstrip()
        other = re.search(r"\n</(\w{1,80})>\Z", inside)  # closed by another name
        if other and f"<{other[1]}>" not in inside:
            inside = inside[: other.start()].rstrip()
        return f"{inside}\n</code>" if "<code>" in inside and not inside.endswith("</code>") else inside

    def _from_json(self, tagged: Tagged) -> Action | Fault | None:
        """The action of a tag that holds JSON: the tool's fields, or a call with small faults."""
        try:
            value, rule = read_json(tagged.body)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("name"), str):
            arguments = value.get("arguments", value.get("parameters", {}))
            if not isinstance(arguments, (dict, str)):
                return None
            return self._resolved(value["name"], arguments, True, rule=tagged.rule or rule or "hermes")
        if tagged.tag in self.tool_of:
            return self._resolved(tagged.tag, value, True, rule=tagged.rule or rule or "json_in_tag")
        return None

    def _raw_program(self, tagged: Tagged) -> Action | None:
        """The program that stands in a tag of calls as it is: after the word python, in a fence, in half a <code>."""
        if tagged.tag in self.tool_of or self._program_tool is None:
            return None
        code = tagged.body.strip().removeprefix("python").strip()
        code = without_fence(code.removeprefix("<code>").removesuffix("</code>"))
        tree = parsed(code)
        if tree is None or not acts(tree):
            return None
        return Action(self._program_tool.name, {"code": code}, rule=tagged.rule or "raw_argument")

    def _fence(self) -> Action | None:
        """The action of a message that is one block of code, where one tool alone takes such code, or a tool's name."""
        text = self.text
        word = text.strip("<>/\n .!*`").lower()
        named = _ACTION_TAG.search(text)
        for tool in self.tools:
            if not tool.fields and tool.name.lower() in (word, named and named[1].lower()):
                return Action(tool.name, {}, rule="tool_name")
        whole = parsed(text)  # a message that is Python from its first word to its last
        bare = whole is not None and acts(whole)
        takes_python, takes_shell = self._program_tool, self._taker("command")
        fences, shell = text.count("```"), _SHELL_FENCE.search(text)
        program_and_output = fences == 4 and _OUTPUT_FENCE.search(text) and not (takes_shell and shell)
        if self.cut or not (program_and_output or fences == (0 if bare or "<code>" in text else 2)):
            return None
        answer = read_answer(text)
        rules = (None, "language", "code_tags", "no_fence") if bare else (None, "language", "code_tags")
        if takes_python and answer.rule in rules and parsed(answer.code or "") is not None:
            return Action(takes_python.name, {"code": str(answer.code)}, rule="fence_as_action")
        if takes_shell and shell and shell[1].strip():
            return Action(takes_shell.name, {"command": shell[1]}, rule="fence_as_action")
        return None

    @property
    def _program_tool(self) -> Tool | None:
        return self._taker("code")

    def _taker(self, field: str) -> Tool | None:
        """The only tool that takes this field alone; None where several do."""
        takers = [tool for tool in self.tools if list(tool.fields) == [field]]
        return takers[0] if len(takers) == 1 else None

    # --- calls ----------------------------------------------------------------------------------------------------

    def _names(self, name: str) -> bool:
        return self._tool(name) is not None

    def _tool(self, name: str) -> Tool | None:
        for bare in (name.strip(), _PREFIX.sub("", name.strip())):
            for tool in self.tools:
                if bare == tool.name or bare in tool.aliases:
                    return tool
            alike = [tool for tool in self.tools if bare.lower() in (tool.name.lower(), *tool.aliases)]
            if len(alike) == 1:
                return alike[0]
        return None

    def _resolved_call(self, call: Call) -> Action | Fault | None:
        return self._resolved(call.name, call.arguments, call.closed, rule=call.form)

    def _resolved(
        self, name: str, arguments: Arguments, closed: bool, id: str | None = None, rule: str | None = None
    ) -> Action | Fault | None:
        """The action that a call means; None where its arguments cannot be read without doubt."""
        tool = self._tool(name)
        if tool is None:
            return self._unknown(name)
        if name != tool.name and rule is None:
            rule = "tool_name"
        fields, own_rule = read_arguments(tool, arguments)
        if fields is None:
            return None
        if not closed and "code" in tool.fields and parsed(fields.get("code", "")) is None:
            return None
        if not closed and "code" not in tool.fields and not isinstance(arguments, str) and tool.fields:
            return None
        read = self._action(tool.name, fields, id)
        rule = rule if rule and own_rule == "fence" else own_rule or rule
        return replace(read, rule=rule) if isinstance(read, Action) else read

    def _unknown(self, name: str) -> Fault:
        return Fault(
            "unknown", f"There is no action named {one_line(repr(name[:80]))}; there are {', '.join(self.tool_of)}."
        )

    def _action(self, name: str, fields: dict[str, str], id: str | None = None) -> Action | Fault:
        if name not in self.tool_of:
            return self._unknown(name)
        tool = self.tool_of[name]
        missing = [each for each in tool.fields if not fields.get(each, "").strip()]
        if missing:
            return Fault("malformed", f"{name} needs {' and '.join(missing)}.")
        return Action(name, {each: fields[each] for each in tool.fields}, id)


def _is_framed(action: Action) -> bool:
    """Whether an action's program is no Python, or a field stands in tags of its own: it may be framed once more."""
    if any(text.lstrip().startswith(f"<{name}>") for name, text in action.fields.items()):
        return True
    return bool(action.fields.get("code")) and parsed(action.fields["code"]) is None


def _unframed(action: Action) -> Action:
    """The action with its only field out of tags of the field's name."""
    if len(action.fields) == 1:
        [(name, text)] = action.fields.items()
        inside = text.strip().removeprefix(f"<{name}>").removesuffix(f"</{name}>")
        if len(text.strip()) - len(inside) == 2 * len(name) + 5:
            return replace(action, fields={name: inside.strip("\n") + "\n"}, rule="argument_tag")
    return action


def _alike(one: Action, other: Action) -> bool:
    return one.name == other.name and [text.strip() for text in one.fields.values()] == [
        text.strip() for text in other.fields.values()
    ]
