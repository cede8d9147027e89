"""A rollout: one agent's work on one task, and what came of it; the verdict on a submission alone."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from .common import Count, Id, JsonValue, Lineage, LongText, Name, NonNegative, Positive, Share
from .task import Task, Thresholds

CellStatus = Literal["ok", "error", "timeout", "memory", "disk", "output", "killed"]
ExecutionStatus = Literal["ok", "error", "timeout", "memory", "disk", "output", "killed", "no_code"]
Medal = Literal["gold", "silver", "bronze"]
RankRule = Literal["dojo", "mle-rl"]
ReplyProblem = Literal["length", "missing", "several", "malformed", "unknown", "early", "unanswered", "no_code"]
RunProblem = Literal["debug", "slow", "failed", "invalid", "inauthentic", "no_score"]
Component = Literal["DataLoadSpec", "FeatureEng", "Model", "Ensemble", "Workflow"]
Phase = Literal["research", "develop"]
StopReason = Literal["finished", "length", "format", "max_turns", "context", "timeout", "budget", "asked"]
IdeaCategory = Literal[
    "Data Preparation", "Feature Engineering", "Model Architecture", "Hyperparameter Tuning", "Model Training", "Others"
]


class Policy(TypedDict):
    """The model that acted, its version and sampling options."""

    model: str
    version: str | int | None
    sampling: dict[str, Any]
    """As the server was really sent it: temperature and top_p (null: not sent, the server's own value), max_tokens,
    options, the fields of --model-option (null: the server refused it), and response_format, the type in which
    answers in JSON were last asked for (null: none)."""

    waited_s: NotRequired[NonNegative]
    """--forever --follow: seconds that the sampler had been idle by then, waiting for newer policies."""


class CalledFunction(TypedDict, total=False):
    """The function of a tool call; arguments: as the model wrote them, JSON if it follows the protocol."""

    name: str
    arguments: str


class MessageCall(TypedDict, total=False):
    """A tool call of the chat protocol. extra_content: what the server wants back with it."""

    id: str
    type: str
    function: CalledFunction
    extra_content: dict[str, JsonValue]


class Message(TypedDict):
    """One chat message, with token ids and log-probabilities where the policy sampled it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    token_ids: NotRequired[list[Count]]
    logprobs: NotRequired[list[Annotated[float, Meta(le=0)]]]
    """Natural log, of the distribution sampled from; as many as token_ids."""

    loss: NotRequired[bool]
    """true: sampled by the policy, may be trained on."""

    policy_version: NotRequired[Count]
    """The policy that sampled it, where mle-rollout follows one in training (--follow)."""

    prompt_token_ids: NotRequired[list[Count]]
    """All that the policy saw before this message of its own, where that is not what the ids before it amount to: a
    new sequence begins."""

    reasoning: NotRequired[str]
    """What the server set apart from content."""

    tool_calls: NotRequired[list[MessageCall]]
    """As of the chat protocol."""

    tool_call_id: NotRequired[str]


class PlainMessage(TypedDict):
    """A message in a line of chat data that is no record of ours, as servers and other libraries spell it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: NotRequired[str | list[dict[str, JsonValue]] | None]
    """A list: parts, of which only text can be read here."""

    reasoning_content: NotRequired[str | None]
    tool_calls: NotRequired[list[dict[str, JsonValue]] | None]
    tool_call_id: NotRequired[str | None]


class PlainConversation(TypedDict):
    """A line of chat data that is no record of ours; other fields pass."""

    messages: Annotated[list[PlainMessage], Meta(min_length=1)]


class TurnFormat(TypedDict):
    """How a message was read: in the exact form, by a lenient rule, or not, for a reason."""

    read: Literal["exact", "lenient", "none"]
    """exact: in the form that the prompt asks for; lenient: in another form that is clear; none: not."""

    rule: str | None
    """The leniency, or why it could not be read; null of an exact reading."""


class Usage(TypedDict):
    """Tokens, seconds and cost of model calls."""

    prompt_tokens: Annotated[int, Meta(ge=0, le=1000000000000000)] | None
    completion_tokens: Annotated[int, Meta(ge=0, le=1000000000000000)] | None
    seconds: Annotated[float, Meta(ge=0, le=1000000000000)]
    usd: Annotated[float, Meta(ge=0, le=1000000000000)] | None


class SubmissionFile(TypedDict):
    """A stored submission file and its digest."""

    file: str
    digest: str
    bytes: Count


class Machine(TypedDict):
    """The machine that a program ran on; what it could use of it, the limits say."""

    cpu: str
    """The processor's model, or its architecture where the kernel names no model."""

    cores: Positive
    """Processors that the sandbox could use."""

    memory_gb: Count | None
    """GB are 2**30 bytes, rounded."""

    gpu: str | None
    """The model of the card that the program had to itself."""


class Execution(TypedDict):
    """One run of a program in a sandbox."""

    by: NotRequired[Literal["mle-rollout", "mle-sandbox", "harbor"]]
    """The command that ran the program; harbor: a job of Harbor's, whose box is not ours."""

    status: ExecutionStatus
    exit_code: int | None
    duration_s: NonNegative
    cpu_s: NonNegative | None
    """null: of a session, where nobody counted."""

    peak_memory_mb: NonNegative | None
    stdout: LongText
    """A long output: its beginning, its end, and how long it was."""

    stderr: LongText
    """A long output: its beginning, its end, and how long it was."""

    markers: list[str]
    """The reports that arrived."""

    watched: NotRequired[list[str]]
    """The reports that could arrive, where the sandbox watched the calls; absent: not instrumented, or plain
    markers, which a program can print."""

    submission: SubmissionFile | None
    submission_problem: str | None
    backend: str | None
    """Null where nothing ran."""

    start: Literal["warm", "cold"] | None
    """warm: forked from a process with the libraries loaded."""

    gpu: str | None
    """The device that it had to itself."""

    protections: dict[str, bool]
    """Those that were really active."""

    machine: NotRequired[Machine | None]
    """null: nothing ran; absent in older records."""

    limits: dict[str, float | None]


class Cell(TypedDict):
    """One execution in a live session."""

    status: CellStatus
    output: LongText
    """A long output: its beginning, its end, and how long it was."""

    duration_s: NonNegative
    alive: bool
    """false: the session ended with it, and its state was lost."""


class Feedback(TypedDict):
    """The validation score shown to the agent."""

    valid: bool
    reason: str | None
    score: float | None


class TurnGrade(TypedDict):
    """The grade of a turn's submission on the test answers."""

    valid: bool
    reason: NotRequired[str | None]
    score: NotRequired[float | None]
    medal: NotRequired[Medal | None]
    above_median: NotRequired[bool]
    position: NotRequired[Positive | None]
    human_rank: NotRequired[Share | None]
    human_rank_rule: NotRequired[RankRule | None]
    normalised_score: NotRequired[NonNegative | None]
    metric_error: NotRequired[str]


class Hypothesis(TypedDict):
    """A hypothesis that was considered and not selected."""

    text: str
    component: NotRequired[str | None]
    scores: NotRequired[dict[str, float] | None]


class AnswerNote(TypedDict):
    """An answer that was read leniently, or was replaced by a default: the question's prompt, and how."""

    question: str
    """The prompt file."""

    what: str


class Trial(TypedDict):
    """A debug run or an earlier full run of a node's program."""

    debug: NotRequired[bool]
    status: NotRequired[str | None]
    problem: NotRequired[str | None]
    estimated_s: NotRequired[float | None]
    duration_s: NotRequired[NonNegative | None]


class PhaseUsage(TypedDict):
    """Usage of the research and the development phase."""

    research: Usage
    develop: Usage


# How a node is made: without parents; from one that works, or one that failed; from two; from the best of branches.
Operation = Literal["draft", "improve", "debug", "crossover", "merge"]
Stage = Literal["draft", "improvement", "ensemble", "merge"]  # of a search, by the share of its budget that is used
Origin = Literal["scenario", "feedback"]
Choosing = Literal["select", "modify", "create"]


class SearchNode(TypedDict):
    """A node of a search's exploration graph."""

    number: Count
    parents: list[Count]
    """The first is the one whose branch it goes on."""

    branch: Count
    """The number of the draft that it descends from."""

    depth: Count
    repairs: Count
    """Debug steps in a row that led to it."""

    round: Count
    """The nodes of a round were made at once."""

    stage: Stage
    hypothesis: str
    component: Component | None
    why: NotRequired[str]
    """The turn's problem in words."""

    challenge: NotRequired[str | None]
    """That the hypothesis answers."""

    origin: NotRequired[Origin | None]
    """Where the challenge comes from."""

    scores: NotRequired[dict[str, float]]
    """Of the hypothesis: alignment, impact, novelty, feasibility, risk_reward, each from 1 to 10."""

    action: NotRequired[Choosing | None]
    """How the hypothesis came out of the candidates."""

    considered: NotRequired[list[Hypothesis]]
    """The other hypotheses, best first: text, component, scores."""

    recalled: NotRequired[list[Count]]
    """Earlier nodes that it was weighed against."""

    challenges: NotRequired[list[str]]
    lenient: NotRequired[list[AnswerNote]]
    """Answers that were not in the form asked for and could be read; absent: none."""

    fallbacks: NotRequired[list[AnswerNote]]
    """What a default replaced, because no answer could be read; absent: nothing."""

    score: float | None
    """What the search went by."""

    lesson: str
    supported: NotRequired[bool | None]
    """Whether the result supports the hypothesis, as the lesson's author judges; null: it was not judged."""

    trials: list[Trial]
    """The runs ahead of the last: debug, status, duration_s, problem, estimated_s."""

    elapsed_s: NonNegative
    """Seconds on the search's clock when the node's round was done."""

    began_s: NotRequired[NonNegative]
    """Seconds on the search's clock when it was begun, where workers began nodes one by one; absent: with its round."""

    cost: PhaseUsage
    """What the research and the development phase used."""


class Help(TypedDict, total=False):
    """What the ideator was asked and what it said; refused: why it could not be asked (its context)."""

    said: str
    refused: str
    query: dict[str, str]
    answer: str
    idea: dict[str, str] | None
    model: str


class Turn(TypedDict):
    """One message of the policy and its consequences."""

    action: str
    """solve, improve, python, bash, score, seek_help, idea, request_info, validate_code, execute_code, answer,
    finish; agent: what somebody else's agent did with it; none where there was no one action to take. Of a search draft, improve, debug, crossover, merge; of
    its steps what was asked."""

    duration_s: NonNegative
    """Seconds of asking and of running together."""

    message: NotRequired[Count]
    """The policy's message, by its place in messages."""

    problem: NotRequired[ReplyProblem | RunProblem | None]
    """Why the message was answered with a correction: cut off; no action; more than one; one that cannot be read;
    one that does not exist; the end before there is anything to hand in. Why a search's node does not count: no
    answer that can be read; no program; no debug run passed; the full run would take too long; it failed; its
    submission is invalid; or no model's prediction; it has no score."""

    finish_reason: NotRequired[Literal["content_filter", "refusal"]]
    """Why the message holds no answer: the server's filter, or the model declined; absent otherwise."""

    format: NotRequired[TurnFormat]
    """How the message was read."""

    dropped: NotRequired[list[Count]]
    """Messages that the policy no longer saw from this turn on, by their places."""

    usage: NotRequired[Usage]
    code: NotRequired[str | None]
    """What was run."""

    execution: NotRequired[Execution]
    cell: NotRequired[Cell]
    """What ran in a session that lives through the rollout: python or bash."""

    submission: NotRequired[SubmissionFile | None]
    """The file that lay there after the turn, where it was not the one that lay there before."""

    submission_problem: NotRequired[str | None]
    """Of a session: why there is no file."""

    validation: NotRequired[Feedback | None]
    """The verdict on the validation rows; whether its score was shown, shown_score says."""

    shown_score: NotRequired[float]
    """The score as the agent was shown it, rounded to settings.score_digits, in the turn that showed it first (of a
    search: to the models of later nodes); absent where none was shown, or one again."""

    reported_score: NotRequired[float]
    """Scaffold memory, ranked by validation, where no rows could be held out: the validation score that the program printed
    of its own."""

    grade: NotRequired[TurnGrade | None]
    """The verdict on the test answers; shown with --reveal-test only."""

    help: NotRequired[Help]

    node: NotRequired[SearchNode]
    """Of a search: the node of the exploration graph that the turn is."""


class StartState(TypedDict):
    """The state from which an agent resumed earlier work."""

    score: NotRequired[float | None]
    """On the test answers, of the solution at hand then; null: there was no valid one."""

    validation: NotRequired[float | None]
    """Its validation score, which the agent knew."""

    reported_score: NotRequired[float]
    """The validation score that its program printed, where no rows could be held out."""

    code: NotRequired[str | None]
    """The solution at hand."""

    query: NotRequired[dict[str, str] | None]
    """What the implementer asked its ideator."""

    rollout: NotRequired[str]
    """Id of the rollout that it comes from."""

    turn: NotRequired[Count]


class Candidate(TypedDict):
    """A node considered for the final submission, with its scores."""

    node: NotRequired[Count]
    score: NotRequired[float | None]
    holdout: NotRequired[float | None]


class SearchComponent(TypedDict, total=False):
    """A component of a search, and its constants."""

    name: str | None
    constants: Mapping[str, bool | int | float | str]


SearchEnd = Literal["nodes", "seconds", "tokens", "usd", "too_late", "user", "paths"]


class Search(TypedDict):
    """Components, budget, cost and final choice of a search, and how its answers were read."""

    preset: str
    components: dict[str, SearchComponent]
    """Name and constants, by kind: planning, paths, reasoning, memory, coding, evaluation."""

    chosen: Count | None
    """The node; null: none was fit."""

    how: str
    """It was chosen, in words."""

    candidates: list[Candidate]
    """Node, score, and holdout: the score on the selection rows; best first."""

    evaluation_asked: NotRequired[str]
    """The evaluation that was asked for, where no rows could be held out, so that the search went by the scores that
    programs print of themselves; absent: components has it."""

    ensemble: NotRequired[list[Count]]
    """What is handed in is made of the submissions of these nodes, best first; code is the chosen node's. Absent: it is the
    chosen node's."""

    taken_over: NotRequired[Positive]
    """Nodes that it began with, from another graph (--from-graph); the sums of time and cost have theirs. Absent: none."""

    ended: NotRequired[SearchEnd]
    """Why no further node was begun: a bound of its budget was reached (nodes, seconds, tokens, usd); too_late: less time was
    left than a node (in rounds: a round) has taken on average; user: who ended it early; paths: which had nothing to begin.
    Absent: it goes on, or an earlier version made it."""

    clock: NotRequired[Literal["wall", "work"]]
    """What seconds of the search are: of the wall clock, with waiting and without the time between a kill and a resume;
    or of its model calls and runs, where concurrent work counts as its longest. Absent in older records: work."""

    budget: dict[str, float | None]
    """Seconds, nodes, usd; null: no bound."""

    elapsed_s: NonNegative
    """Seconds on the search's clock; cost and usage have those of all parts together."""

    cost: PhaseUsage
    """What the research and the development phase used."""

    lenient: NotRequired[dict[str, Positive]]
    """Answers that were read leniently, by question, in nodes and outside of them; absent: none."""

    fallbacks: NotRequired[dict[str, Positive]]
    """Values that a default replaced, by question; absent: none."""


class SearchStep(TypedDict):
    """The search, node and operation that a step belongs to."""

    search: str
    node: Count
    operation: str
    phase: Phase
    role: str


class Refit(TypedDict):
    """The run of the final program on all training rows; its execution where that is not used."""

    used: bool
    """true: execution is that run; false: it left no valid submission."""

    execution: NotRequired[Execution]
    """The run that was not used."""


class Instrumentation(TypedDict):
    """The instrumented program and its expected markers."""

    code: str | None
    nonce: str | None
    """Empty: plain markers."""

    markers: list[str]
    """The reports that were inserted."""

    problem: str | None
    """Why nothing was inserted."""

    mode: NotRequired[Literal["ast", "lm"] | None]
    """Who inserted them; null: nobody."""

    model: NotRequired[str]
    """Who was asked."""

    refusal: NotRequired[str | None]
    """Why the model's answer was not taken."""

    usage: NotRequired[Usage]
    """What asking it took."""

    sites: NotRequired[dict[str, list[list[JsonValue]]] | None]
    """Where mle-sandbox watches the program, by numbers of calls and statements in the order of Python's ast.walk."""


class RewardRule(TypedDict):
    """The reward rule and its value for failures."""

    rule: NotRequired[str]
    failure: NotRequired[float | None]
    clamped: NotRequired[bool]
    """Partial-credit: a valid score's reward was raised to the best failure's."""

    scale: NotRequired[Literal["thresholds"]]
    """The score was scaled: (score - median) / (gold - median)."""

    markers: NotRequired[Count]
    """Partial-credit: the reports that arrived."""

    previous: NotRequired[float | None]
    """Improvement: the score that the state had."""

    well_formed: NotRequired[bool]
    """Improvement: the rollout ended by itself."""

    format_rate: NotRequired[Share]
    """Milestone: the share of messages in the demanded format."""


class Standing(TypedDict):
    """A submission's validity, score, medal and leaderboard position."""

    valid: bool
    reason: str | None
    """Why it is invalid, in words an agent can act on."""

    score: float | None
    medal: Medal | None
    above_median: bool
    """Strictly; false without thresholds."""

    thresholds: NotRequired[Thresholds | None]
    """Median, bronze, silver, gold: the task's own, or its leaderboard's."""

    position: NotRequired[Positive | None]
    """1 + the teams that are strictly better, on the private leaderboard where there are two."""

    teams: NotRequired[Positive | None]
    """null: the task has no leaderboard."""

    public_position: NotRequired[Positive | None]
    public_teams: NotRequired[Positive | None]
    human_rank: NotRequired[Share | None]
    human_rank_rule: NotRequired[RankRule | None]
    """null: the task has no leaderboard."""

    normalised_score: NotRequired[NonNegative | None]
    """Max(0, 100 (score - worst) / (best - worst)) of the leaderboard."""

    metric_error: NotRequired[str]
    """Invalid, because a metric that is code fails on this file and scores one that is known to be good: how it
    fails; never shown to an agent, as it may quote answers."""


class Graded(Standing):
    """The verdict on a submission, and the metric that it is by."""

    metric: str
    """Its name, or the file of one that is code."""

    lower_is_better: bool
    digest: str | None
    """Of the submission that was graded."""


class Grade(Graded):
    """The verdict on a rollout's submission: validity, score, medal, leaderboard position, and the reward's rule."""

    reward: RewardRule
    """How the reward was made."""


class IdeaType(TypedDict):
    """The category of one idea."""

    turn: Count
    """Its place in turns."""

    type: IdeaCategory | None
    """null: the model's answer cannot be read."""

    rationale: str
    """Why this type, or why none."""

    by: str
    """Keywords, or the model's name."""

    effective: bool | None
    """Whether the work got a better test score with it; null: nobody knows."""

    usage: NotRequired[Usage]
    """By a model: what asking it took."""


class HumanRank(TypedDict):
    """The share of a leaderboard's teams that a score leaves behind; null without a leaderboard."""

    human_rank: Share | None
    human_rank_rule: RankRule | None


class ReferenceScore(TypedDict):
    """The score that a step's gain is measured against."""

    of: Literal["previous", "state"]
    """The valid submission before it, or what its trace began from."""

    score: float


class Reference(ReferenceScore, HumanRank):
    """The earlier submission that a step's gain is measured against."""


class StepOrigin(TypedDict):
    """The rollout and turns that a cut-out step comes from."""

    rollout: str
    """Its id; the rollout's group and sample follow, for a step is a group of its own."""

    group: str
    sample: Count
    step: Positive
    steps: NotRequired[Positive]
    """How many steps the rollout was cut into: a trainer counts each as that part of a rollout."""

    turns: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    """The first and the last turn of the step; those before are its history."""

    reference: Reference | None
    """What its gain is measured from; null: the first step of a trace from scratch."""


class FilterDecision(TypedDict):
    """The decision of a filter and the values behind it."""

    kept: bool
    reason: str | None
    masked: NotRequired[list[Count]]
    """Messages that must not carry loss, by their places."""

    tau_abs: NotRequired[float]
    """The least reward in the top share of the task."""

    gain: NotRequired[Annotated[float, Meta(ge=-1, le=1)]]
    """Human rank less the reference's."""

    validation_rank: NotRequired[Share]
    """Human rank of the score that was told."""

    normalised: NotRequired[float]
    """Reward less the running mean."""

    arrived: NotRequired[Positive]
    """Rollouts of the group that had come when it was decided on."""

    members: NotRequired[Count]
    """How many of these are kept."""

    reward: NotRequired[float]
    """1 above the running mean, else 0, or the reward less it; takes the place of the rollout's reward in training."""


class HarborTrial(TypedDict):
    """The trial of a Harbor job that a rollout was imported from."""

    name: str
    agent: str
    agent_version: str | None
    rewards: dict[str, float]
    """As the job's verifier gave them, by name. Nothing here goes by them; mle-grade tells where it differs."""

    exception: str | None
    """The kind of error that ended it."""


class Implementer(TypedDict, total=False):
    """The model that carried an idea out. refused: why it could not be asked (its context)."""

    model: str | None
    messages: list[Message]
    refused: str
    usage: Usage


class RolloutHead(TypedDict):
    """What is known of a rollout before anything is asked."""

    kind: Literal["rollout"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    task: Task
    group: Name
    """The rollouts of one group answer the same prompt: their rewards are compared."""

    group_size: Annotated[int, Meta(ge=1, le=100000)]
    sample: Count
    """Index within the group."""

    seed: int
    scaffold: str
    policy: Policy


class RolloutBody(TypedDict):
    """What came of a rollout."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    """Token_ids of all messages, concatenated, are the exact sequence the policy saw and wrote."""

    turns: list[Turn]
    """Each message of the policy, and what came of it."""

    usage: Usage
    usage_by_role: NotRequired[dict[str, Usage]]
    """What the answers of each model used, by its role: policy, ideator, implementer, researcher, developer; seconds
    are of asking alone, without programs; absent: not known."""

    state: NotRequired[StartState]
    """Where the agent took up the work, if not at the beginning."""

    trace: NotRequired[Literal["reset", "memory"]]
    """Scaffold memory: begun from scratch, or from a solution of the pool."""

    trace_number: NotRequired[Count]
    """Scaffold memory: the traces that its run made before it; absent in older records."""

    search: NotRequired[Search]
    """Of a search: its components, budget and cost, and how the node was chosen whose submission was handed in."""

    step: NotRequired[SearchStep]
    """Of a step of a search: the search, its node, and what was asked."""

    validation: NotRequired[Feedback | None]
    """The score of what was handed in, as the agent was shown it."""

    format_rate: NotRequired[Share]
    """Share of the policy's messages in the demanded format."""

    idea: NotRequired[dict[str, str] | None]
    """Scaffold idea: analysis, action, rationale; null: not in the format."""

    implementer: NotRequired[Implementer | None]
    """Scaffold idea: the model that carried the idea out, its messages and usage."""

    settings: NotRequired[dict[str, Any]]
    """The scaffold's, defaults filled in."""

    refit: NotRequired[Refit]
    """With --refit: the program was run again on all training rows at the end."""

    no_validation: NotRequired[str]
    """Why no validation rows could be held out of the task: settings.validation is 0, and the agent saw no score (a
    search those that its programs print)."""

    reported_score: NotRequired[float]
    """Of what was handed in, where no rows could be held out and the memory is ranked by validation: the validation score
    that the program printed of its own. Programs of one task need not measure it on the same rows."""

    reveal_test: NotRequired[bool]
    """true: the agent was shown scores on the test answers (default false)."""

    stop_reason: StopReason
    """Length: the one answer was cut off, or the tokens of the episode are used up; format: it is
    not in the required form, though a program may have been read; timeout: of the episode; budget: USD; asked: a state, from which other work begins."""

    plan: NotRequired[str]
    """Scaffold single: the text ahead of the program."""

    prompt_limits: NotRequired[str]
    """Scaffold single: the limits of its program, as the prompt states them; mle-sandbox says where its own are others."""

    code: str | None
    """The solution as the agent wrote it; null when it wrote none, or somebody else's agent wrote what nobody saw."""

    trial: NotRequired[HarborTrial]
    """Where mle-import took it from."""

    instrument: NotRequired[Instrumentation]
    execution: NotRequired[Execution]
    grade: NotRequired[Grade]
    idea_types: NotRequired[list[IdeaType]]
    """The ideas of an ideator's that stand in turns or idea, sorted by mle-classify-ideas."""

    reward: NotRequired[float | None]
    """null: this rule has no reward for such a rollout."""

    cut: NotRequired[StepOrigin]
    """Of a step that mle-filter --cut-steps cut out of a rollout in turns: where it comes from."""

    filter: NotRequired[FilterDecision]


class Rollout(RolloutHead, RolloutBody):
    """One agent's work on one task, with its execution, grade and reward."""


class VerdictHead(TypedDict):
    """The submission that a verdict is on."""

    kind: Literal["verdict"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    task: str
    """The task's id."""

    submission: str
    """The file's name as it was given."""


class SubmissionVerdict(VerdictHead, Graded):
    """The verdict on one submission, without a rollout."""

    reward: NotRequired[float | None]
    """By the rule of --reward, as of a rollout that ended in form; null: the rule has none."""
