"""Pretrained weights at ./weights, and /dev/shm of a size of its own: one test per promise, in every backend."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import Daemon
from solving import SECRET, make_public, printed, run

from mletools.base.errors import ToolError
from mletools.rollout.program_facts import MOST_NAMED, ProgramFacts, probe_sandbox
from mletools.sandbox import Limits, Sandbox, Setup, mounts
from mletools.sandbox.container import DockerSandbox
from mletools.sandbox.engine import Kind, host_config
from mletools.sandbox.local import LocalSandbox

SMALL = ("json",)
MODEL = "huggingface/hub/models--tests--tiny"
SNAPSHOT = f"{MODEL}/snapshots/{'0' * 40}"
CHECKPOINT = "torch/hub/checkpoints/tiny-0123abcd.pth"
SEES = """
    import json, os, sys
    variables = ("HF_HUB_CACHE", "TORCH_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    names = [os.environ.get(name, "").removeprefix(os.getcwd() + "/") for name in variables]
    print(json.dumps([names, sorted(os.listdir("weights")), open(os.environ["HF_HUB_CACHE"] + SNAPSHOT).read()]))
""".replace("SNAPSHOT", repr(f"{SNAPSHOT[len('huggingface/hub') :]}/config.json"))
WRITES = """
    import os, shutil
    def tried(what):
        try:
            what()
            print("written", what.__code__.co_firstlineno)
        except OSError:
            pass
    real = os.path.realpath("weights")
    for folder in ("weights", real, "/proc/self/cwd/weights", "/proc/self/root" + real):
        file = folder + "/notes.txt"
        tried(lambda: open(file, "a").write("x"))
        tried(lambda: open(file, "r+").truncate(1))
        tried(lambda: os.truncate(file, 1))
        tried(lambda: open(folder + "/new", "w"))
        tried(lambda: os.mkdir(folder + "/new-folder"))
        tried(lambda: os.unlink(file))
        tried(lambda: os.rename(file, folder + "/renamed"))
        tried(lambda: os.rename(file, "taken"))
        tried(lambda: os.link(file, "linked"))
        tried(lambda: os.symlink("notes.txt", folder + "/link"))
        tried(lambda: shutil.rmtree(folder + "/torch"))
    try:
        os.chmod(real + "/notes.txt", 0o777)
        open(real + "/notes.txt", "a").write("x")
        print("written after chmod")
    except OSError:
        print("closed")
"""


def state(folder: Path) -> dict[str, Any]:
    """Names, kinds and contents of all that lies in a folder; not modes, which Landlock leaves to their owner."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IFMT(path.lstat().st_mode),
            path.read_bytes() if path.is_file() else None,
        )
        for path in [folder, *folder.rglob("*")]
        if path.name != "leak"
    }


@pytest.fixture(scope="module")
def weights() -> Iterator[Path]:
    """A folder in the layout of ~/.cache. Not in pytest's, to which other users cannot come."""
    folder = Path(tempfile.mkdtemp(prefix="mle-weights-"))
    try:
        folder.chmod(0o755)
        content = b'{"model_type": "bert"}'
        blob = hashlib.sha256(content).hexdigest()
        for name in (f"{MODEL}/blobs", f"{MODEL}/refs", SNAPSHOT, "torch/hub/checkpoints"):
            (folder / name).mkdir(parents=True)
        (folder / MODEL / "blobs" / blob).write_bytes(content)
        (folder / MODEL / "refs" / "main").write_text("0" * 40)
        (folder / SNAPSHOT / "config.json").symlink_to(f"../../blobs/{blob}")
        (folder / CHECKPOINT).write_bytes(b"weights")
        (folder / "notes.txt").write_text("notes")
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


@pytest.fixture(
    scope="module",
    params=[
        "local",
        "landlock",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("docker", "docker landlock")),
    ],
)
def sandbox(request: pytest.FixtureRequest, weights: Path) -> Iterator[Sandbox]:
    namespaces = "landlock" not in request.param
    setup = Setup(1, SMALL, weights=str(weights))
    with pytest.MonkeyPatch.context() as patch:
        if "docker" in request.param:
            daemon = request.getfixturevalue("docker_daemon")
            patch.setenv("DOCKER_HOST", daemon.host)
            setup = Setup(1, SMALL, weights=str(weights), image=daemon.small)
        kind: Any = DockerSandbox if "docker" in request.param else LocalSandbox
        with kind(setup, namespaces=namespaces) as opened:
            try:
                assert opened.protections["read_only_input"]
            except ToolError as error:
                pytest.skip(f"not as this user: {error}")
            yield opened


def test_programs_and_their_libraries_find_the_weights(sandbox: Sandbox, weights: Path, public: Path) -> None:
    for start in ("", "import torch" if sandbox.name == "local" and find_spec("torch") else ""):
        variables, names, content = json.loads(
            printed(run(sandbox, public, f"if 0:\n    {start or 'pass'}\n" + SEES.replace("\n    ", "\n")))
        )
        assert variables == ["weights/huggingface/hub", "weights/torch", "1", "1"]
        assert names == ["huggingface", "notes.txt", "torch"] and content == '{"model_type": "bert"}'
    assert not {name for name in os.listdir(weights) if name not in names}


def test_nothing_is_written_to_the_weights(sandbox: Sandbox, weights: Path, public: Path) -> None:
    before = state(weights)
    outcome = run(sandbox, public, WRITES)
    assert (outcome.stdout, outcome.stderr) == (b"closed\n", b"")
    assert state(weights) == before


def test_nothing_beside_the_weights_is_seen(sandbox: Sandbox, weights: Path, public: Path) -> None:
    """Neither by .. nor by a link in it, which leads to a file of this machine that everybody may read."""
    answers = public.parent / "private" / "answers.csv"
    beside = weights.parent / f"{weights.name}-beside"
    leak = weights / "torch" / "leak"
    try:
        beside.write_text(SECRET)
        beside.chmod(0o644)
        leak.symlink_to(beside)
        code = f"""
            import os
            real = os.path.realpath("weights")
            for path in ("weights/torch/leak", real + "/torch/leak", real + "/../{beside.name}", {str(answers)!r},
                         "/proc/self/root/{beside}", os.path.join(os.path.dirname(real), "{beside.name}")):
                try:
                    print(open(path).read())
                except OSError:
                    print("closed")
        """
        assert printed(run(sandbox, public, code)) == 6 * "closed\n"
    finally:
        leak.unlink()
        beside.unlink()


def test_a_session_sees_the_weights(sandbox: Sandbox, public: Path) -> None:
    session = sandbox.session(public, Limits(wall_s=30.0), 0)
    try:
        assert session.python("print(open('weights/notes.txt').read())", 10.0).output == b"notes\n"
    finally:
        session.close()


def test_prompts_name_what_is_there(sandbox: Sandbox, weights: Path, public: Path) -> None:
    found = probe_sandbox(sandbox, Limits(wall_s=20.0), lambda: public)
    assert (found["models"], found["checkpoints"], found["others"]) == (
        ["tests/tiny"],
        [Path(CHECKPOINT).name],
        ["notes.txt"],
    )


class Tape:
    def play(self, what: str, about: object, make: Any) -> Any:
        return make()


def test_the_words_about_weights(tmp_path: Path) -> None:
    def told(**found: Any) -> str:
        installed: Any = {"python": "3.12.1", "libraries": {"torch": "2.13.0"}, **found}
        return ProgramFacts(Limits(), False, lambda public: installed, Tape()).libraries(lambda: tmp_path)  # type: ignore[arg-type]

    assert told() == "Python 3.12.1 with torch 2.13.0"
    assert told(models=["google/vit", "bert"], checkpoints=["resnet50-0676ba61.pth"], others=["words.txt"]) == (
        "Python 3.12.1 with torch 2.13.0; pretrained weights in ./weights: models that `from_pretrained` and timm load by "
        "name (google/vit, bert), checkpoints that torch.hub and torchvision load (resnet50-0676ba61.pth), to be loaded by "
        "path (words.txt)"
    )
    assert told(models=[f"m{number}" for number in range(MOST_NAMED + 3)]).endswith(f"m{MOST_NAMED - 1} and 3 more)")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (("models--a--b/snapshots/c/config.json",), {"HF_HUB_CACHE": "weights"}),
        (("hub/models--a--b/snapshots/c/config.json",), {"HF_HUB_CACHE": "weights/hub"}),
        (
            ("hub/checkpoints/a.pth", "hub/models--a--b/snapshots/c/x"),
            {"HF_HUB_CACHE": "weights/hub", "TORCH_HOME": "weights"},
        ),
        (
            ("torch/hub/trusted_list", "nltk_data/corpora/x"),
            {"TORCH_HOME": "weights/torch", "NLTK_DATA": "weights/nltk_data"},
        ),
        (("mine/model.safetensors",), {}),
    ],
)
def test_layouts(layout: tuple[str, ...], expected: dict[str, str], tmp_path: Path, public: Path) -> None:
    folder = tmp_path / "weights"
    for name in layout:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    code = """
        import json, os
        names = ("HF_HUB_CACHE", "TORCH_HOME", "NLTK_DATA")
        print(json.dumps({name: os.path.relpath(os.environ[name]) for name in names if name in os.environ}))
    """
    with LocalSandbox(Setup(1, SMALL, weights=str(folder))) as opened:
        if not opened.protections["mount_namespace"]:
            pytest.skip("other users cannot come to this folder")
        assert json.loads(printed(run(opened, public, code))) == expected


def test_without_weights_nothing_is_set(public: Path) -> None:
    with LocalSandbox(Setup(1, SMALL)) as opened:
        code = "import os; print(os.path.exists('weights'), [name for name in os.environ if name[:2] == 'HF'])"
        assert printed(run(opened, public, code)) == "False []\n"


LOADS = """
    import torch
    from transformers import AutoModel, AutoTokenizer
    model, tokenizer = AutoModel.from_pretrained("tests/bert"), AutoTokenizer.from_pretrained("tests/bert")
    with torch.no_grad():
        print(model(**tokenizer(["hello world"], return_tensors="pt")).last_hidden_state.double().sum().item())
    url = "https://download.pytorch.org/models/tiny-0123abcd.pth"
    print(torch.hub.load_state_dict_from_url(url)["weight"].tolist())
    print(torch.hub.load("owner/repository:main", "seven", verbose=False))
    import datasets
    print(len(datasets.load_dataset("csv", data_files="input/train.csv")["train"]))
    try:
        AutoModel.from_pretrained("tests/absent")
    except OSError as error:
        print("offline mode" in str(error) or "couldn't find" in str(error).lower(), "\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [True, False])
def test_from_pretrained_and_torch_hub_load_a_checkpoint(namespaces: bool, public: Path) -> None:
    """A real one, in the form in which the hub's client keeps it, with the installed libraries, in a fresh interpreter."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("datasets")
    folder = Path(tempfile.mkdtemp(prefix="mle-weights-"))
    try:
        folder.chmod(0o755)
        saved, hub = folder / "saved", folder / "hub" / "models--tests--bert"
        settings = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        model = transformers.BertModel(transformers.BertConfig(vocab_size=7, **settings))
        model.save_pretrained(saved)
        words = saved / "vocab.txt"
        words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n")
        transformers.BertTokenizer(str(words)).save_pretrained(saved)
        for name in ("blobs", "refs", "snapshots/abc"):
            (hub / name).mkdir(parents=True)
        for file in list(saved.iterdir()):
            file.rename(hub / "blobs" / file.name)
            (hub / "snapshots" / "abc" / file.name).symlink_to(f"../../blobs/{file.name}")
        saved.rmdir()
        (hub / "refs" / "main").write_text("abc")
        (folder / "hub" / "checkpoints").mkdir()
        torch.save({"weight": torch.ones(2)}, folder / "hub" / "checkpoints" / "tiny-0123abcd.pth")
        (folder / "hub" / "owner_repository_main").mkdir()
        (folder / "hub" / "owner_repository_main" / "hubconf.py").write_text("def seven():\n    return 7\n")
        (folder / "hub" / "trusted_list").write_text("")
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        before = state(folder)
        inputs = {"input_ids": torch.tensor([[2, 5, 6, 3]])}
        with torch.no_grad():
            expected = model.eval()(**inputs).last_hidden_state.double().sum().item()
        with LocalSandbox(Setup(1, SMALL, weights=str(folder)), namespaces=namespaces) as opened:
            try:
                _ = opened.protections
            except ToolError as error:
                pytest.skip(f"not as this user: {error}")
            outcome = run(opened, public, LOADS, wall_s=120.0, memory_mb=4096, processes=256)
        assert outcome.start == "cold" and outcome.status == "ok", outcome
        summed, weight, seven, rows, absent = outcome.stdout.decode().split("\n")[:5]
        assert float(summed) == pytest.approx(expected, abs=1e-4)
        assert (weight, seven, rows, absent.strip()) == ("[1.0, 1.0]", "7", "70", "True")
        assert state(folder) == before
    finally:
        shutil.rmtree(folder)


# Folders that are refused


def test_folders_that_cannot_be_shown(tmp_path: Path, public: Path) -> None:
    folder = tmp_path / "weights"
    with pytest.raises(ToolError, match="weights: no such folder of weights"):
        LocalSandbox(Setup(1, SMALL, weights=str(folder)))
    (folder / "huggingface").mkdir(parents=True)
    (folder / "huggingface" / "token").write_text("hf_secret")
    with pytest.raises(ToolError, match=r"weights/huggingface/token: a token, which programs could read"):
        LocalSandbox(Setup(1, SMALL, weights=str(folder)))
    (folder / "huggingface" / "token").unlink()
    (folder / "bert").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match=r"weights/bert is a link to .*/elsewhere, where programs cannot follow it"):
        LocalSandbox(Setup(1, SMALL, weights=str(folder)))
    (folder / "bert").unlink()
    os.mkfifo(folder / "huggingface" / "pipe")
    with pytest.raises(ToolError, match=r"weights/huggingface/pipe is neither a file nor a folder"):
        LocalSandbox(Setup(1, SMALL, weights=str(folder)))
    (folder / "huggingface" / "pipe").unlink()
    if os.geteuid() == 0:
        (folder / "closed").write_text("x")
        (folder / "closed").chmod(0o600)
        refused = pytest.raises(ToolError, match=r"cannot read .*closed: chmod -R o\+rX")
        with LocalSandbox(Setup(1, SMALL, weights=str(folder))) as opened, refused:
            run(opened, public, "pass")


@pytest.mark.parametrize("place", ["..", "../..", "../private", "more"])
def test_answers_and_weights_lie_apart(place: str, public: Path) -> None:
    folder = public / place
    folder.mkdir(exist_ok=True)
    refused = pytest.raises(ToolError, match="which every solution can read, lie in one another: move either")
    with LocalSandbox(Setup(1, SMALL, weights=str(folder))) as opened, refused:
        run(opened, public, "pass")


@pytest.mark.parametrize("link", ["public", "private"])
def test_answers_are_found_where_a_link_parts_them_from_the_files(link: str, tmp_path: Path) -> None:
    public = make_public(tmp_path / "tasks")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (public.parent / link).rename(elsewhere / link)
    (public.parent / link).symlink_to(elsewhere / link)
    shown = tmp_path / "tasks" if link == "public" else elsewhere
    refused = pytest.raises(ToolError, match="which every solution can read, lie in one another: move either")
    with LocalSandbox(Setup(1, SMALL, weights=str(shown))) as opened, refused:
        run(opened, public, "pass")
    plan = mounts.MountPlan(binds=[(str(shown), "/usr/shown")])
    with pytest.raises(ToolError, match="which every solution can read: move the task data elsewhere"):
        mounts.refuse_shared_data(plan, public)


@pytest.mark.slow
def test_a_daemon_on_another_machine_shows_no_weights(
    docker_daemon: Daemon, weights: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    with DockerSandbox(Setup(1, SMALL, image=docker_daemon.small)) as opened:
        monkeypatch.setattr(opened._client.api, "base_url", "http://elsewhere:2375")
        with pytest.raises(ToolError, match=r"cannot be sent to the Docker daemon .* on the daemon's machine"):
            opened._refuse_unmountable(str(weights), f"{weights} cannot be sent")
    setup = Setup(1, SMALL, image=docker_daemon.small, weights=str(public.parent / "private"))
    with DockerSandbox(setup) as opened, pytest.raises(ToolError, match="lie in one another"):
        run(opened, public, "pass")


# /dev/shm

SIZES = """
    import os
    sizes = [os.statvfs(place) for place in ("/dev/shm", ".")]
    print(*(size.f_blocks * size.f_frsize >> 20 for size in sizes))
    with open("/dev/shm/a", "wb") as file:
        file.write(bytes(30 << 20))
    os.unlink("/dev/shm/a")
"""


def test_shared_memory_of_its_own_size(public: Path) -> None:
    with LocalSandbox(Setup(1, SMALL, shared_mb=40)) as opened:
        if not opened.protections["mount_namespace"]:
            pytest.skip("no namespaces here")
        assert printed(run(opened, public, SIZES, disk_mb=24)) == "40 24\n"
    with LocalSandbox(Setup(1, SMALL)) as opened:
        outcome = run(opened, public, SIZES, disk_mb=24)
        assert outcome.stdout == b"24 24\n" and b"No space left on device" in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [True, False])
def test_shared_memory_of_a_container(
    namespaces: bool, docker_daemon: Daemon, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    setup = Setup(1, SMALL, image=docker_daemon.small, shared_mb=100)
    with DockerSandbox(setup, namespaces=namespaces) as opened:
        try:
            _ = opened.protections
        except ToolError as error:
            pytest.skip(f"not on this kernel: {error}")
        assert printed(run(opened, public, SIZES, disk_mb=48)).startswith("100 ")


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [True, False])
def test_processes_of_a_container_pass_descriptors(
    namespaces: bool, docker_daemon: Daemon, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As workers of a DataLoader do: through a unix socket, which leads to nobody but the run itself."""
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    code = """
        import multiprocessing, os
        from multiprocessing.reduction import DupFd
        there, back = multiprocessing.Queue(), multiprocessing.Queue()
        def work():
            number = os.open("sent", os.O_RDWR | os.O_CREAT)
            os.write(number, b"batch")
            there.put(DupFd(number))
            back.get()
        process = multiprocessing.Process(target=work)
        process.start()
        print(os.pread(there.get(timeout=10).detach(), 9, 0))
        back.put(None)
        process.join()
    """
    with DockerSandbox(Setup(1, SMALL, image=docker_daemon.small), namespaces=namespaces) as opened:
        try:
            _ = opened.protections
        except ToolError as error:
            pytest.skip(f"not on this kernel: {error}")
        assert printed(run(opened, public, code)) == "b'batch'\n"


@pytest.mark.slow
def test_workers_of_a_data_loader(public: Path) -> None:
    """Batches of 48 MB beside a disk of 24."""
    pytest.importorskip("torch")
    code = """
        import torch
        class Pictures(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, at):
                return torch.full((3, 1024, 1024), at, dtype=torch.float32)
        loader = torch.utils.data.DataLoader(Pictures(), batch_size=4, num_workers=2)
        print(sum(batch[:, 0, 0, 0].sum().item() for batch in loader))
    """
    with LocalSandbox(Setup(1, SMALL, shared_mb=512)) as opened:
        if not opened.protections["mount_namespace"]:
            pytest.skip("no namespaces here")
        outcome = run(opened, public, code, wall_s=60.0, memory_mb=4096, processes=256, file_mb=256, disk_mb=24)
    assert printed(outcome) == "66.0\n"


def test_the_memory_of_a_container_counts_all_of_it() -> None:
    docker = pytest.importorskip("docker", reason="needs the [docker] extra")
    api = docker.APIClient(base_url="unix:///nowhere", version="1.41")
    try:
        plain = Kind(512, 64, 8, 1, None, None)
        more = Kind(512, 64, 8, 1, None, None, submission_mb=132, weights="/weights", shared_mb=164)
        limits = [host_config(api, kind, True) for kind in (plain, more)]
        assert limits[1]["Memory"] - limits[0]["Memory"] == (2 * 100 + 100) << 20  # type: ignore[operator]
        assert [len(limit.get("Mounts") or ()) for limit in limits] == [0, 1]  # type: ignore[arg-type]
        (mount,) = limits[1]["Mounts"]  # type: ignore[misc]
        assert (mount["Source"], mount["ReadOnly"], mount["Type"]) == ("/weights", True, "bind")
        assert "size=164m" in limits[1]["Tmpfs"]["/dev/shm"]  # type: ignore[index]
    finally:
        api.close()
