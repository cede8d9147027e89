"""Answers in JSON by `response_format`, and fields that a server refuses without naming them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_dialects import Answer, Behaviour, Provider, error, ok

from mletools.base.errors import RecordError
from mletools.models import Reply, Request, ServerOptions
from mletools.models.elimination import PROBE
from mletools.models.http import HttpModel
from mletools.prompts import answers
from mletools.scaffolds import idea_types
from mletools.scaffolds.search import coding, evaluation, memory, planning, reasoning, replies
from mletools.scaffolds.search.data import Hypothesis
from mletools.scaffolds.search.node_context import CONSEQUENCES

SCHEMA = answers.fields(lesson=answers.TEXT, supported=answers.FLAG)
QUESTION = [{"role": "user", "content": "What does it teach?"}]
ASK = Request(QUESTION, 3, schema=SCHEMA)
TRAIN = Request(QUESTION, 3, training=True)
JSON = '{"reasoning": "so", "lesson": "folds", "supported": true}'
THOUGHT = {"content": JSON, "reasoning_content": "so"}
OBJECT = {"type": "json_object"}
EXTRAS = ["logprobs", "return_token_ids", "top_k", "min_p", "repetition_penalty"]


@pytest.fixture
def opened() -> Iterator[Callable[..., tuple[Provider, HttpModel, list[str]]]]:
    servers: list[Provider] = []

    def make(behave: Behaviour, structured: str = "on", **options: Any) -> tuple[Provider, HttpModel, list[str]]:
        server, notices = Provider(behave), list[str]()
        servers.append(server)
        said = lambda message: notices.append(message.partition(": ")[2])  # noqa: E731
        known = {"retries": 0, "backoff": 0.01, "key_env": None}
        asked = ServerOptions(server.url, structured=structured, fields=options, **known)
        model = HttpModel("m", asked, said)
        return server, model, notices

    yield make
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def formats(server: Provider) -> list[str | None]:
    return [body.get("response_format", {}).get("type") for body in server.bodies]


def refusing(form: str, words: str, **more: Any) -> Behaviour:
    """A server that refuses one type of format, or both ("json")."""

    def behave(body: dict[str, Any], number: int) -> Answer:
        refused = body.get("response_format", {}).get("type", "").startswith(form)
        return error(400, words, **more) if refused else ok(THOUGHT)

    return behave


def test_the_schema_begins_with_the_reasoning_and_the_model_is_told(opened: Any) -> None:
    server, model, _ = opened(lambda body, number: ok(THOUGHT))
    (reply,) = model.sample([ASK])
    body = server.bodies[0]
    schema = body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["reasoning", "lesson", "supported"]
    assert '"lesson", "supported", as described above' in body["messages"][0]["content"] and ASK.messages == QUESTION
    assert reply.text == JSON and reply.sampling["response_format"] == "json_schema"


def test_any_object_is_a_json_object_and_a_text_is_free(opened: Any) -> None:
    server, model, _ = opened(lambda body, number: ok(THOUGHT))
    replies = model.sample([Request(QUESTION, 3, schema={}), Request(QUESTION, 3)])
    assert formats(server) == ["json_object", None]
    assert [reply.sampling.get("response_format", "free") for reply in replies] == ["json_object", "free"]
    assert "JSON" in server.bodies[0]["messages"][0]["content"] and server.bodies[1]["messages"] == QUESTION


@pytest.mark.parametrize("structured", ["on", "auto"])
def test_what_is_trained_on_is_never_kept_to_a_format(structured: str, opened: Any) -> None:
    server, model, _ = opened(lambda body, number: ok(THOUGHT), structured)
    asked = Request(QUESTION, 3, schema=SCHEMA, training=True)
    model.sample([asked, asked])
    assert formats(server) == [None, None] and server.bodies[1]["messages"] == QUESTION


@pytest.mark.parametrize(
    ("message", "usage", "asked"),
    [
        (THOUGHT, {}, [None, "json_schema", "json_schema"]),
        (JSON, {"completion_tokens_details": {"reasoning_tokens": 9}}, [None, "json_schema", "json_schema"]),
        ({"content": JSON, "reasoning_content": None}, {"completion_tokens_details": {"reasoning_tokens": 0}}, [None] * 3),
    ],
)  # fmt: skip
def test_by_default_a_model_is_asked_for_json_once_it_has_reasoned_apart(
    message: Any, usage: Any, asked: Any, opened: Any
) -> None:
    server, model, _ = opened(lambda body, number: ok(message, **usage), "auto")
    assert [reply.text for reply in model.sample([ASK, ASK, ASK])] == [JSON] * 3
    assert formats(server) == asked


def test_a_server_whose_format_ends_the_reasoning_is_asked_without_it(opened: Any) -> None:
    behave = lambda body, number: ok(JSON if "response_format" in body else THOUGHT)  # noqa: E731
    server, model, notices = opened(behave, "auto")
    model.sample([ASK] * 4)
    assert formats(server) == [None, "json_schema", None, None]
    assert notices == ["asked for JSON the model does not reason: response_format is not sent from now on"]


NAMED = "response_format: response_format.type `json_schema` is unavailable now"
REFUSALS: dict[str, tuple[Behaviour, list[str | None], int]] = {
    "a schema, by the field": (refusing("json_schema", NAMED), ["json_schema", "json_object", "json_object"], 1),
    "a schema, by its parameter": (
        refusing("json_schema", "Invalid parameter", param="response_format.type"),
        ["json_schema", "json_object", "json_object"],
        1,
    ),
    "a schema, by another word": (
        refusing("json_schema", "The JSON schema has features that xgrammar does not know"),
        ["json_schema", "json_object", "json_object"],
        1,
    ),
    "both": (
        refusing("json", "Unknown parameter: 'response_format'"),
        ["json_schema", "json_object", None, None],
        2,
    ),
    # refused, then with and without it in a question of a word, then the question itself
    "both, without a name": (refusing("json", "Bad request"), ["json_schema", "json_schema", None, None, None], 1),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_server_that_refuses_the_format(name: str, opened: Any) -> None:
    behave, asked, notices = REFUSALS[name]
    server, model, said = opened(behave)
    replies = model.sample([ASK, ASK])
    assert [reply.text for reply in replies] == [JSON, JSON] and formats(server) == asked and len(said) == notices
    assert replies[1].sampling["response_format"] == asked[-1]
    assert (asked[-1] is None) == (server.bodies[-1]["messages"] == QUESTION)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "reasoning_content": JSON},  # the grammar was put on the reasoning
        {"content": None},
        " \n" * 50,
    ],
)
def test_a_server_that_answers_nothing_when_asked_for_json(message: Any, opened: Any) -> None:
    finish = "length" if isinstance(message, str) else "stop"
    server, model, said = opened(lambda body, number: ok(message, finish) if "response_format" in body else ok(THOUGHT))
    assert [reply.text for reply in model.sample([ASK, ASK])] == [JSON, JSON]
    assert formats(server) == ["json_schema", None, None] and len(said) == 1


def test_reasoning_that_takes_all_tokens_is_no_fault_of_the_format(opened: Any) -> None:
    server, model, said = opened(lambda body, number: ok({"content": "", "reasoning_content": "so"}, "length"))
    (reply,) = model.sample([ASK])
    assert (reply.text, reply.finish_reason, said) == ("", "length", []) and len(server.seen) == 1


def test_the_users_own_format_counts(opened: Any) -> None:
    server, model, _ = opened(lambda body, number: ok(THOUGHT), response_format=OBJECT)
    replies = model.sample([ASK, Request(QUESTION, 3)])
    assert [body["response_format"] for body in server.bodies] == [OBJECT] * 2
    assert server.bodies[0]["messages"] == QUESTION and replies[0].sampling["options"] == {"response_format": OBJECT}


def test_the_users_own_format_that_is_refused(opened: Any) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}
    server, model, _ = opened(refusing("json", NAMED), response_format=form)
    assert model.sample([ASK])[0].text == JSON and formats(server)[-1] is None and len(server.seen) <= 3


# ---- fields that are refused without a name


def without(*names: str) -> Behaviour:
    """A server that lacks some fields, and says nothing of them."""
    return lambda body, number: error(400, "Bad request") if body.keys() & set(names) else ok(JSON)


@pytest.mark.parametrize(
    "names", [("top_k",), ("logprobs",), ("min_p", "repetition_penalty"), ("top_k", "min_p", "repetition_penalty")]
)
def test_only_the_fields_that_a_server_refuses_are_left_out(names: tuple[str, ...], opened: Any) -> None:
    server, model, said = opened(without(*names))
    assert [reply.text for reply in model.sample([TRAIN, TRAIN])] == [JSON, JSON]
    sent = [name for name in EXTRAS if name in server.bodies[-1]]
    assert sent == [name for name in EXTRAS if name not in names]
    assert len(said) == 1 and said[0].startswith("the server refuses ") and all(name in said[0] for name in names)
    own = [body for body in server.bodies if body["messages"] == QUESTION]
    assert len(own) == 3 and len(server.seen) == 3 + 2 + len(EXTRAS)
    assert all(body["messages"] == PROBE and body["max_tokens"] == 16 for body in server.bodies if body not in own)


def test_a_server_without_ids_is_not_sent_logprobs(opened: Any) -> None:
    server, model, _ = opened(without("return_token_ids"))
    model.sample([TRAIN])
    assert [name for name in EXTRAS if name in server.bodies[-1]] == EXTRAS[2:]


def test_a_request_that_is_wrong_in_itself_costs_one_search(opened: Any) -> None:
    def behave(body: dict[str, Any], number: int) -> Answer:
        return error(400, "Bad request") if body["messages"] == QUESTION else ok(JSON)

    server, model, said = opened(behave)
    for asked in (2, 3):  # the question and the probe with all fields, and then the question alone
        with pytest.raises(RecordError, match="400: Bad request"):
            model.sample([TRAIN])
        assert len(server.seen) == asked
    assert said == []


def test_threads_that_meet_a_refusal_at_once_search_once(opened: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    server, model, said = opened(without("min_p"))
    with ThreadPoolExecutor(8) as pool:
        replies: list[Reply] = [
            each for group in pool.map(lambda _: model.sample([TRAIN]), range(16)) for each in group
        ]
    assert len(replies) == 16 and len(said) == 1
    assert sum(body["messages"] == PROBE for body in server.bodies) == 2 + len(EXTRAS)


def test_schemas_are_what_strict_servers_take() -> None:
    """Every object lists all its fields as required and forbids others, and the top is an object."""

    def check(schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                check(each)
        if not isinstance(schema, dict):
            return
        if schema.get("type") == "object":
            assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False
        for value in schema.values():
            check(value)

    for schema in answers.SCHEMAS.values():
        assert schema == {} or schema["type"] == "object"
        check(json.loads(json.dumps(schema)))


def example(schema: Any) -> Any:
    """A value that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0])
    made = {"string": "a", "number": 5, "integer": 0, "boolean": False}
    if schema["type"] == "array":
        return [example(schema["items"])] * 2
    return made[schema["type"]] if schema["type"] in made else {k: example(v) for k, v in schema["properties"].items()}


READERS: dict[str, Callable[[str, replies.Reading], Any]] = {
    "idea-type": lambda text, notes: idea_types.read_answer(text)[0],
    "search-analysis": planning.read_analysis,
    "search-challenges": lambda text, notes: reasoning.read_challenges(text, 3, notes)[1],
    "search-check": coding.read_check,
    "search-choose": lambda text, notes: evaluation.read_choice(text, {0}, notes),
    "search-hypotheses": lambda text, notes: reasoning.read_hypotheses(
        text, [reasoning.Challenge("c", "r", "o")], 3, notes
    )[1],
    "search-diagnosis": reasoning.read_diagnosis,
    "search-idea": reasoning.read_idea,
    "search-lesson": memory.read_lesson,
    "search-select": lambda text, notes: reasoning.read_choice(text, [Hypothesis("h", "Model")], notes),
}


@pytest.mark.parametrize("role", [role for role in answers.SCHEMAS if not role.startswith("strategist.")])
def test_an_answer_by_its_schema_is_read(role: str) -> None:
    schema = answers.SCHEMAS[role]
    notes = replies.Reading()
    assert READERS[role](json.dumps({"reasoning": "[1, {}] so", **example(schema)}), notes) not in (None, ())
    assert notes.lenient == []
    assert role == "idea-type" or role in CONSEQUENCES
