"""The definition of a metric, and the table of all metrics, which the modules beside this one fill.

A metric is a function with a name, a direction, the kinds of cells it reads and parameters with defaults. Its signature
defines its inputs:

    @metric("rmse", lower_is_better=True, best=0.0, parse="number")
    def rmse(truth, guess, *, weight=None): ...

`truth` and `guess` are numpy arrays of parsed cells with one row per scored row, in the same order: floats for number,
objects for every other kind (see grading.parsing). With columns="each" they have the shape (rows,) and the task says
how several target columns become one score; with columns="joint" they have the shape (rows, targets). Keyword arguments
in INPUTS come from the task's answers; all others are parameters of the task record (`metric.params`), required there
where they have no default. One whose default is a frozen dataclass stands for its fields, each a parameter of the record. What else is to be known of a metric, for whoever makes a task or predictions, is in Facts.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_type_hints

from ...base.errors import RecordError
from ...base.jsonl import dumps
from ...records.task import Parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Inputs of metrics beside their parameters.
INPUTS = {
    "weight": "the weight of each row, floats of shape (rows,), or None where the task names no weight",
    "group": "the group of each row, strings of shape (rows,)",
    "names": "the names of the target columns",
    "extra": "every column of the answers as text, {name: array of strings of shape (rows,)}",
}
REQUIRED = inspect.Parameter.empty


class Inputs(TypedDict, total=False):
    """The values of INPUTS for the scored rows."""

    names: list[str]
    weight: "NDArray[Any] | None"
    group: "NDArray[Any] | None"
    extra: "dict[str, NDArray[Any]]"


class Undefined(ValueError):
    """The metric has no value for these predictions; the message tells the agent why."""


class TooExpensive(ValueError):
    """Scoring these predictions would cost far more than scoring plausible ones; the message says why."""


class Unsuited(RecordError):
    """The metric cannot be computed with these answers or parameters: the task is broken, not the submission."""


class Facts(TypedDict, total=False):
    """What a metric asks of predictions beyond the kinds of their cells; each is false or "" where it is left out.

    predicts: probability where each target column is the probability of a 1 (or of the positive class), probabilities
    where all columns together are those of the classes. ordered_classes: the numbers that it reads are classes in an
    order. balanced: every class counts alike, however rare. constant_is_undefined: the same prediction for every row has
    no score.
    """

    predicts: Literal["", "probability", "probabilities"]
    ordered_classes: bool
    balanced: bool
    constant_is_undefined: bool


@dataclass(frozen=True)
class Metric:
    """One metric. `best` is the value of a perfect submission, None where that depends on the answers.

    `columns` is "joint" where it takes all target columns together, else "each"; `types` are those of the parameters'
    annotations; the last four are Facts.
    """

    name: str
    function: Callable[..., float]
    lower_is_better: bool
    best: float | None
    parse: tuple[Parse, ...]
    answer_parse: tuple[Parse, ...]
    columns: str
    params: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)
    inputs: frozenset[str] = frozenset()
    predicts: Literal["", "probability", "probabilities"] = ""
    ordered_classes: bool = False
    balanced: bool = False
    constant_is_undefined: bool = False

    @property
    def definition(self) -> str:
        """The first paragraph of the function's docstring, in one line."""
        text = inspect.getdoc(self.function) or ""
        return " ".join(text.split("\n\n")[0].split())

    def described(self, width: int) -> str:
        """A few lines of text: name, direction, kinds of cells; the definition; the parameters with their defaults."""
        import textwrap

        better = "lower is better" if self.lower_is_better else "higher is better"
        params = [
            f"{key} (required)" if default is REQUIRED else f"{key}={dumps(default)}"
            for key, default in self.params.items()
        ]
        lines = [f"{self.name} ({better}; {', '.join(self.parse)})", self.definition]
        if params:
            lines.append(f"Parameters: {', '.join(params)}.")
        columns = [key for key in ("group", "weight") if key in self.inputs]
        if columns:
            lines.append(f"Takes metric.{' and metric.'.join(columns)}.")
        return "\n".join(
            textwrap.fill(line, width, initial_indent="    " if at else "", subsequent_indent="    ")
            for at, line in enumerate(lines)
        )


METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    *,
    lower_is_better: bool,
    best: float | None,
    parse: Parse | tuple[Parse, ...],
    answer_parse: Parse | tuple[Parse, ...] = (),
    columns: str = "each",
    **facts: Unpack[Facts],
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function in METRICS under `name`.

    parse: the kinds of predictions; answer_parse: the kinds of answers, where they may differ;
    facts: see Facts.
    """

    def register(function: Callable[..., float]) -> Callable[..., float]:
        keywords = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        params: dict[str, object] = {}
        types = get_type_hints(function)
        groups: dict[str, Any] = {}  # defaults of the parameters that stand for their fields
        for each in keywords:
            if is_dataclass(each.default):
                groups[each.name] = each.default
                params |= {one.name: getattr(each.default, one.name) for one in fields(each.default)}
                types |= get_type_hints(type(each.default))
            elif each.name not in INPUTS:
                params[each.name] = each.default
        if groups:
            function = _with_fields(function, groups)
        kinds = (parse,) if isinstance(parse, str) else parse
        answer_kinds = (answer_parse,) if isinstance(answer_parse, str) else answer_parse
        METRICS[name] = Metric(
            name=name,
            function=function,
            lower_is_better=lower_is_better,
            best=best,
            parse=kinds,
            answer_parse=answer_kinds or kinds,
            columns=columns,
            params=params,
            types={name: types[name] for name in params},
            inputs=frozenset(each.name for each in keywords if each.name in INPUTS),
            **facts,
        )
        return function

    return register


def _with_fields(function: Callable[..., float], groups: Mapping[str, Any]) -> Callable[..., float]:
    """The function, called with the fields of its `groups` (dataclasses by the parameter's name) as keywords."""

    @functools.wraps(function)
    def called(*arrays: Any, **given: Any) -> float:
        for name, default in groups.items():
            own = {one.name: given.pop(one.name) for one in fields(default) if one.name in given}
            given[name] = replace(default, **own)
        return function(*arrays, **given)

    return called
