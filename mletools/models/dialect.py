"""What one server understands: the fields of a request, amended after each error that names a parameter.

Covered: only what the user set is sent, or what training needs; parameters that are renamed or left out, once for the
run; streams, where a server demands them; reasoning that is sent back, where a server demands or takes it; answers in
JSON, where a server takes a format for them.
Not covered: connections and retries (http), reading errors (server_errors) and answers (completion).
"""

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from . import Reply, Request, server_errors, structured

# Servers take omitted fields from the model's generation_config.json (vLLM: top_k 20 for Qwen3); the sampling
# distribution would then differ from the one in the record.
UNCUT = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
EXTRAS = {"logprobs": True, "return_token_ids": True, **UNCUT}
# What a request can do without. Where an error names none of them, they are tried one by one (see Elimination).
OPTIONAL = (structured.FIELD, "return_token_ids", "top_k", "min_p", "repetition_penalty", "logprobs", "cache_salt")
MESSAGE_KEYS = ("tool_calls", "tool_call_id", "name")  # sent of a message, beside role and content
NEVER_DROPPED = {"model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens"}
REASONING = ("reasoning_content", "reasoning")
NOTHING = "(no answer)"  # stands for an empty message where a server takes none
_DEMANDED = r"must be|missing|required|pass(?:ed)? back|should be"
_REFUSED = r"not permitted|extra|unknown|unexpected|unrecognized|not (?:allowed|supported)|remove"


@dataclass(frozen=True)
class Known:
    """What is known of a server.

    reasoning: of which messages it is sent back: none, those of the tool calls after the last question ("calls"), or
    all; reasoning_key is the field's name. joins_user: a question behind a tool's message is sent as its end.
    fills_empty: no message may be empty. json: the format in which answers in JSON are asked for, one of
    structured.FORMATS. reasons: the model's replies have reasoning apart.
    """

    renamed: tuple[tuple[str, str], ...] = ()
    dropped: frozenset[str] = frozenset()
    streams: bool = False
    reasoning: str = "calls"
    reasoning_key: str = REASONING[0]
    joins_user: bool = False
    fills_empty: bool = False
    json: str = structured.FORMATS[0]
    reasons: bool = False


class Dialect:
    """The requests to the model `name`, with the user's `options`. `say` gets each change once. Thread-safe.

    json: one of structured.CHOICES.
    """

    def __init__(
        self, name: str, options: Mapping[str, object], say: Callable[[str], None], json: str = structured.CHOICES[0]
    ) -> None:
        self.name, self.options, self._say, self._json = name, dict(options), say, json
        self._lock = threading.Lock()
        self.known = Known(streams=bool(self.options.pop("stream", False)))

    def fields(self, request: Request) -> dict[str, object]:
        """The JSON fields of a request."""
        known = self.known
        messages = _messages(request.messages, known)
        fields: dict[str, object] = {"model": self.name, "messages": messages}
        if (form := self._form(request, known)) and request.schema is not None:
            last = messages[-1]
            messages[-1] = {**last, "content": structured.told(str(last["content"]), request.schema)}
            fields[structured.FIELD] = structured.response_format(form, request.schema)
        temperature, top_p = request.temperature, request.top_p
        if request.training:
            temperature, top_p = request.local_temperature, request.local_top_p
        if temperature is not None:
            fields["temperature"] = temperature
        if top_p is not None:
            fields["top_p"] = top_p
        fields["max_tokens"] = request.max_tokens
        if request.training or request.send_seed:
            fields["seed"] = request.seed % 2**31  # some servers keep no more bits
        if request.tools:
            fields["tools"] = request.tools
        if request.stop:
            fields["stop"] = list(request.stop)
        if request.training:
            fields |= EXTRAS
        if request.cache_salt is not None:
            fields["cache_salt"] = request.cache_salt
        if known.streams:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        fields |= self.options
        for name, other in known.renamed:
            if name in fields:
                fields.setdefault(other, fields.pop(name))
        dropped = known.dropped
        if "return_token_ids" in dropped and "logprobs" not in self.options:
            dropped |= {"logprobs"}  # of use with ids alone
        return {name: value for name, value in fields.items() if name not in dropped}

    def _form(self, request: Request, known: Known) -> str:
        """The format in which the answer is asked for; "": none. What is trained on is drawn without constraint."""
        wanted = self._json == "on" or (self._json == "auto" and known.reasons)
        free = request.schema is None or request.training or not wanted
        return "" if free or structured.FIELD in {*known.dropped, *self.options} else known.json

    def sampling(self, request: Request, sent: Mapping[str, object]) -> dict[str, object]:
        """What records say of the fields that were `sent`; see Reply."""
        sampling: dict[str, object] = {name: sent.get(name) for name in ("temperature", "top_p")}
        if self.options:
            sampling["options"] = {name: sent.get(name) for name in self.options}
        if request.schema is not None and structured.FIELD not in self.options:
            form = sent.get(structured.FIELD)
            sampling[structured.FIELD] = form.get("type") if isinstance(form, Mapping) else None
        return sampling

    def drop(self, names: Collection[str], notice: str = "the server refuses {}: not sent from now on") -> None:
        """Leave fields out from now on."""
        with self._lock:
            new = frozenset(names) - self.known.dropped
            self.known = replace(self.known, dropped=self.known.dropped | new)
        if new:
            self._say(notice.format(", ".join(name for name in OPTIONAL if name in new)))

    def spoils(self, sent: Mapping[str, object], reply: Reply) -> bool:
        """Whether the format has cost the answer: then it is not asked for any more, and the request is sent again."""
        if structured.FIELD not in sent or structured.FIELD in self.options:
            return False
        if empty := structured.is_empty(reply):
            self.drop([structured.FIELD], "asked for JSON the server answers nothing: {} is not sent from now on")
        elif self._json == "auto" and not structured.reasons_apart(reply):
            self.drop([structured.FIELD], "asked for JSON the model does not reason: {} is not sent from now on")
        return empty

    def saw(self, body: bytes, reply: Reply) -> None:
        """Note that a model reasons, and under which name an answer holds its reasoning."""
        if not self.known.reasons and structured.reasons_apart(reply):
            with self._lock:
                self.known = replace(self.known, reasons=True)
        name = next((name for name in REASONING if f'"{name}"'.encode() in body), None)
        if name is not None and self.known.reasoning == "calls" and self.known.reasoning_key != name:
            with self._lock:
                self.known = replace(self.known, reasoning_key=name)

    def learn(self, status: int, body: bytes, sent: Mapping[str, object]) -> bool:
        """Whether a refused request is to be sent again because fields() has changed since `sent`."""
        with self._lock:
            if self._amended(sent):
                return True
            known, notice = _learnt(self.known, status, body, sent)
            changed, self.known = known != self.known, known
        if changed:
            self._say(notice)
        return changed

    def _amended(self, sent: Mapping[str, object]) -> bool:
        """Whether another thread has learnt meanwhile what this request met."""
        known = self.known
        old_name = any(name in sent and other not in sent for name, other in known.renamed)
        old_form = structured.FIELD not in self.options and _has_schema(sent) and known.json != structured.FORMATS[0]
        return old_name or old_form or bool(known.dropped & sent.keys()) or known.streams > ("stream" in sent)


def _learnt(known: Known, status: int, body: bytes, sent: Mapping[str, object]) -> tuple[Known, str]:
    """What is known after an error, and the notice of a change."""
    names = server_errors.refused_parameters(body, [name for name in sent if name not in ("model", "messages")])
    message = server_errors.error_message(body)
    key = _reasoning_named(message)
    if key is not None and not names:
        return _learnt_reasoning(known, key, message, sent)
    if "stream" not in sent and "stream_options" not in names and server_errors.wants_stream(body):
        return replace(known, streams=True), "the server answers as a stream only, and is asked for one from now on"
    if not known.joins_user and re.search(r"role .?user.? after role .?tool", message, re.I):  # Mistral
        return replace(known, joins_user=True), "the server takes no question behind a tool's message: they are joined"
    # Anthropic; Mistral and DeepSeek
    empty = r"non-empty|(?:cannot|must not|may not) be empty|content or tool_calls"
    if not known.fills_empty and re.search(empty, message, re.I):
        return replace(known, fills_empty=True), f"the server takes no empty message: {NOTHING!r} is sent for it"
    if "max_tokens" in names:
        if not server_errors.says(
            body, "max_completion_tokens", "nsupported", "not supported", "nknown", "nrecognized"
        ):
            return known, ""
        return _renamed(known, "max_tokens", "max_completion_tokens")
    if "seed" in names and status == 422:  # Mistral
        return _renamed(known, "seed", "random_seed")
    if {"temperature", "top_p"} <= set(names) and server_errors.says(body, "both", "only one", "together"):
        names = ["top_p"]
    if structured.FIELD in sent and not names and re.search(structured.ALIASES, message, re.I):
        names = [structured.FIELD]
    if structured.FIELD in names and _has_schema(sent) and known.json == structured.FORMATS[0]:
        return replace(
            known, json="json_object"
        ), "the server takes no JSON schema: asked for a JSON object from now on"
    refused = {name for name in names if name not in NEVER_DROPPED}
    if not refused:
        return known, ""
    listed = ", ".join(name for name in sent if name in refused)
    return replace(known, dropped=known.dropped | refused), f"the server refuses {listed}: not sent from now on"


def _has_schema(sent: Mapping[str, object]) -> bool:
    form = sent.get(structured.FIELD)
    return isinstance(form, Mapping) and form.get("json_schema", {}).get("name") == "answer"


def _renamed(known: Known, name: str, other: str) -> tuple[Known, str]:
    if (name, other) in known.renamed:
        return known, ""
    notice = f"the server refuses {name}: sent as {other} from now on"
    return replace(known, renamed=(*known.renamed, (name, other))), notice


def _reasoning_named(message: str) -> str | None:
    """The field with a message's reasoning, where an error names it; the plain word reasoning is no field."""
    match = re.search(r"\breasoning_content\b|['\"`.]reasoning['\"`\]]", message)
    return match and match[0].strip("'\"`.]")


def _learnt_reasoning(known: Known, key: str, message: str, sent: Mapping[str, object]) -> tuple[Known, str]:
    """Send reasoning back with all messages where a server demands that, with none where it refuses it."""
    if re.search(_REFUSED, message, re.I):
        messages = sent["messages"]
        was_sent = isinstance(messages, list) and any(name in each for each in messages for name in REASONING)
        known = replace(known, reasoning="none") if was_sent else known
        return known, "the server refuses the model's reasoning with the messages: not sent from now on"
    refused = known.reasoning == "none" and known.reasoning_key == key
    if re.search(_DEMANDED, message, re.I) and not refused:
        known = replace(known, reasoning="all", reasoning_key=key)
        return known, "the server demands the model's reasoning with the messages: sent from now on"
    return known, ""


def _messages(messages: Sequence[Mapping[str, object]], known: Known) -> list[dict[str, object]]:
    """The messages as they are sent; keys outside the protocol are dropped."""
    questions = [at for at, message in enumerate(messages) if message["role"] == "user"]
    last_question = questions[-1] if questions else -1
    sent = list[dict[str, object]]()
    for at, message in enumerate(messages):
        fields = {"role": message["role"], "content": message["content"]}
        fields |= {key: message[key] for key in MESSAGE_KEYS if message.get(key)}
        in_calls = at > last_question and "tool_calls" in fields
        if message.get("reasoning") and (known.reasoning == "all" or (known.reasoning == "calls" and in_calls)):
            fields[known.reasoning_key] = message["reasoning"]
        if known.fills_empty and not fields["content"] and "tool_calls" not in fields:
            fields["content"] = NOTHING
        if known.joins_user and fields["role"] == "user" and sent and sent[-1]["role"] == "tool":
            sent[-1] = {**sent[-1], "content": f"{sent[-1]['content']}\n\n{fields['content']}"}
        else:
            sent.append(fields)
    return sent
