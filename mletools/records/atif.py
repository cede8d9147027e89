"""The Agent Trajectory Interchange Format (ATIF), in which other tools write what an agent did. null: not known."""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from .common import JsonValue

Content = str | list[dict[str, JsonValue]]  # a text, or parts
Tokens = Annotated[int, Meta(ge=0, lt=10**12)]
Cost = Annotated[float, Meta(ge=0, lt=1e12)]
TokenIds = list[Annotated[int, Meta(ge=0, lt=1 << 31)]]


class AtifCall(TypedDict):
    """A call of a tool."""

    tool_call_id: NotRequired[str | None]
    function_name: str
    arguments: NotRequired[dict[str, JsonValue] | None]


class AtifResult(TypedDict, total=False):
    """What a step led to; source_call_id: the call that it answers."""

    content: Content | None
    source_call_id: str | None


class AtifObservation(TypedDict, total=False):
    """The results of a step."""

    results: list[AtifResult] | None


class AtifMetrics(TypedDict, total=False):
    """What a message of the model took; its tokens."""

    prompt_tokens: Tokens | None
    completion_tokens: Tokens | None
    cost_usd: Cost | None
    prompt_token_ids: TokenIds | None
    completion_token_ids: TokenIds | None
    logprobs: list[JsonValue] | None


class AtifStep(TypedDict):
    """A message, and what follows one of the model's. llm_call_count 0: the model was not asked."""

    step_id: NotRequired[JsonValue]
    source: Literal["system", "user", "agent"]
    message: NotRequired[Content | None]
    timestamp: NotRequired[str | None]
    model_name: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]
    tool_calls: NotRequired[list[AtifCall] | None]
    metrics: NotRequired[AtifMetrics | None]
    observation: NotRequired[AtifObservation | None]
    is_copied_context: NotRequired[JsonValue]
    llm_call_count: NotRequired[JsonValue]


class AtifAgent(TypedDict, total=False):
    """Who did it."""

    name: str | None
    version: str | None
    model_name: str | None
    extra: dict[str, JsonValue] | None


class AtifTotals(TypedDict, total=False):
    """Over all steps."""

    total_prompt_tokens: Tokens | None
    total_completion_tokens: Tokens | None
    total_cost_usd: Cost | None


class AtifTrajectory(TypedDict, total=False):
    """One file."""

    schema_version: str
    session_id: JsonValue
    trajectory_id: JsonValue
    agent: AtifAgent | None
    steps: list[AtifStep] | None
    final_metrics: AtifTotals | None
    extra: JsonValue
