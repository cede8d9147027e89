"""The scripted model as an agent: what its personas say in every role, in hand-made conversations and in the real scaffolds."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_nightly, records, run_command

from mletools.base.errors import ToolError
from mletools.base.ids import derive_seed
from mletools.models import Reply, Request, open_model
from mletools.scaffolds import codeact, idea_types, memory, react
from mletools.scaffolds.ideas import FIXED, QUERY, as_text, idea_and_format, question
from mletools.scaffolds.reading import Action, Fault, as_functions, read_action, read_answer, split_answer
from mletools.simulated import PERSONAS, conversation, hostile, ideas, tinkerer
from mletools.simulated.answers import choice_of
from mletools.simulated.recipes import MODELS, Recipe, changed, recipe_of, usable
from mletools.solutions import FAULTS, VALID, choices, program
from mletools.solutions.bank import with_fault

TASK: dict[str, Any] = {
    "id": "t", "name": "table", "description": "A table.", "problem": "binary_classification", "modality": "tabular",
    "data": {"dir": "t", "public": ["sample_submission.csv", "test.csv", "train.csv"]},
    "submission": {"id": ["id"], "target": ["target"], "parse": "number", "rows": 9},
    "metric": {"name": "auroc", "params": {}, "lower_is_better": False},
}  # fmt: skip
LOWER = {**TASK, "id": "lower", "metric": {"name": "rmse", "params": {}, "lower_is_better": True}}
TOOLS = {
    "react": react.TOOLS,
    "codeact": (*codeact.TOOLS[:2], codeact.ASKING, codeact.TOOLS[2]),
    "memory": memory.TOOLS,
}
POLICIES = list(TOOLS)
HELP = "<seek_help>\nPROBLEM_STATEMENT:\n...\n</seek_help>"
DONE = Reply("I am done.", prompt_tokens=0, completion_tokens=3)  # of the lazy agent, to no messages
Advise = Callable[[list[dict[str, Any]]], str]


def code_of(level: str, number: int = 0, task: dict[str, Any] = TASK) -> str:
    return program(task, [choice for choice in choices(task) if choice.level == level][number])


def read(role: str, reply: Reply) -> Action | Fault:
    """What the real scaffold takes a reply for."""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
    said = {"text": reply.text, "finish_reason": reply.finish_reason, "tool_calls": calls}
    if role == "react":
        return read_action(said, react.TOOLS, react._body, ("tool_call", "answer"))
    return read_action(said, TOOLS[role])


def worth(code: str, task: dict[str, Any] = TASK) -> float:
    """A made-up score of a program: its place in the bank, or what is in its recipe."""
    if recipe := recipe_of(code):
        return len(recipe.steps) + 0.1 * recipe.seeds + 0.01 * list(MODELS).index(recipe.model)
    choice = choice_of(task, code)
    assert choice
    place = choices(task).index(choice)
    return 100.0 - place if task["metric"]["lower_is_better"] else float(place)


def seen(role: str, action: Action | Fault, state: dict[str, Any], task: dict[str, Any], advise: Advise) -> str:
    """What a scaffold would say of an action, without running anything."""
    if isinstance(action, Fault):
        return f"{action.explanation}\n\nTake exactly one action."
    if action.name == "Score":
        return str(state["judged"])
    if action.name == "seek_help":
        return advise(state["messages"])
    code = next(iter(action.fields.values()), "")
    if action.name in ("execute_bash", "request_info") or "submission.csv" not in code:
        return "id,x,target"
    choice, recipe = choice_of(task, code), recipe_of(code)
    assert choice or recipe, code
    right = program(task, choice) if choice else tinkerer.text_of(task, recipe)
    direction = "lower is better" if task["metric"]["lower_is_better"] else "higher is better"
    judged = f"submission.csv is valid. score on the validation rows: {worth(code, task):g} ({direction})."
    if code.strip() != right.strip():
        wrong = code.replace(" ", "")
        if any(each in wrong for each in ("head(len", "iloc[:,:-1]", "[sub,sub]", "header=False")):
            judged = "submission.csv is invalid: another number of rows"
        else:
            return "The program failed with exit code 1 after 0.3 s.\n\nstderr:\nTraceback (most recent call last):"
    state["judged"] = judged
    ran = "The program ended normally after 0.4 s.\n\nIt printed nothing."
    return f"{ran}\n\nsubmission.csv was written (90 bytes)." if role == "react" else f"{ran}\n\n[{judged}]"


def episode(
    role: str,
    spec: str = "scripted",
    seed: int = 0,
    turns: int = 15,
    tools: bool = False,
    task: dict[str, Any] = TASK,
    advise: Advise | None = None,
    told: str = "",
) -> list[tuple[Reply, Action | Fault]]:
    """A conversation in the form of a scaffold's, its observations made up; the model is opened anew for every turn."""
    system = "You work in turns." + (HELP if advise else "")
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"Task\n{told}"},
    ]
    state: dict[str, Any] = {"judged": "There is no submission.csv to score.", "messages": messages}
    menu = [tool for tool in TOOLS[role] if advise or tool.name != "seek_help"]
    done = []
    for turn in range(turns):
        request = Request(
            list(messages), derive_seed(seed, turn), task=task, role=role, tools=as_functions(menu) if tools else None
        )
        reply = open_model(spec).sample([request])[0]
        assert reply == open_model(spec).sample([request])[0]
        action = read(role, reply)
        done.append((reply, action))
        if isinstance(action, Action) and action.name in ("answer", "finish"):
            break
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reply.tool_calls
            ]
        told_then = seen(role, action, state, task, advise or (lambda messages: FIXED["null"]))
        messages += [message, {"role": "tool" if reply.tool_calls else "user", "content": told_then}]
    return done


def actions(done: list[tuple[Reply, Action | Fault]]) -> list[Action]:
    return [action for _, action in done if isinstance(action, Action)]


def programs(done: list[tuple[Reply, Action | Fault]]) -> list[str]:
    """The programs of an episode that leave a submission, in order."""
    codes = [action.fields["code"] for action in actions(done) if "code" in action.fields]
    return [code for code in codes if "submission.csv" in code]


def whole(code: str) -> bool:
    choice = choice_of(TASK, code)
    return choice is not None and code.strip() == program(TASK, choice).strip()


# ---- personas and levels


def test_a_persona_stands_alone() -> None:
    assert [open_model(f"scripted:{persona}").name for persona in PERSONAS] == [f"scripted:{each}" for each in PERSONAS]
    with pytest.raises(ToolError, match="scripted: unknown level 'lazy'; levels are nocode, broken"):
        open_model("scripted:lazy,tree")


@pytest.mark.parametrize("persona", ["solver", "ideator", "vague", "null"])
def test_an_agents_persona_answers_a_single_question_as_ever(persona: str) -> None:
    asked = [Request([], seed, task=TASK, role=role) for seed in range(50) for role in ("", "single")]
    assert open_model(f"scripted:{persona}").sample(asked) == open_model("scripted").sample(asked)


@pytest.mark.parametrize("role", POLICIES)
def test_levels_restrict_what_is_written(role: str) -> None:
    for seed in range(20):
        done = episode(role, "scripted:knn,tree", seed)
        levels = {choice.level for code in programs(done) if (choice := choice_of(TASK, code))}
        assert levels <= {"knn", "tree"} and levels
        assert all(whole(code) for code in programs(done))
    failing = programs(episode(role, "scripted:crash", 1, turns=5))
    assert failing and not whole(failing[0])
    assert not actions(episode(role, "scripted:nocode", 1, turns=5))[1:]  # at most a look at the data


# ---- the solver


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("role", POLICIES)
def test_the_solver_keeps_to_the_protocol_but_for_a_few_messages(role: str, tools: bool) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(40):
        for _, action in episode(role, seed=seed, tools=tools, advise=lambda messages: FIXED["null"]):
            kinds[action.kind if isinstance(action, Fault) else action.name] += 1
    names = {tool.name for tool in TOOLS[role]}
    assert names <= set(kinds) <= names | {"missing"}
    assert 0 < kinds["missing"] < 0.05 * sum(kinds.values())


def test_tags_and_tool_calls_come_to_the_same_actions() -> None:
    for role in POLICIES:
        for seed in range(15):
            tags, calls = (
                [
                    (a.name, {k: v.strip() for k, v in a.fields.items()})
                    for a in actions(episode(role, seed=seed, tools=t))
                ]
                for t in (False, True)
            )
            assert tags == calls, (role, seed)


@pytest.mark.parametrize("task", [TASK, LOWER], ids=["higher", "lower"])
@pytest.mark.parametrize("role", ["react", "codeact"])
def test_the_solver_ends_with_a_valid_solution_below_the_best(role: str, task: dict[str, Any]) -> None:
    ends, first, last, best = Counter[str](), [], [], []
    for seed in range(60):
        done = episode(role, seed=seed, turns=50, task=task)
        ends[done[-1][1].name if isinstance(done[-1][1], Action) else "none"] += 1
        rungs = [VALID.index(choice.level) for code in programs(done) if (choice := choice_of(task, code))]
        first.append(rungs[0])
        last.append(rungs[-1])
        best.append(max(rungs))
    assert set(ends) == {"answer" if role == "react" else "finish"}
    assert max(first) <= VALID.index("forest")
    assert sum(best) > sum(last) > sum(first)
    assert sum(best) / len(best) < VALID.index("boosted")


def test_most_failures_are_mended_in_the_next_program() -> None:
    mended: Counter[bool] = Counter()
    for seed in range(200):
        codes = programs(episode("codeact", seed=seed))
        for code, following in itertools.pairwise(codes):
            if not whole(code):
                mended[whole(following)] += 1
                assert choice_of(TASK, code) == choice_of(TASK, following)
    assert 0.6 < mended[True] / sum(mended.values()) < 0.8 and sum(mended.values()) > 50


def test_a_memory_trace_goes_on_from_the_solution_that_it_is_given() -> None:
    told = f"An earlier solution; its score on the validation rows was 23.\n\n```python\n{code_of('forest')}```\n\nNothing."
    levels = Counter(
        choice.level
        for seed in range(60)
        if (choice := choice_of(TASK, programs(episode("memory", seed=seed, told=told, turns=4))[0]))
    )
    assert set(levels) == {"linear", "forest", "boosted"}
    assert len(episode("memory", seed=1, turns=40)) == 40  # there is no end but the scaffold's


def test_a_program_that_passed_its_check_is_run_in_memory() -> None:
    passed = 0
    for seed in range(40):
        for action, following in itertools.pairwise(actions(episode("memory", seed=seed))):
            if action.name == "validate_code" and "[submission.csv is valid" in _seen(action):
                passed += 1
                assert following == Action("execute_code", action.fields)
    assert passed > 40


def _seen(action: Action) -> str:
    return seen("memory", action, {"messages": []}, TASK, lambda messages: "")


# ---- advice


def after_help(action: str, seed: int, problem: str) -> Action | Fault:
    """What comes after a scored tree, a request for help and that answer."""
    messages = [
        {"role": "system", "content": HELP},
        {"role": "user", "content": "Task"},
        {"role": "assistant", "content": f"<execute_ipython>\n{code_of('tree')}</execute_ipython>"},
        {"role": "user", "content": "[submission.csv is valid. auroc on the validation rows: 0.7 (higher is better).]"},
        {"role": "assistant", "content": f"<seek_help>\nPROBLEM_STATEMENT:\n{problem}\n</seek_help>"},
        {"role": "user", "content": action},
    ]
    return read("codeact", open_model("scripted").sample([Request(messages, seed, task=TASK, role="codeact")])[0])


def next_levels(action: str, problem: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(200):
        then = after_help(action, seed, problem)
        code = then.fields.get("code", "") if isinstance(then, Action) else ""
        choice = choice_of(TASK, code)
        found[choice.level if choice else then.name if isinstance(then, Action) else then.kind] += 1
    return found


END, STUCK = "I would stop here.", "My last change brought nothing."


def test_what_advice_does() -> None:
    idea = ideas.ITEMS.format("The tree scored 0.7.", "Train a random forest in place of the tree.", "It is better.")
    assert next_levels(idea, END)["forest"] > 160
    assert next_levels(idea, STUCK)["forest"] > 160
    assert next_levels(FIXED["null"], END) == {"finish": 200}
    near = {"tree", "shrunk", "knn"}
    assert set(next_levels(FIXED["null"], STUCK)) - {"missing"} == near
    assert set(next_levels(FIXED["vague"], END)) - {"missing"} == near
    assert next_levels(ideas.ITEMS.format("", ideas.USELESS[0], ""), END) == {"finish": 200}


def test_help_is_asked_for_only_where_it_is_offered_and_there_is_reason() -> None:
    asked = 0
    for seed in range(60):
        assert "seek_help" not in {action.name for action in actions(episode("codeact", seed=seed))}
        done = actions(episode("codeact", seed=seed, advise=lambda messages: FIXED["null"], turns=50))
        best = -1.0
        improved = False
        for action in done:
            code = action.fields.get("code", "")
            if "submission.csv" in code and whole(code):
                improved = worth(code) > best
                best = max(best, worth(code))
            if action.name == "seek_help":
                asked += 1
                assert END in action.fields["problem_statement"] or not improved
    assert asked > 30


@pytest.mark.slow
def test_a_named_family_helps_more_than_praise_and_no_advice_nothing() -> None:
    def ideator(messages: list[dict[str, Any]]) -> str:
        asked = question(messages, dict.fromkeys(QUERY, "?"), 32000)
        said = open_model("scripted").sample([Request(asked, len(messages), task=TASK, role="ideator")])[0].text
        idea, _ = idea_and_format(said)
        return as_text(idea) if idea else FIXED["null"]

    def reached(advise: Advise | None) -> float:
        tops = [
            max(worth(code) for code in programs(episode("codeact", seed=seed, turns=50, advise=advise)) if whole(code))
            for seed in range(100)
        ]
        return sum(tops) / len(tops)

    alone, null, vague, good = (
        reached(advise) for advise in (None, lambda m: FIXED["null"], lambda m: FIXED["vague"], ideator)
    )
    top = len(choices(TASK)) - 1
    assert abs(null - alone) < 0.1 * top
    assert vague > null
    assert good > vague + 0.1 * top


@pytest.mark.parametrize(
    ("text", "kind", "level"),
    [
        ("Train a random forest.", "family", "forest"),
        ("ACTION:\nReplace the boosted trees with a linear model\nRATIONALE: forests overfit", "family", "linear"),
        ("ANALYSIS: a tree was tried\n\n**ACTION:** Use gradient boosting instead of the random forest.", "family", "boosted"),
        ("ACTION:\nBlend boosted trees and a forest.\nRATIONALE:\nx", "family", "tuned"),
        ("ACTION:\nTry another setting of the hyper-parameters.\nRATIONALE:\nx", "setting", ""),
        ("ACTION:\nRead the paper.\nRATIONALE:\nIt would improve you.", "other", ""),
        (FIXED["null"], "none", ""),
        (FIXED["vague"], "praise", ""),
        ("", "none", ""),
    ],
)  # fmt: skip
def test_reading_advice(text: str, kind: str, level: str) -> None:
    assert ideas.read(text) == ideas.Advice(kind, level)


# ---- ideas


def asked_for_idea(levels: tuple[str, ...], seed: int, escaped: bool = False) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Task"}]
    for level in levels:
        said = f"<execute_ipython>\n{code_of(level)}</execute_ipython>"
        if escaped:
            said = f"execute_ipython({json.dumps({'code': code_of(level)})})"
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": f"auroc on the validation rows: 0.{VALID.index(level)} (higher is better)."},
        ]
    asked = question(messages, None, 32000)
    role = "idea" if seed % 2 else "ideator"  # as a policy and as an adviser
    return open_model("scripted").sample([Request(asked, seed, task=TASK, role=role)])[0].text


@pytest.mark.parametrize("escaped", [False, True])
def test_the_ideator_names_the_best_family_that_was_not_tried(escaped: bool) -> None:
    told: Counter[str] = Counter()
    for seed in range(300):
        idea, _ = idea_and_format(asked_for_idea(("knn", "tuned", "forest"), seed, escaped))
        told[ideas.read(as_text(idea)).level or "other" if idea else "badly written"] += 1
        assert idea is None or "tuned scored 0.8" in idea["analysis_on_current_progress"]
    assert told["boosted"] > 0.75 * 300
    assert 3 < told["badly written"] < 0.1 * 300
    assert 0.08 * 300 < 300 - told["boosted"] - told["badly written"] < 0.22 * 300
    after_all = Counter(ideas.read(asked_for_idea(VALID, seed)).kind for seed in range(100))
    assert after_all["setting"] > 75


@pytest.mark.parametrize(("persona", "action"), [("vague", FIXED["vague"]), ("null", FIXED["null"])])
def test_the_papers_controls_as_ideators(persona: str, action: str) -> None:
    request = Request([{"role": "user", "content": "?"}], 1, task=TASK, role="ideator")
    idea, _ = idea_and_format(open_model(f"scripted:{persona}").sample([request])[0].text)
    assert idea is not None and idea["action"] == action


def carried_out(action: str, level: str = "tree") -> Counter[str]:
    idea = ideas.ITEMS.format("It is a start.", action, "Better models help.")
    asked = f"Task\n\n# The program so far\n\n```python\n{code_of(level)}```\n\n# The idea\n\n{idea}\n\n# Your answer"
    found: Counter[str] = Counter()
    for seed in range(200):
        request = Request([{"role": "user", "content": asked}], seed, task=TASK, role="implementer")
        code = split_answer(open_model("scripted").sample([request])[0].text)[1]
        choice = choice_of(TASK, code or "")
        found[choice.words if code and whole(code) and choice else "failed"] += 1
    return found


def test_the_implementer_carries_an_idea_out() -> None:
    made = carried_out("Train a linear model with C=0.05 in place of the present model.")
    assert set(made) == {"a linear model with C=0.05", "failed"} and 8 < made["failed"] < 35
    assert all(words.startswith(("a random forest", "failed")) for words in carried_out("Use a random forest."))
    tuned = carried_out("Try another setting of the hyper-parameters.")
    assert set(tuned) == {
        "a decision tree with min_samples_leaf=3",
        "a decision tree with min_samples_leaf=4",
        "failed",
    }
    assert set(carried_out(ideas.USELESS[1])) == {"a decision tree with min_samples_leaf=2", "failed"}


def improved(code: str, output: str) -> Counter[str]:
    asked = f"Improve.\n\n```python\n{code}```\n\nWhat it printed:\n\n```\n{output}\n```\n\n# Your answer\n"
    found: Counter[str] = Counter()
    for seed in range(300):
        request = Request([{"role": "user", "content": asked}], seed, task=TASK, role="improve")
        made = split_answer(open_model("scripted").sample([request])[0].text)[1]
        choice = choice_of(TASK, made or "")
        found[choice.level if made and whole(made) and choice else "failed"] += 1
    return found


def test_improving_goes_upwards_mostly_and_mends_what_failed() -> None:
    found = improved(code_of("linear"), "The program ended normally.")
    assert set(found) == {"knn", "linear", "forest", "failed"}
    assert found["forest"] > 0.4 * 300 and found["knn"] + found["linear"] < 0.45 * 300
    broken = with_fault(code_of("linear"), "crash", lambda name: 0.0)
    assert improved(broken, "Traceback (most recent call last):\n...\nKeyError: 'answer'") == {"linear": 300}
    # without an earlier solution it is the single question
    first = [Request([{"role": "user", "content": "Solve."}], seed, task=TASK, role="improve") for seed in range(50)]
    single = [Request([{"role": "user", "content": "Solve."}], seed, task=TASK) for seed in range(50)]
    assert open_model("scripted").sample(first) == open_model("scripted").sample(single)


@pytest.mark.parametrize(
    ("action", "type"),
    [
        ("Fill missing values with the median and drop outliers.", "Data Preparation"),
        ("Add interaction features.", "Feature Engineering"),
        ("Train a random forest with n_estimators=40 in place of the present model.", "Model Architecture"),
        ("Try another setting of the best model's hyper-parameters.", "Hyperparameter Tuning"),
        ("Train for more epochs with early stopping.", "Model Training"),
        ("Drink tea.", "Others"),
    ],
)
def test_the_type_of_an_idea(action: str, type: str) -> None:
    asked = f"Which type?\n\n{ideas.ITEMS.format('Forests were tried.', action, 'Features matter.')}"
    said = open_model("scripted").sample([Request([{"role": "user", "content": asked}], 0, role="idea-type")])[0].text
    assert idea_types.read_answer(said)[0] == type
    assert set(ideas.TYPES) | {"Others"} == set(idea_types.TYPES)


# ---- the unruly


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("role", POLICIES)
def test_the_malformed_agent_breaks_the_protocol_in_every_way(role: str, tools: bool) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(4):
        for _, action in episode(role, "scripted:malformed", seed, turns=25, tools=tools):
            read = action.format["read"]
            kinds[action.kind if isinstance(action, Fault) else "right" if read == "exact" else read] += 1
    # a call that a server knows no such tag for is unknown; with tags other names are no action at all
    assert set(kinds) >= {"right", "lenient", "missing", "malformed", "length"}
    assert ("several" in kinds) == tools  # two actions, one in the text and one as a call
    assert "unknown" in kinds or (not tools and role != "react")
    assert kinds["malformed"] > 4 and kinds["right"] < sum(kinds.values()) * 0.7


def test_the_malformed_agents_other_answers_are_mostly_of_no_use() -> None:
    model = open_model("scripted:malformed")
    for role in ("", "improve", "implementer"):
        replies = [model.sample([Request([], seed, task=TASK, role=role)])[0] for seed in range(60)]
        assert all(read_answer(reply.text, reply.finish_reason).read != "exact" for reply in replies), role
    said = [model.sample([Request([], seed, task=TASK, role="ideator")])[0].text for seed in range(60)]
    assert all(idea_and_format(text)[1]["read"] != "exact" for text in said) and len(set(said)) > 4


def test_tokens_are_estimated_at_four_characters() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "execute_code", "arguments": "12345"}}
    messages = [{"role": "user", "content": "1234"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    model = open_model("scripted:lazy")
    assert model.sample([Request(messages, 1, task=TASK)]) == [replace(DONE, prompt_tokens=3)]
    assert model.count_tokens(messages) == 3  # type: ignore[attr-defined]


def test_the_lazy_agent_runs_nothing() -> None:
    names = [action.name for action in actions(episode("react", "scripted:lazy"))]
    assert names == ["answer"] and not programs(episode("codeact", "scripted:lazy"))
    kinds = {
        action.name if isinstance(action, Action) else action.kind for _, action in episode("memory", "scripted:lazy")
    }
    assert kinds == {"request_info", "missing"}
    for role in ("", "improve", "implementer", "ideator"):
        assert open_model("scripted:lazy").sample([Request([], 1, task=TASK, role=role)]) == [DONE]


@pytest.mark.parametrize("role", POLICIES)
def test_the_looping_agent_says_the_same_for_ever(role: str) -> None:
    said = {reply.text for seed in (1, 2) for reply, _ in episode(role, "scripted:looping", seed)}
    assert len(said) == 1
    assert len(programs(episode(role, "scripted:looping", 1))) == 15


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("role", ["react", "codeact"])
def test_the_hostile_agent_tries_every_attack_and_then_hands_in_a_solution(role: str, tools: bool) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Task"}]
    said = []
    for turn in range(15):
        request = Request(
            list(messages), turn, task=TASK, role=role, tools=as_functions(TOOLS[role]) if tools else None
        )
        reply = open_model("scripted:hostile").sample([request])[0]
        said.append(" ".join([reply.text, *(json.loads(call.arguments).get("code", "") for call in reply.tool_calls)]))
        action = read(role, reply)
        if isinstance(action, Action) and action.name in ("answer", "finish"):
            break
        calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls]
        messages += [
            {"role": "assistant", "content": reply.text, "tool_calls": calls},
            {"role": "user", "content": "ran"},
        ]
    # of codeact one attack is a shell command, one a question where help is offered
    attacks = [attack for attack in hostile.ATTACKS if role == "react" or attack not in (hostile.READ, hostile.FORGE)]
    assert all(any(attack in text for text in said) for attack in attacks)
    assert len(said) == len(hostile.ATTACKS) + (3 if role == "react" else 2)


def test_what_is_recognised_in_code() -> None:
    for task in (TASK, LOWER):
        for choice in choices(task):
            code = program(task, choice)
            assert choice_of(task, code) == choice
            for kind in FAULTS:
                assert choice_of(task, with_fault(code, kind, lambda name: 0.99)) == choice
    assert choice_of(TASK, "print(1)") is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("auroc on the validation rows: 0.8123 (higher is better).", ("scored", 0.8123)),
        ("rmse on the test rows: -1.5e-07 (lower is better).", ("scored", -1.5e-07)),
        ("its score on the validation rows was 3.", ("scored", 3.0)),
        ("submission.csv is invalid: no rows", ("invalid", None)),
        ("submission.csv is valid. No score is told in this task.", ("valid", None)),
        ("The program failed with exit code 1 after 0.3 s.", ("failed", None)),
        ("There is nothing to score: no submission.csv.", ("failed", None)),
        ("The program ended normally after 1 s.\n\nIt printed nothing.", ("ran", None)),
    ],
)
def test_what_is_read_in_an_observation(text: str, outcome: tuple[str, float | None]) -> None:
    assert conversation.outcome(text) == outcome


# ---- the tinkerer


def recipes_of(role: str, seed: int, **more: Any) -> list[Recipe]:
    done = episode(role, "scripted:tinkerer", seed, **more)
    return [recipe for code in programs(done) if (recipe := recipe_of(code))]


def one_change(old: Recipe, new: Recipe) -> bool:
    return new in [changed(old, change) for change in usable(TASK, old)]


@pytest.mark.parametrize("role", POLICIES)
def test_the_tinkerer_changes_one_thing_of_its_best_program(role: str) -> None:
    begun = set()
    for seed in range(8):
        tried = recipes_of(role, seed, turns=15)
        begun.add(tried[0])
        for at, (old, new) in enumerate(itertools.pairwise(tried)):
            assert new in tried[: at + 1] or any(one_change(each, new) for each in tried[: at + 1])
            assert new == old or new not in tried[: at + 1] or at == len(tried) - 2  # but mended, or the end
        assert len(tried[0].steps) <= 2
    assert len(begun) > 5


def test_the_tinkerer_goes_on_from_a_solution_in_memory() -> None:
    good = Recipe("boost", 30, ("numbers", "products"), "forest", 3)
    told = f"An earlier solution; its score on the validation rows was 0.9.\n\n```python\n{good.line}\nx = 1\n```\n"
    firsts = [recipes_of("memory", seed, told=told, turns=1)[0] for seed in range(30)]
    assert all(one_change(good, first) for first in firsts)
    assert len(set(firsts)) > 15


# ---- in the real scaffolds


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agents")
    run_command(
        "mle-gen-task", "--source", "sklearn:wine", "-n", "1", "--backend", "none", "-o", "tasks.jsonl", cwd=folder
    )
    return folder


@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize("scaffold", mostly_nightly(["improve", *POLICIES], 2))
def test_every_persona_in_every_scaffold(scaffold: str, persona: str, tasks: Path) -> None:
    args = ["--scaffold", scaffold, "-m", f"scripted:{persona}", "-g", "1", "--max-turns", "14", "--timeout", "20"]
    if scaffold == "memory":
        args += ["--max-traces", "1"]
    if scaffold == "codeact":
        args += ["--ideator", f"scripted:{persona}"]
    if scaffold == "improve":
        args[args.index("--max-turns") : args.index("--timeout")] = []
    found = records(run_command("mle-rollout", *args, "tasks.jsonl", cwd=tasks).stdout)
    rollouts = [each for each in found if each["stop_reason"] != "asked"]
    assert len(rollouts) == 1
    valid = (rollouts[0]["validation"] or {}).get("valid", False)
    if persona == "lazy":
        assert not valid
    if (persona == "hostile" and scaffold != "memory") or (persona == "looping" and scaffold != "improve"):
        assert valid
