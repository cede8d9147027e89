"""The types of the records that the commands exchange.

They repeat the schemas in `mletools/schemas` for type checkers and readers; `schema.check` validates at run time. A
private base class (`_Task`) has the required fields, the public class (`Task`) the optional ones. Free-form objects are
`dict[str, Any]`. Summaries and comparisons have only a schema.
"""

from typing import Any, Literal, TypedDict

Parse = Literal["number", "label", "text", "tokens", "tagset", "ranked", "order", "rle", "spans", "boxes"]
Extra = Literal["ignore", "refuse"]
ReplyProblem = Literal["length", "missing", "several", "malformed", "unknown", "early", "unanswered", "no_code"]
RunProblem = Literal["debug", "slow", "failed", "invalid", "inauthentic", "no_score"]
CellStatus = Literal["ok", "error", "timeout", "memory", "disk", "output", "killed"]
ExecutionStatus = Literal[CellStatus, "no_code"]
Medal = Literal["gold", "silver", "bronze"]
RankRule = Literal["dojo", "mle-rl"]
Component = Literal["DataLoadSpec", "FeatureEng", "Model", "Ensemble", "Workflow"]
Phase = Literal["research", "develop"]
StopReason = Literal["finished", "length", "format", "max_turns", "context", "timeout", "budget", "asked"]
IdeaCategory = Literal[
    "Data Preparation", "Feature Engineering", "Model Architecture", "Hyperparameter Tuning", "Model Training", "Others"
]
AlgorithmName = Literal["sft", "grpo", "dapo", "dr-grpo", "reinforce", "rloo", "gspo"]


class LineageEntry(TypedDict):
    """One command that worked on a record."""

    tool: str
    version: str
    options: dict[str, Any]
    seed: int


class _Record(TypedDict):
    version: Literal[1]
    id: str
    lineage: list[LineageEntry]


class TaskData(TypedDict):
    """The data folder of a task, its public files and the digests of both sides."""

    dir: str
    public: list[str]
    digest: str
    private_digest: str


class _SubmissionFormat(TypedDict):
    id: list[str]
    target: list[str]
    parse: Parse
    rows: int


class SubmissionFormat(_SubmissionFormat, total=False):
    """The columns of a submission and how its cells are parsed."""

    labels: list[Any]
    items: Literal["text", "whole"]
    range: list[float | None]
    row_sum: float
    row_sum_within: float
    empty_ok: bool
    missing_as: str
    separator: str
    fields: list[str]
    empty_marker: str
    several_rows: bool
    most_rows: int
    repeated_ids: bool
    extra_rows: Extra
    extra_columns: Extra


RowCondition = TypedDict(
    "RowCondition",
    {"column": str, "in": list[Any], "greater": float, "last": int, "of": str, "equals": Any, "not_equals": Any},
    total=False,
)
RowCondition.__doc__ = "A condition that selects the answer rows to score."


class GroupPattern(TypedDict):
    """A group name extracted from a column by a regular expression."""

    column: str
    pattern: str


class WeightTable(TypedDict):
    """A weight for each value of a column."""

    column: str
    values: dict[str, float]


class _MetricSpec(TypedDict):
    lower_is_better: bool


class MetricSpec(_MetricSpec, total=False):
    """A metric by name and parameters, or as a file of code."""

    name: str
    params: dict[str, Any]
    file: str
    style: Literal["function", "class", "script"]
    files: list[str]
    columns: Literal["mean", "flat"]
    where: list[RowCondition]
    group: str | GroupPattern
    weight: str | WeightTable
    score_round: int


class Thresholds(TypedDict):
    """The scores that earn medals, and the median."""

    median: float
    bronze: float
    silver: float
    gold: float


class Baseline(TypedDict):
    """The score of a reference model on the held-out answers."""

    name: str
    score: float


class MedalStability(TypedDict):
    """Whether gold is further from bronze than the choice of the test rows moves a score."""

    gap: float
    standard_error: float
    rows_needed: int


class _Provenance(TypedDict):
    source: str
    seed: int


class Provenance(_Provenance, total=False):
    """Where a task comes from, and how it was made."""

    benchmark: str
    competition: str
    graded_by: Literal["record", "code", "options", "author"]
    note: str
    domain: str
    scenario: Any
    dna: dict[str, Any]
    mutations: list[Any]
    hidden_rule: str
    irrelevant: list[str]
    sanity: dict[str, Any]
    baselines: list[Baseline]
    medal_stability: MedalStability
    package: str
    data_source: str
    license: str
    license_from: str
    split: str
    answers_public: bool


class _Task(_Record):
    kind: Literal["task"]
    name: str
    description: str
    modality: str
    problem: str
    data: TaskData
    submission: SubmissionFormat
    metric: MetricSpec
    answers: str
    provenance: Provenance


class Task(_Task, total=False):
    """A data folder, a question, a metric and thresholds."""

    answer_target: list[str]
    answer_parse: Parse
    answer_separator: str
    answer_fields: list[str]
    answer_empty_marker: str
    answer_several_rows: bool
    leaderboard: str
    public_leaderboard: str
    thresholds: Thresholds


class _Policy(TypedDict):
    model: str
    version: str | int | None
    sampling: dict[str, Any]


class Policy(_Policy, total=False):
    """The model that acted, its version and sampling options."""

    waited_s: float


class _Message(TypedDict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Message(_Message, total=False):
    """One chat message, with token ids and log-probabilities where the policy sampled it."""

    token_ids: list[int]
    logprobs: list[float]
    loss: bool
    policy_version: int
    prompt_token_ids: list[int]
    reasoning: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str


class Usage(TypedDict):
    """Tokens, seconds and cost of model calls."""

    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    usd: float | None


class LongText(TypedDict):
    """The head and the tail of a long output, and its size in bytes."""

    head: str
    tail: str
    bytes: int


class SubmissionFile(TypedDict):
    """A stored submission file and its digest."""

    file: str
    digest: str
    bytes: int


class _Execution(TypedDict):
    status: ExecutionStatus
    exit_code: int | None
    duration_s: float
    cpu_s: float | None
    peak_memory_mb: float | None
    stdout: LongText
    stderr: LongText
    markers: list[str]
    submission: SubmissionFile | None
    submission_problem: str | None
    backend: str | None
    start: Literal["warm", "cold"] | None
    gpu: str | None
    protections: dict[str, bool]
    limits: dict[str, Any]


class Execution(_Execution, total=False):
    """One run of a program in a sandbox."""

    by: Literal["mle-rollout", "mle-sandbox"]
    watched: list[str]


class Cell(TypedDict):
    """One execution in a live session."""

    status: CellStatus
    output: LongText
    duration_s: float
    alive: bool


class Feedback(TypedDict):
    """The validation score shown to the agent."""

    valid: bool
    reason: str | None
    score: float | None


class _TurnGrade(TypedDict):
    valid: bool


class TurnGrade(_TurnGrade, total=False):
    """The grade of a turn's submission on the test answers."""

    reason: str | None
    score: float | None
    medal: Medal | None
    above_median: bool
    position: int | None
    human_rank: float | None
    human_rank_rule: RankRule | None
    normalised_score: float | None
    metric_error: str


class _Hypothesis(TypedDict):
    text: str


class Hypothesis(_Hypothesis, total=False):
    """A hypothesis that was considered and not selected."""

    component: str | None
    scores: dict[str, float] | None


class Trial(TypedDict, total=False):
    """A debug run or an earlier full run of a node's program."""

    status: str | None
    problem: str | None
    estimated_s: float | None
    duration_s: float | None


class PhaseUsage(TypedDict):
    """Usage of the research and the development phase."""

    research: Usage
    develop: Usage


class _SearchNode(TypedDict):
    number: int
    parents: list[int]
    branch: int
    depth: int
    repairs: int
    round: int
    stage: Literal["draft", "improvement", "ensemble", "merge"]
    hypothesis: str
    component: Component | None
    score: float | None
    lesson: str
    trials: list[Trial]
    elapsed_s: float
    cost: PhaseUsage


class AnswerNote(TypedDict):
    """An answer that was read leniently, or was replaced by a default: the question's prompt, and how."""

    question: str
    what: str


class SearchNode(_SearchNode, total=False):
    """A node of a search's exploration graph."""

    why: str
    challenge: str | None
    origin: Literal["scenario", "feedback"] | None
    scores: dict[str, float]
    action: Literal["select", "modify", "create"] | None
    considered: list[Hypothesis]
    recalled: list[int]
    challenges: list[str]
    lenient: list[AnswerNote]
    fallbacks: list[AnswerNote]


class TurnFormat(TypedDict):
    """How a message was read: in the exact form, by a lenient rule, or not, for a reason."""

    read: Literal["exact", "lenient", "none"]
    rule: str | None


class _Turn(TypedDict):
    action: str
    duration_s: float


class Turn(_Turn, total=False):
    """One message of the policy and its consequences."""

    message: int
    problem: ReplyProblem | RunProblem | None
    format: TurnFormat
    dropped: list[int]
    finish_reason: Literal["content_filter", "refusal"]
    usage: Usage
    code: str | None
    execution: Execution
    cell: Cell
    submission: SubmissionFile | None
    validation: Feedback | None
    shown_score: float
    grade: TurnGrade | None
    help: dict[str, Any]
    node: SearchNode


class StartState(TypedDict, total=False):
    """The state from which an agent resumed earlier work."""

    score: float | None
    validation: float | None
    code: str | None
    query: dict[str, Any] | None
    rollout: str
    turn: int


class Candidate(TypedDict, total=False):
    """A node considered for the final submission, with its scores."""

    node: int
    score: float | None
    holdout: float | None


class _Search(TypedDict):
    preset: str
    components: dict[str, dict[str, Any]]
    chosen: int | None
    how: str
    candidates: list[Candidate]
    budget: dict[str, float | None]
    elapsed_s: float
    cost: PhaseUsage


class Search(_Search, total=False):
    """Components, budget, cost and final choice of a search, and how its answers were read."""

    lenient: dict[str, int]
    fallbacks: dict[str, int]


class SearchStep(TypedDict):
    """The search, node and operation that a step belongs to."""

    search: str
    node: int
    operation: str
    phase: Phase
    role: str


class Sites(TypedDict):
    """Calls and statements that the sandbox observes, by number."""

    calls: Any
    places: Any


class _Instrumentation(TypedDict):
    code: str | None
    nonce: str | None
    markers: list[str]
    problem: str | None


class Instrumentation(_Instrumentation, total=False):
    """The instrumented program and its expected markers."""

    mode: Literal["ast", "lm"] | None
    model: str
    refusal: str | None
    usage: Usage
    sites: Sites | None


class RewardRule(TypedDict, total=False):
    """The reward rule and its value for failures."""

    rule: str
    failure: float | None
    clamped: bool
    scale: Literal["thresholds"]


class _Judged(Feedback):
    medal: Medal | None
    above_median: bool
    metric: str
    lower_is_better: bool
    digest: str | None


class _Standing(TypedDict, total=False):
    thresholds: dict[str, float] | None
    position: int | None
    teams: int | None
    public_position: int | None
    public_teams: int | None
    human_rank: float | None
    human_rank_rule: RankRule | None
    normalised_score: float | None
    metric_error: str


class _Grade(_Judged):
    reward: RewardRule


class Grade(_Grade, _Standing):
    """The verdict on a rollout's submission: validity, score, medal, leaderboard position, and the reward's rule."""


class _IdeaType(TypedDict):
    turn: int
    type: IdeaCategory | None
    rationale: str
    by: str
    effective: bool | None


class IdeaType(_IdeaType, total=False):
    """The category of one idea."""

    usage: Usage


class Reference(TypedDict):
    """The earlier submission that a step's gain is measured against."""

    of: Literal["previous", "state"]
    score: float
    human_rank: float | None
    human_rank_rule: RankRule | None


class StepOrigin(TypedDict):
    """The rollout and turns that a cut-out step comes from."""

    rollout: str
    group: str
    sample: int
    step: int
    turns: list[int]
    reference: Reference | None


class _FilterDecision(TypedDict):
    kept: bool
    reason: str | None


class FilterDecision(_FilterDecision, total=False):
    """The decision of a filter and the values behind it."""

    masked: list[int]
    tau_abs: float
    gain: float
    validation_rank: float
    normalised: float
    arrived: int
    members: int
    reward: float


class _Refit(TypedDict):
    used: bool


class Refit(_Refit, total=False):
    """The run of the final program on all training rows; its execution where that is not used."""

    execution: Execution


class _Rollout(_Record):
    kind: Literal["rollout"]
    task: Task
    group: str
    group_size: int
    sample: int
    seed: int
    scaffold: str
    policy: Policy
    messages: list[Message]
    turns: list[Turn]
    usage: Usage
    stop_reason: StopReason
    code: str | None


class Rollout(_Rollout, total=False):
    """One agent's work on one task, with its execution, grade and reward."""

    usage_by_role: dict[str, Usage]
    state: StartState
    trace: Literal["reset", "memory"]
    search: Search
    step: SearchStep
    validation: Feedback | None
    format_rate: float
    idea: dict[str, Any] | None
    implementer: dict[str, Any] | None
    settings: dict[str, Any]
    refit: Refit
    no_validation: str
    reveal_test: bool
    instrument: Instrumentation
    execution: Execution
    grade: Grade
    idea_types: list[IdeaType]
    reward: float | None
    cut: StepOrigin
    filter: FilterDecision


class _TrainStep(_Record):
    kind: Literal["train_step"]
    algorithm: AlgorithmName
    step: int
    loss: float | None
    reward_mean: float | None
    reward_std: float | None
    grad_norm: float | None
    tokens: int
    rollouts: int
    groups: int
    duration_s: float
    policy_version: int


class TrainStep(_TrainStep, total=False):
    """One optimiser step."""

    engine: Literal["prime-rl"]
    engine_version: int | None
    engine_waited_s: float
    learning_rate: float
    staleness: float | None
    staleness_max: int | None
    sequences: int
    retokenized: int
    rollout_s: float
    weighted: bool
    weight_max: float | None
    lost: int
    in_flight: int
    received: int
    waiting: int
    waited_s: float
    elapsed_s: float
    sampler_waited_s: float | None
    entropy: float
    sampler_kl: float
    effective_sample_size: float
    clipped_share: float
    masked_share: float
    largest_ratio: float
    padding_share: float
    shared_share: float
    micro_batches: int
    sequence_tokens: int
    tokens_per_s: float
    mfu: float
    validation_reward: float
    checkpoint: str | None


class SubmissionVerdict(_Record, _Judged, _Standing):
    """The verdict on one submission, without a rollout."""

    kind: Literal["verdict"]
    task: str
    submission: str


class Reject(_Record):
    """An input line that could not be processed."""

    kind: Literal["reject"]
    source: str
    line_number: int
    reason: str
    line: str
