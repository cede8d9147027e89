"""mle-report --html: what stands in the page, that hostile text stays text, and, in a real Chromium, that it works."""

import base64
import copy
import gzip
import hashlib
import html
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from report_builders import a_set
from search_records import node, search
from shown_rollouts import codeact, grade, react, single

from mletools.reports.page import piece
from mletools.reports.page.figure import Figure, inline, line_plot, save
from mletools.reports.page.figures import figures

pytest.importorskip("matplotlib", reason="needs the [report] extra")
pytest.importorskip("jinja2", reason="needs the [report] extra")

EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202eevil\u202c\x1b[2J & <b>"
STEPS = [
    {
        "kind": "train_step", "version": 1, "id": f"{at:016x}", "lineage": [], "algorithm": "grpo", "step": at, "loss": 0.1,
        "reward_mean": 0.1 * at, "reward_std": 0.2, "grad_norm": 1.0, "tokens": 10, "rollouts": 16, "groups": 4,
        "duration_s": 1.0, "policy_version": at, "entropy": 1.0 / at, "staleness": 0.5,
    }
    for at in range(1, 6)
]  # fmt: skip


def rollout(number: int, **more: Any) -> dict[str, Any]:
    """A graded rollout of one of three kinds, with an id, a version and a verdict of its own."""
    made = copy.deepcopy((react, codeact, single)[number % 3]())
    made |= {"id": f"{number:016x}", "sample": number % 4, "group": f"g{number // 4}", "group_size": 4, **more}
    made["policy"] = {**made["policy"], "version": number % 5}
    made.setdefault("grade", None)
    if made["grade"] is None:
        made["grade"] = copy.deepcopy(react()["grade"])
    made.setdefault("reward", 0.5)
    for turn in made["turns"]:
        turn["format"] = {"read": "lenient", "rule": "hermes"} if number % 2 else {"read": "exact", "rule": None}
    if made["scaffold"] != "single":
        made["settings"] = {}
    return made


def hostile(number: int) -> dict[str, Any]:
    made = rollout(number)
    made["task"] = {
        **made["task"],
        "id": "<img src=x onerror=window.hacked=1> & <b>",
        "name": EVIL,
        "modality": EVIL,
        "problem": EVIL,
    }
    made["policy"]["model"] = EVIL
    made["messages"] = [{**message, "content": message["content"] + EVIL} for message in made["messages"]]
    made["code"] = (made["code"] or "") + f"\n# {EVIL}\n"
    made["stop_reason"] = "finished"
    made["filter"] = {"kept": False, "reason": EVIL}
    for turn in made["turns"]:
        if turn.get("execution"):
            turn["execution"]["stdout"]["head"] += EVIL
    return made


def written(folder: Path, name: str, records: list[dict[str, Any]]) -> str:
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def page(folder: Path, *arguments: str) -> str:
    run_command("mle-report", "-q", "--html", "--force", "-o", "report.html", *arguments, cwd=folder)
    return (folder / "report.html").read_text(encoding="utf-8")


def unpacked(text: str, id: str) -> Any:
    found = re.search(rf'id="{id}">([A-Za-z0-9+/=]*)</script>', text)
    assert found, id
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    written(
        made, "first.jsonl", [rollout(number, **({"reward": 2 / 3} if number == 0 else {})) for number in range(12)]
    )
    written(made, "second.jsonl", [rollout(number, reward=0.9) for number in range(100, 112)])
    written(made, "hostile.jsonl", [hostile(number) for number in range(6)])
    written(made, "steps.jsonl", STEPS)
    return made


def test_all_is_in_one_file_and_the_same_input_gives_the_same_page(folder: Path) -> None:
    text = page(folder, "--train-steps", "steps.jsonl", "--title", "A <week> of work", "first.jsonl", "second.jsonl")
    assert "<h1>A &lt;week&gt; of work</h1>" in text
    for id in ("overview", "training", "within", "funnel", "time", "compare", "rollouts"):
        assert f'<section id="{id}"' in text and f'href="#{id}"' in text
    assert not re.search(r"(?:src|href)=[\"'](?!#)", text), "the page loads something"
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert len(scripts) == 1 and f"script-src 'sha256-{digest}'" in text
    assert text.index('id="row-data"') < text.index("<script>") < text.index('id="block-0"')  # the table comes first
    rows, columns = unpacked(text, "row-data"), json.loads(re.search(r'id="columns">(.*?)</script>', text)[1])  # type: ignore[index]
    assert len(rows) == 24 and {len(row) for row in rows} == {len(columns)}
    for row in rows:
        told = dict(zip(columns, row, strict=True))
        assert told["id"] in unpacked(text, f"block-{told['block']}")[told["place"]]
    assert (
        page(folder, "--train-steps", "steps.jsonl", "--title", "A <week> of work", "first.jsonl", "second.jsonl")
        == text
    )


@pytest.mark.slow
def test_the_pages_numbers_are_those_of_the_report(folder: Path) -> None:
    text = page(folder, "first.jsonl", "second.jsonl")
    summary = run_command("mle-report", "-q", "--json", "first.jsonl", "second.jsonl", cwd=folder).stdout
    for row in map(json.loads, summary.splitlines()):
        if row["task"] == "all":
            for value in (f"{row['valid']:.1%}", f"{row['reward_mean']:.3f}"):
                assert f'<td data-label="mean">{value}</td>' in text
    titles = [html.unescape(title) for title in re.findall(r'<h3 id="title-[^"]*">(.*?)</h3>', text)]
    assert "Rollouts by stage" in titles and "second against first" in titles


def test_hostile_text_stays_text(folder: Path) -> None:
    written(folder, "hostile2.jsonl", [hostile(number) | {"reward": 0.9} for number in range(10, 16)])
    text = page(folder, "--label", EVIL, "--label", f"2 {EVIL}", "hostile.jsonl", "hostile2.jsonl")
    assert '<div class="headline' in text
    details = "".join(unpacked(text, "block-0"))
    for place in (text, details):
        assert "<script>window" not in place and "<img" not in place and "\u202e" not in place and "\x1b" not in place
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in details and "\\u202eevil" in details and "␛[2J" in details
    assert set(re.findall(r"</?([a-z]+)", details)) == {"details", "summary", "small", "pre", "span"}


@pytest.mark.parametrize("length", [3, 60])
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_figure_of_many_sets_keeps_room_for_its_axes(length: int, tmp_path: Path) -> None:
    lines = {f"{number:02}" + "w" * length: [(0.0, 1.0, None), (1.0, float(number), 0.1)] for number in range(24)}
    drawn = line_plot(lines, "step", "reward")
    (made,) = save([Figure("many", "Many", "", ("set",), (), drawn)], tmp_path, ["svg"])
    axes = re.search(r'id="patch_2">\s*<path d="M (\S+) (\S+)\s*L (\S+) \S+\s*L \S+ (\S+)', made.read_text())
    assert axes is not None
    left, bottom, right, top = map(float, axes.groups())
    assert right - left > 350 and bottom - top > 120  # points, of 504 across


def test_sets_whose_names_differ_in_special_characters_have_figures_of_their_own(tmp_path: Path) -> None:
    def compared(second: str, difference: float) -> dict[str, Any]:
        task = {"task": "pond", "first": 0.0, "second": difference, "difference": difference, "result": "win"}
        return {
            "first": "base", "second": second, "by": "reward", "tasks": [task], "difference_mean": difference,
            "difference_ci": None, "confidence": 0.95, "win": 1, "tie": 0, "loss": 0,
        }  # fmt: skip

    seconds = ("x y", "x+y", "X Y", "x-y-2", "z" * 300, "z" * 301)
    drawn = figures([], {}, [compared(second, 0.1 * at) for at, second in enumerate(seconds)])
    assert [figure.title for figure in drawn] == [f"{second} against base" for second in seconds]
    names = [figure.name for figure in drawn]
    assert names[:4] == ["compare-base-x-y", "compare-base-x-y-2", "compare-base-X-Y-3", "compare-base-x-y-2-2"]
    files = save(drawn, tmp_path, ("svg",))
    assert len({file.read_bytes() for file in files}) == len(set(files)) == len(seconds)
    ids = [id for figure in drawn[:2] for id in set(re.findall(r' id="([^"]+)"', inline(figure)))]
    assert len(set(ids)) == len(ids) > 0


def test_the_colours_of_a_figure_are_the_pages_and_names_stay_as_they_are() -> None:
    lines = {name: [(0.0, 1.0, None), (1.0, 2.0, 0.1)] for name in ("#0072b2", "#0a0099")}
    svg = inline(Figure("x", "", "", ("set",), (), line_plot(lines, "step", "reward")))
    assert ">#0072b2</text>" in svg and ">#0a0099</text>" in svg
    styles = "".join(re.findall(r'style="([^"]*)"', svg))
    assert "var(--series-2)" in styles and "#" not in re.sub(r"url\(#[^)]*\)", "", styles)


@pytest.mark.slow
def test_plots_are_files(folder: Path) -> None:
    told = run_command("mle-report", "--plots", "plots", "--train-steps", "steps.jsonl", "first.jsonl", cwd=folder)
    made = sorted(path.name for path in (folder / "plots").iterdir())
    assert b"files in plots" in told.stderr and b"over tasks" in told.stdout
    assert {"funnel.svg", "funnel.png", "training-reward-mean.svg", "version-reward.png", "times.svg"} <= set(made)
    for name in made:
        begin = (folder / "plots" / name).read_bytes()[:100]
        assert begin.startswith(b"<?xml" if name.endswith(".svg") else b"\x89PNG")


@pytest.mark.slow
def test_a_file_without_dropped_tasks_is_drawn(folder: Path) -> None:
    (folder / "none-dropped.jsonl").write_text("")
    run_command("mle-report", "--html", "--tasks", "none-dropped.jsonl", "first.jsonl", "-o", "e.html", cwd=folder)
    assert b"</html>" in (folder / "e.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--html", "--json"), "--html excludes --json, --compare and --over-..., which are other outputs"),
        (("--full",), "--full and --title need --html"),
        (("--tasks", "tasks.jsonl"), "--tasks needs --html or --plots DIR"),
        (("--train-steps", "steps.jsonl"), "--train-steps needs --html, --plots DIR or --follow"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = run_command("mle-report", *arguments, "first.jsonl", cwd=folder, check=False)
    assert done.returncode == 2 and complaint in done.stderr.decode()


def test_figures_tell_their_numbers() -> None:
    from mletools.reports.page.figures import figures

    runs = a_set("a", *[rollout(number) for number in range(12)])
    made = {figure.name: figure for figure in figures([runs], {"run": STEPS}, [])}
    assert made["training-reward-mean"].rows[1] == ("run", 2, 0.2, 0.05)  # 0.2 / sqrt(16)
    stages = made["funnel"].rows
    assert stages[0] == ("a", "rollouts", 12, 1.0)
    assert [row[2] for row in stages] == sorted((row[2] for row in stages), reverse=True)
    of_version = {row[1]: row[2] for row in made["version-reward"].rows}
    rewards = [run.reward for run in runs.runs if run.version == 3 and run.reward is not None]
    assert of_version[3] == pytest.approx(sum(rewards) / len(rewards))


def test_a_rollout_keeps_its_colours() -> None:
    """Those of parts of a line (code), and those of whole lines (what changed since the turn before)."""
    found = "".join(piece(rollout(number)) for number in range(3))
    assert '<span class="red">-' in found and '<span class="green">+' in found and '<span class="cyan">@@' in found
    assert '<span class="bright-blue">import</span>' in found


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["runs/a/steps.jsonl", "runs/b/steps.jsonl"], ["a", "b"]),
        (["a/x.jsonl", "b/y.jsonl"], ["x", "y"]),
        (["a/b/c/x.jsonl", "a/d/c/x.jsonl", "a/e/x.jsonl"], ["b/c", "d/c", "e"]),
        (["a/x.jsonl", "x.jsonl"], ["a/x", "x"]),
        (["x.jsonl", "./x.jsonl"], ["x.jsonl", "./x.jsonl"]),
        (["-", "-"], ["-", "-"]),
    ],
)
def test_sets_are_named_by_what_tells_their_files_apart(files: list[str], names: list[str]) -> None:
    from mletools.reports.reading import labels

    assert labels(files) == names


def test_the_funnel_of_tasks() -> None:
    from mletools.reports.page.figures import figures

    files = {
        "made": [None] * 6,
        "drafts": ["learnable: no", "learnable: hardly"],
        "sound": [None] * 5,
        "unsound": ["no_leak_ids"],
    }
    made = {figure.name: figure for figure in figures([], {}, [], files)}
    assert made["tasks"].rows == [("drafts", 8, 1.0), ("made", 6, 0.75), ("sound", 5, 0.625)]
    assert made["tasks-dropped"].rows == [("learnable", 2, 2 / 3), ("no_leak_ids", 1, 1 / 3)]
    assert {figure.name for figure in figures([], {}, [], {"made": [None]})} == {"tasks"}
    assert {figure.name for figure in figures([], {}, [], {"drafts": ["learnable: no"]})} == {"tasks-dropped"}


def test_medals_by_difficulty() -> None:
    from mletools.reports.page.figures import figures

    runs = [rollout(number) for number in range(12)]
    for number, one in enumerate(runs):
        one["task"]["provenance"] = {
            **one["task"].get("provenance", {}),
            "split": ("low", "medium", "high")[number % 3],
        }
    made = {figure.name: figure for figure in figures([a_set("a", *runs)], {}, [])}
    assert [row[:3] for row in made["medals-difficulty"].rows] == [
        ("high", "a", 4),
        ("low", "a", 4),
        ("medium", "a", 4),
    ]
    two = [a_set("b", *runs[:3]), a_set("a", *runs[3:])]
    made = {figure.name: figure for figure in figures(two, {}, [])}  # sets are not pooled
    assert [row[:3] for row in made["medals-difficulty"].rows] == [
        (group, label, count) for group in ("high", "low", "medium") for label, count in (("b", 1), ("a", 3))
    ]


def searched() -> dict[str, Any]:
    nodes = (node(0, (), 1.8, 4), node(1, (0,), None, 70, why="a long story " * 20), node(2, (0,), 1.5, 90))
    return search("3f2a", *nodes, chosen=2, grade=grade(1.4, "bronze"), reward=0.5)


def test_a_search_has_its_tree_whose_lines_stay_whole() -> None:
    found = piece(searched())
    tree = re.search("<summary>exploration graph</summary><pre([^>]*)>(.*?)</pre>", found, re.DOTALL)
    assert tree and tree[1] == ' class="tree" tabindex="0" role="region" aria-label="exploration graph"'
    lines = html.unescape(re.sub("<[^>]*>", "", tree[2])).split("\n")
    assert lines[1] == "ended, 1:30 of 1:40 (work clock), 3 of 500 nodes, 0.01 USD"
    assert [line.split()[0] for line in lines[3:6]] == ["┌", "├──", "└"]
    assert "<summary>node 0: draft <small>" in found and not re.search(r"turn \d", found)


# --- in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    from selenium.webdriver.chrome.service import Service

    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed: the page is not opened")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,1400",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options, Service(driver))
    yield made
    made.quit()


def opened(browser: Any, path: Path, fragment: str = "") -> None:
    browser.get("about:blank")
    browser.get(f"file://{path}{fragment}")
    until(browser, "return document.documentElement.dataset.ready === 'yes'")


def until(browser: Any, script: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not browser.execute_script(script):
        assert time.monotonic() < end, script
        time.sleep(0.02)


def picture(browser: Any, name: str) -> None:
    """Kept where MLETOOLS_PICTURES says, to be looked at."""
    if os.environ.get("MLETOOLS_PICTURES"):
        browser.save_screenshot(str(Path(os.environ["MLETOOLS_PICTURES"]) / f"{name}.png"))


@pytest.mark.slow
def test_every_view_in_chromium(folder: Path, browser: Any) -> None:
    page(folder, "--train-steps", "steps.jsonl", "first.jsonl", "second.jsonl")
    opened(browser, folder / "report.html")
    count = "return document.querySelectorAll('#rows tbody tr').length"
    assert browser.execute_script(count) == 24
    picture(browser, "overview")

    browser.execute_script("document.querySelector('button[data-name=reward]').click()")
    shown = (
        "return [...document.querySelectorAll('#rows tbody tr')].map((row) => +row.children[arguments[0]].textContent)"
    )
    names = browser.execute_script(
        "return [...document.querySelectorAll('#rows th button')].map((b) => b.dataset.name)"
    )
    rewards = browser.execute_script(shown, names.index("reward"))
    assert rewards == sorted(rewards, reverse=True) and len(set(rewards)) > 1
    assert browser.execute_script("return document.getElementById('same').textContent").startswith("All: task ")
    whole = "return [...document.querySelectorAll('#rows td[data-label=reward]')].map((cell) => [cell.textContent, cell.title])"
    assert ["0.6667", "0.6666666666666666"] in browser.execute_script(whole)
    assert ["0.5", ""] in browser.execute_script(whole)

    choose = "const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event(arguments[2]))"
    browser.execute_script(choose, "filter-set", "first", "change")
    assert browser.execute_script(count) == 12
    browser.execute_script(choose, "filter-words", "codeact", "input")
    assert browser.execute_script(count) == 4
    browser.execute_script(choose, "filter-words", "", "input")
    for filter in ("stopped", "reading"):
        values = browser.execute_script(
            f"return [...document.getElementById('filter-{filter}').options].map((o) => o.value)"
        )
        counts = []
        for value in values[1:]:
            browser.execute_script(choose, f"filter-{filter}", value, "change")
            counts.append(browser.execute_script(count))
        browser.execute_script(choose, f"filter-{filter}", "", "change")
        assert len(counts) >= 2 and all(0 < number < 12 for number in counts), filter

    # every numeric field of the steps can be drawn
    fields = browser.execute_script("return [...document.getElementById('field').options].map((o) => o.value)")
    assert {"loss", "entropy", "grad_norm", "duration_s", "tokens"} <= set(fields)
    for field in fields:
        browser.execute_script(choose, "field", field, "change")
        assert (
            browser.execute_script(
                "return document.querySelector('#field-chart path').getAttribute('d').split('L').length"
            )
            == 5
        )

    # the two best and the two worst of a task are a click away
    browser.execute_script("document.querySelector('#tables td[data-label=best] a').click()")
    until(browser, "return document.querySelectorAll('#viewer-body details').length > 1")
    assert browser.execute_script("return decodeURIComponent(location.hash.slice(1))") in browser.execute_script(
        "return document.getElementById('viewer-title').textContent"
    )

    browser.execute_script("document.querySelector('#rows tbody a').click()")
    until(browser, "return document.querySelectorAll('#viewer-body details').length > 1")
    body = browser.execute_script("return document.getElementById('viewer-body').textContent")
    assert "turn 1 of" in body and body.startswith("summary")
    picture(browser, "viewer")
    title = "return document.getElementById('viewer-title').textContent"
    before = browser.execute_script(title)
    key = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
    browser.execute_script(key, "j")
    until(browser, f"{title} !== '{before}'")
    browser.execute_script(key, "k")
    until(browser, f"{title} === '{before}'")
    browser.execute_script(key, "Escape")
    until(browser, "return document.getElementById('viewer').hidden")

    browser.execute_script("document.getElementById('theme').click()")
    picture(browser, "other-theme")
    scrolled = "return [...document.querySelectorAll('.stacked')].filter((e) => e.scrollWidth > e.clientWidth).length"
    assert browser.execute_script(scrolled) == 0, "a table is wider than a screen of 1280 pixels"
    browser.set_window_size(420, 900)
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0, "a narrow screen has to be scrolled sideways"
    beyond = "return [...document.querySelectorAll('.stacked td')].filter((cell) => cell.getBoundingClientRect().right > innerWidth).length"
    assert browser.execute_script(beyond) == 0, "cells of tables leave a narrow screen"
    picture(browser, "narrow")
    browser.set_window_size(1280, 1400)
    assert browser.get_log("browser") == []


def graded_twice(folder: Path) -> str:
    """The page of two sets with the same rollouts, and other verdicts."""
    verdicts = {"once": "none yet", "again & more": "regraded"}
    for name, said in verdicts.items():
        made = [rollout(number) for number in range(2)]
        for one in made:
            one["grade"] = {**grade(1.4, None), "reason": said, "valid": False, "score": None}
        written(folder, f"{name}.jsonl", made)
    return page(folder, *(f"{name}.jsonl" for name in verdicts))


def test_rollouts_that_two_sets_have_are_linked_with_their_set(folder: Path) -> None:
    text = graded_twice(folder)
    links = {html.unescape(link) for link in re.findall(r'<a href="(#0[^"]*)"', text)}
    assert links == {f"#{number:016x}&set={name}" for number in range(2) for name in ("once", "again%20%26%20more")}
    alone = re.findall(r'<a href="(#0[^"]*)"', page(folder, "first.jsonl"))
    assert alone and not any("set=" in link for link in alone)


@pytest.mark.slow
def test_the_viewer_shows_the_rollout_of_the_set_that_was_asked_for(folder: Path, browser: Any) -> None:
    graded_twice(folder)
    opened(browser, folder / "report.html")
    body = "document.getElementById('viewer-body').textContent"
    links = browser.execute_script("return [...document.querySelectorAll('#rows tbody a')].map((a) => a.hash)")
    assert len(set(links)) == 4
    for row, said in ((0, "none yet"), (2, "regraded"), (3, "regraded"), (1, "none yet")):
        browser.execute_script("document.querySelectorAll('#rows tbody a')[arguments[0]].click()", row)
        until(browser, f"return {body}.includes('{said}')")
        here = "return [...document.querySelectorAll('#rows tbody tr')].findIndex((r) => r.className === 'here')"
        assert browser.execute_script(here) == row
    key = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))"
    browser.execute_script(key)  # from the second row to the third, which is of the other set
    until(browser, f"return {body}.includes('regraded')")
    opened(browser, folder / "report.html", f"#{0:016x}")  # without a set it is the first
    until(browser, f"return {body}.includes('none yet')")


@pytest.mark.slow
def test_nothing_of_an_agent_runs_in_chromium(folder: Path, browser: Any) -> None:
    page(folder, "--label", EVIL, "--title", EVIL, "hostile.jsonl")
    for number in range(6):
        opened(browser, folder / "report.html", f"#{number:016x}")
        until(browser, "return document.querySelectorAll('#viewer-body details').length > 1")
        assert browser.execute_script("return window.hacked") is None
        assert (
            browser.execute_script("return document.querySelectorAll('#viewer-body img, #viewer-body script').length")
            == 0
        )
    assert browser.get_log("browser") == []
    # were it not escaped, the page's policy would stop it still
    browser.execute_script("document.getElementById('viewer-body').innerHTML = arguments[0]", EVIL)
    time.sleep(0.5)
    assert browser.execute_script("return window.hacked") is None


@pytest.mark.slow
def test_the_tree_of_a_search_scrolls_by_itself_on_a_narrow_screen(folder: Path, browser: Any) -> None:
    (folder / "search.jsonl").write_text(json.dumps(searched()) + "\n")
    page(folder, "search.jsonl")
    browser.set_window_size(420, 900)
    opened(browser, folder / "report.html", "#3f2a")
    until(browser, "return document.querySelector('#viewer-body pre.tree') !== null")
    wide = "const it = {}; return it.scrollWidth > it.clientWidth"
    assert browser.execute_script(wide.format("document.querySelector('pre.tree')"))
    assert not browser.execute_script(wide.format("document.documentElement"))
    browser.set_window_size(1280, 1400)


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("id", [f"{1:016x}", "3f2a"])
def test_axe_finds_nothing_serious(folder: Path, browser: Any, theme: str, id: str) -> None:
    axe = pytest.importorskip("axe_core_python", reason="axe-core is not installed: accessibility is not checked")
    (folder / "search.jsonl").write_text(json.dumps(searched()) + "\n")
    page(folder, "--train-steps", "steps.jsonl", "first.jsonl", "second.jsonl", "search.jsonl")
    opened(browser, folder / "report.html", f"#rollout={id}")
    until(browser, "return document.querySelectorAll('#viewer-body details').length > 1")
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    browser.execute_script(Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    assert [
        (each["id"], each["nodes"][0]["html"])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ] == []
    assert len(found["passes"]) > 10


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_five_thousand_rollouts(tmp_path: Path, browser: Any) -> None:
    """Under 20 MB, whatever they hold; how long a browser takes is measured in benchmarks/report_page.py."""
    made = []
    for number in range(5000):
        each = rollout(number)
        words = hashlib.sha256(str(number).encode()).hexdigest()
        each["messages"] = [{**message, "content": f"{message['content']}\n{words}"} for message in each["messages"]]
        made.append(each)
    written(tmp_path, "many.jsonl", made)
    text = page(tmp_path, "many.jsonl")
    assert len(text.encode()) < 20e6
    opened(browser, tmp_path / "report.html")
    assert browser.execute_script("return document.getElementById('count').textContent") == "1 to 100 of 5,000 rollouts"
