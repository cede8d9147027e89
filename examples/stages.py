"""What each command line of an experiment needs, from what processes.py noted of its commands. See plan.py.

Memory of a trainer is the estimate of its --dry-run, for a micro-batch of one row of the sampler's whole context; of vLLM two
bytes a weight, the cache of one sequence of its context, and OVERHEAD. Hours and tokens are bounds: every run takes all of
its time and all of its turns. Not covered: tokens of searches and of traces that only a clock ends, samples that teach
nothing and are replaced, adapters in vLLM, the waiting of an on-policy trainer and its sampler for each other.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import processes
from options import module_of
from processes import Process, cards_of, share_of

from mletools.models.prices import Price, price_of
from mletools.training import memory
from mletools.training.algorithms import settle
from mletools.training.options import GrpoOptions
from mletools.training.sft import SftOptions

MODELS = Path(__file__).parent / "models.json"
GB = 1e9
USED = 0.9  # of a card, by all that is on it
OVERHEAD = 4.0  # GB of a vLLM on each card: CUDA's context and graphs, activations
INSTRUCTIONS = 4_096  # tokens of a task's text and what is asked
RESULT = 2_000  # tokens that a turn's result adds to the context
CONTEXT = 200_000  # tokens, where neither an option nor the configuration bounds them
ANSWERED = 80.0  # tokens a second of one answer
TRAINED = 3_500.0  # tokens a second and card of a trainer of 8.2 billion parameters (docs/gpu.md)
WEIGHTS = 8.2e9
ROLE_REQUESTS = 14  # of a draft of SandMLE's roles, with all attempts
RANK = 16
CARDS = (1, 2, 4, 8, 16, 32)
LENGTHS = (65_536, 49_152, 40_960, 32_768, 24_576, 16_384, 8_192, 4_096, 2_048)
Options = dict[str, Any]  # of a command by name, with its defaults


class MissingError(Exception):
    """What a plan cannot be made without."""


@dataclass(frozen=True)
class Machine:
    """servers: each URL=CARDS or URL=CARDS@SHARE. prices: USD a million tokens, prompt and completion. program_seconds: of a
    program, where its limit is longer. usd: of a run, as the experiment's paper tells it; 0: it does not.
    """

    cards: int
    card_gb: float
    host_gb: float
    cores: int
    servers: tuple[str, ...] = ()
    prices: dict[str, tuple[float, float]] = field(default_factory=dict)
    program_seconds: float = float("inf")
    usd: float = 0.0


class Use(NamedTuple):
    """Of cards. gb, room: of each card what is needed, and what it may take."""

    what: str
    cards: tuple[str, ...]
    gb: float
    room: float


@dataclass
class Stage:
    """A command line. open: more rollouts are sampled, where groups teach nothing. bounded: whether its tokens are.

    paper_usd: by what the paper tells of a run. faults: why it does not fit, with what to change; notes: what else to know.
    """

    name: str
    uses: list[Use] = field(default_factory=list)
    rollouts: int = 0
    open: bool = False
    seconds: float = 0.0
    prompt: float = 0.0
    completion: float = 0.0
    bounded: bool = True
    usd: float = 0.0
    paper_usd: float = 0.0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: "Stage") -> None:
        for name in ("rollouts", "seconds", "prompt", "completion", "usd", "paper_usd"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.bounded &= other.bounded


class Command(NamedTuple):
    """A process with its options."""

    process: Process
    options: Options

    @property
    def name(self) -> str:
        return self.process.command[0]

    @property
    def records(self) -> int:
        """Of its input."""
        return max(self.process.stdin, sum(map(lines, self.options["files"])))

    @property
    def slots(self) -> int:
        """Programs, or answers alone, at once."""
        jobs = int(self.options.get("jobs") or 1)
        cards = () if self.options.get("scaffold") == "single" else cards_of(self.options.get("gpus"))
        return min(jobs, len(cards) or jobs)


def lines(path: str) -> int:
    return Path(path).read_bytes().count(b"\n") if Path(path).is_file() else 0


def command_of(process: Process) -> Command:
    name, *words = process.command
    command: Any = import_module(module_of(name)).main
    return Command(process, dict(command.make_context(name, words).params))


# ---- models


@cache
def configuration(model: str) -> dict[str, Any]:
    """config.json of a folder, or what models.json has of it. MissingError: neither."""
    if (Path(model) / "config.json").is_file():
        return dict(json.loads((Path(model) / "config.json").read_text()))
    listed = json.loads(MODELS.read_text())
    if model not in listed:
        raise MissingError(
            f"{model}: its sizes are not known: hf download {model} --include '*.json' --local-dir FOLDER, and name the folder; or "
            f"add them to {MODELS.name}"
        )
    return dict(listed[model])


@cache
def shape_of(model: str, rank: int = 0) -> memory.Shape:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(configuration(model)))
        return memory.shape_of(folder, rank)


def positions(model: str) -> int:
    return int(configuration(model)["max_position_embeddings"])


def vllm_gb(model: str, across: int, length: int) -> float:
    """Of each card: weights, the cache of one sequence, OVERHEAD."""
    shape = shape_of(model)
    heads = shape.heads * shape.key_value // shape.query
    cache_bytes = 2 * memory.HALF * shape.layers * shape.key_value * length / min(across, heads)
    return (memory.HALF * shape.weights / across + cache_bytes) / GB + OVERHEAD


def trainer_gb(model: str, rank: int, rows: int, length: int, count: int, reference: bool) -> float:
    """Of each card, by FSDP over several."""
    spread = memory.Sharding(count, 3, memory.FSDP) if count > 1 else memory.Sharding()
    return sum(memory.estimate(shape_of(model, rank), rows, length, "GPU", spread, reference).values()) / GB


def local(spec: str | None) -> str | None:
    """The checkpoint of a model that runs in the command's own process."""
    found = re.match(r"(?:hf|vllm):(.*)", spec or "")
    return found.group(1) if found else None


def on_this_machine(url: str | None) -> bool:
    return bool(re.match(r"https?://(localhost|127\.)", url or ""))


# ---- stages


class Planner:
    """Makes stages of groups of processes, in their order: an evaluation knows what was trained before it."""

    def __init__(self, machine: Machine, out: Path) -> None:
        self.machine, self.out = machine, out
        self._models: dict[str, str] = {}  # of a run's folder the model that it began from
        self._context = self._longest = 0  # context of the last sampler, and of any so far

    def stages(self, groups: Iterable[Sequence[Process]]) -> Iterator[Stage]:
        for group in groups:
            commands = [command_of(each) for each in group if each.command]
            if any(
                re.match("mle-(rollout|train|sandbox)", each.name) or each.options.get("model") for each in commands
            ):
                yield self._stage(group, commands)

    def _stage(self, group: Sequence[Process], commands: Sequence[Command]) -> Stage:
        stage = Stage(self._name(group))
        trainer = next((each for each in commands if each.name.startswith("mle-train-")), None)
        if trainer:
            self._models[os.path.normpath(trainer.options["out"])] = trainer.options["model"]
        sampled = 0
        for each in commands:
            if each.name == "mle-rollout":
                sampled = self._sampled(stage, each, trainer)
                self._play(stage, each, sampled)
                self._engines(stage, each, trainer.options["model"] if trainer and each.options["forever"] else None)
            elif each.name == "mle-sandbox":
                stage.seconds += sampled * self._program(each.options) / each.slots
            elif each.name == "mle-gen-task" and each.options.get("model"):
                requests = each.options["number"] * ROLE_REQUESTS
                self._ask(stage, each.options, "", requests * INSTRUCTIONS, requests * INSTRUCTIONS)
                stage.seconds += requests * INSTRUCTIONS / ANSWERED / each.options["jobs"]
            elif each.options.get("model") and not each.name.startswith("mle-train-"):
                requests = each.records or sampled
                self._ask(stage, each.options, "", requests * INSTRUCTIONS, requests * RESULT)
                self._engines(stage, each, None)
        users = self._users(group)
        if trainer:
            self._train(stage, trainer, sampled, users)
            for process in processes.validation(trainer.process):
                self._validate(stage, trainer, command_of(process))
        self._host(stage, commands)
        self._cards(stage, users)
        stage.faults, stage.notes = (list(dict.fromkeys(each)) for each in (stage.faults, stage.notes))
        return stage

    def _name(self, group: Sequence[Process]) -> str:
        """The last run or file that the command line makes, below the experiment's folder."""
        made = [path for each in group if (path := each.value("--run-dir") or each.value("-o")) and os.sep in path]
        return (
            re.sub(r"\.jsonl(\.rollouts)?$", "", os.path.relpath(made[-1], self.out)) if made else group[-1].command[0]
        )

    def _base(self, spec: str) -> str:
        """The model that the training of what `spec` names began from."""
        path = os.path.normpath(spec)
        while (run := re.sub(r"/(latest|best)$", "", path)) in self._models:
            path = os.path.normpath(self._models[run])
        return path

    # what is sampled

    def _sampled(self, stage: Stage, command: Command, trainer: Command | None) -> int:
        """Rollouts; of an endless sampler those that its trainer takes, or of which it takes the first (--oversample)."""
        options = command.options
        count = command.records * int(options["group_size"])
        if not options["forever"]:
            stage.rollouts += count
            return count
        settings = settings_of(trainer) if trainer else None
        assert trainer and isinstance(settings, GrpoOptions)
        step = settings.groups_per_step * options["group_size"] if settings.batch is None else settings.batch
        taken = (trainer.options.get("max_steps") or 0) * round(step * (settings.oversample or 1))
        stage.open = not options.get("passes")
        taken = min(taken, count * options["passes"]) if options.get("passes") else taken
        stage.rollouts += taken
        return int(taken)

    def _program(self, options: Options) -> float:
        return min(float(options.get("timeout") or 60.0), self.machine.program_seconds)

    def _play(self, stage: Stage, command: Command, count: int) -> None:
        """Time and tokens of so many rollouts."""
        options = command.options
        scaffold, turns, answer = options["scaffold"], options.get("max_turns") or 1, answer_of(options)
        limit, traces = options.get("max_seconds"), options.get("max_traces") if options["scaffold"] == "memory" else 1
        bounded = scaffold != "search" and traces is not None
        turns *= traces or 1
        if scaffold == "single":
            seconds = answer / ANSWERED  # programs come later
        elif bounded:
            seconds = turns * (self._program(options) + answer / ANSWERED)
            seconds = min(seconds, limit or seconds)
        else:
            seconds = limit or 0.0
        stage.seconds += count * seconds / command.slots
        window = min(options.get("context_tokens") or CONTEXT, CONTEXT)
        read = sum(min(window, INSTRUCTIONS + turn * (answer + RESULT)) for turn in range(turns)) if bounded else 0
        said = min(turns * answer, options.get("max_tokens") or turns * answer) if bounded else 0
        stage.bounded &= bounded
        self._ask(stage, options, "", count * read, count * said)
        for role, asked in (("ideator", turns), ("implementer", 1), ("research", 0), ("develop", 0)):
            model = options.get(role) or options.get(f"{role}_model")
            if model and model not in ("null", "vague"):
                prompt = count * asked * (INSTRUCTIONS + options.get("trajectory_tokens", 0))
                self._ask(stage, options, role, prompt, count * asked * (options.get(f"{role}_max_tokens") or answer))
        if scaffold in ("search", "codeact") and self.machine.usd and not on_this_machine(options["model_url"]):
            stage.paper_usd += count * self.machine.usd

    def _ask(self, stage: Stage, options: Options, role: str, prompt: float, completion: float) -> None:
        """Count tokens of a model in a role ("": the policy), and what they cost."""
        model = options.get(role) or options.get(f"{role}_model" if role else "model") or ""
        url = options.get(f"{role}_url") or options.get("model_url")
        stage.prompt += prompt
        stage.completion += completion
        if local(model) is not None or not url:
            return
        if on_this_machine(url):
            if not any(server.partition("=")[0] == url for server in self.machine.servers):
                stage.faults.append(f"{model} at {url} has no cards: SERVERS={url}=CARDS, or a server elsewhere")
            return
        own = options.get(f"{role}_price" if role else "price")
        price = self.machine.prices.get(model) or own
        known = Price.of(*price) if price else price_of(model, url)
        if known is None:
            stage.notes.append(f"the price of {model} at {url} is not known, and counts as 0 (PRICES=FILE)")
        else:
            stage.usd += known.usd(1, 0) * prompt + known.usd(0, 1) * completion

    # what is on cards

    def _users(self, group: Sequence[Process]) -> list[processes.User]:
        """Who is on cards while the command line runs; servers always are."""
        found = processes.users([*group, *(each for one in group for each in processes.validation(one))])
        for server in self.machine.servers:
            url, _, place = server.partition("=")
            cards, _, share = place.partition("@")
            found.append(processes.User(f"the server at {url}", cards_of(cards), float(share) if share else None))
        return found

    def _engines(self, stage: Stage, command: Command, follows: str | None) -> None:
        """vLLM in the command's own process, of the policy and of an ideator; follows: the model whose training it samples for."""
        options, process = command.options, command.process
        if follows:
            self._context = context_of(options)
        self._served(stage, options, follows)
        for spec, tokens in (
            (options["model"], context_of(options)),
            (options.get("ideator"), ideator_context(options)),
        ):
            if (checkpoint := local(spec)) is not None:
                model = self._base(follows or checkpoint)
                self._vllm(stage, model, tokens, process.cards, process.engine)

    def _served(self, stage: Stage, options: Options, follows: str | None) -> None:
        """The server of the policy, where it is on this machine."""
        for server in self.machine.servers:
            url, _, place = server.partition("=")
            if url == options.get("model_url") and local(options["model"]) is None:
                cards, _, share = place.partition("@")
                engine = f"tensor_parallel_size={len(cards_of(cards))}" + (
                    f" gpu_memory_utilization={share}" if share else ""
                )
                self._vllm(stage, self._base(follows or options["model"]), context_of(options), cards, engine)

    def _vllm(self, stage: Stage, model: str, tokens: int, cards: str, engine: str) -> None:
        arguments = dict(re.findall(r"(\w+)=(\S+)", engine))
        across, length = (
            int(arguments.get("tensor_parallel_size", 1)),
            int(arguments.get("max_model_len", positions(model))),
        )
        needed, room = vllm_gb(model, across, length), self.machine.card_gb * (share_of(engine) or USED)
        self._context = min(tokens, length)
        self._longest = max(self._longest, self._context)
        stage.uses.append(Use(f"vLLM of {model}", cards_of(cards), needed, room))
        if tokens > length:
            stage.faults.append(
                f"{model} is asked for up to {tokens:,} tokens, and its context has {length:,}: a folder with YaRN (../yarn.py) as POLICY, "
                f"or fewer tokens"
            )
        if needed <= room:
            return
        whole = self.machine.card_gb * USED
        ways = [
            f"{n} cards of its own" if n > 1 else "a card of its own"
            for n in CARDS[:4]
            if vllm_gb(model, n, length) <= whole
        ][:1]
        ways += [f"a share of {needed / self.machine.card_gb:.2f}"] if needed <= whole and room < whole else []
        ways += [f"CONTEXT={n}" for n in LENGTHS if n < length and n >= tokens and vllm_gb(model, across, n) <= room][
            :1
        ]
        stage.faults.append(
            f"vLLM of {model} needs {needed:.0f} GB of each card and may take {room:.0f}: {', or '.join([*ways, 'a smaller model'])}"
        )

    def _train(self, stage: Stage, trainer: Command, rollouts: int, users: Sequence[processes.User]) -> None:
        settings, process = settings_of(trainer), trainer.process
        model, rank, cards = self._base(trainer.options["model"]), settings.lora_rank, cards_of(process.cards)
        count = int(process.value("--num_processes") or 1)
        length = min((self._context if rollouts else self._longest) or CONTEXT, positions(model))
        reference = isinstance(settings, GrpoOptions) and settings.beta != 0.0
        rows = settings.micro_batch or 1
        if isinstance(settings, GrpoOptions) and settings.micro_tokens:
            rows = max(1, min(settings.micro_batch or CONTEXT, settings.micro_tokens // length))
        taken = sum(each.share or 0 for each in users if set(each.cards) & set(cards))
        needed, room = trainer_gb(model, rank, rows, length, count, reference), self.machine.card_gb * (USED - taken)
        which = f"LoRA {rank}" if rank else "all weights"
        stage.uses.insert(0, Use(f"trainer of {model} ({which}, {rows} x {length:,} tokens)", cards, needed, room))
        share = 1 / (
            (isinstance(settings, GrpoOptions) and settings.oversample) or 1
        )  # of the rollouts, that is trained on
        tokens = (rollouts or trainer.records) * share * length * settings.epochs
        stage.seconds += tokens / (TRAINED * WEIGHTS / shape_of(model).weights * count)
        if len(cards) != count:
            stage.faults.append(f"the trainer has {count} processes and {len(cards)} cards (LAUNCH, TRAINER_GPUS)")
        if taken and not (settings.micro_batch or getattr(settings, "micro_tokens", None)):
            stage.faults.append(
                f"the trainer would fill what is free before vLLM takes its share: MICRO_TOKENS={length}"
            )
        if needed <= room:
            return
        whole = self.machine.card_gb * USED

        def gb(count: int, rank: int, length: int, rows: int = 1) -> float:
            return trainer_gb(model, rank, rows, length, count, reference)

        ways = [
            f"{n} TRAINER_GPUS ({gb(n, rank, length):.0f} GB each)"
            for n in CARDS
            if n > count and gb(n, rank, length) <= whole
        ][:1]
        ways += ["one row at a time (MICRO_BATCH=1)"] if rows > 1 else []
        ways += (
            [f"LORA_RANK={RANK} ({gb(count, RANK, length):.0f} GB)"]
            if not rank and gb(count, RANK, length) <= room
            else []
        )
        ways += [f"rows of {n:,} tokens" for n in LENGTHS if n < length and gb(count, rank, n) <= room][:1]
        stage.faults.append(
            f"the trainer needs {needed:.0f} GB of each card and may take {room:.0f}: "
            f"{', or '.join([*ways, 'a smaller model or another engine (docs/training.md)'])}"
        )

    def _validate(self, stage: Stage, trainer: Command, command: Command) -> None:
        """What --validate samples at each checkpoint, by an engine beside the sampler's."""
        if command.name != "mle-rollout":
            return
        played = Command(command.process, {**command.options, "model": f"vllm:{trainer.options['model']}"})
        inner = Stage("")
        times = -(-int(trainer.options.get("max_steps") or 0) // settings_of(trainer).save_steps)
        inner.rollouts = command.records * int(command.options["group_size"]) * times
        self._play(inner, played, inner.rollouts)
        self._engines(inner, played, trainer.options["model"])
        stage.add(inner)
        stage.uses += inner.uses
        stage.faults += inner.faults

    def _cards(self, stage: Stage, users: Sequence[processes.User]) -> None:
        """Cards that two want, and cards that are not there."""
        shares = "other cards, or shares of it (SAMPLER_SHARE, VALIDATOR_SHARE, EVALUATOR_SHARE)"
        stage.faults += [f"{line}: {shares}" for line in processes.shared(users)]
        for user in users:
            if absent := [card for card in user.cards if card.isdigit() and int(card) >= self.machine.cards]:
                stage.faults.append(
                    f"{user.what}: the machine has no card {', '.join(absent)} (GPUS={self.machine.cards})"
                )
        for user in users:
            if user.what == processes.PROGRAMS:
                stage.uses.append(Use("programs, one each", user.cards, 0, self.machine.card_gb))

    def _host(self, stage: Stage, commands: Sequence[Command]) -> None:
        """Memory and cores of the programs."""
        boxes = [
            each for each in commands if each.options.get("memory_size") and each.options.get("scaffold") != "single"
        ]
        for each in boxes[:1]:
            size, threads = each.options["memory_size"] / 1000, each.options.get("threads") or 1
            if each.slots * size > self.machine.host_gb:
                stage.faults.append(
                    f"{each.slots} programs of {size:.0f} GB at once, and the machine has {self.machine.host_gb:.0f} GB (HOST_GB): "
                    f"JOBS={int(self.machine.host_gb // size)}, or a smaller MEMORY"
                )
            if each.slots * threads > self.machine.cores:
                stage.notes.append(
                    f"{each.slots} programs of {threads} cores at once share {self.machine.cores} (CORES): JOBS, THREADS"
                )


def settings_of(trainer: Command) -> GrpoOptions | SftOptions:
    """Those of the trainer, its preset's among them."""
    kind = GrpoOptions if trainer.name == "mle-train-grpo" else SftOptions
    names = kind.__dataclass_fields__.keys()
    given = {name: value for name, value in trainer.options.items() if name in names and value not in (None, ())}
    return GrpoOptions(**settle(given, trainer.options.get("preset"))) if kind is GrpoOptions else SftOptions(**given)


def answer_of(options: Options) -> int:
    return int(options.get("max_answer_tokens") or options.get("max_tokens") or INSTRUCTIONS)


def context_of(options: Options) -> int:
    """Tokens of the policy's longest prompt with its answer."""
    answer = answer_of(options)
    if options.get("scaffold") == "idea":
        return int(options["trajectory_tokens"]) + answer
    earlier = answer if options.get("scaffold") == "improve" else 0
    return int(options.get("context_tokens") or INSTRUCTIONS + earlier) + answer


def ideator_context(options: Options) -> int:
    return int(options.get("trajectory_tokens") or 0) + int(options.get("ideator_max_tokens") or answer_of(options))
