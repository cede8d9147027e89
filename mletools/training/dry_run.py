"""What a trainer's --dry-run says: the size of a step, and the memory that it needs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..base.errors import RecordError, ToolError
from ..base.jsonl import Line
from ..records.rollout import Rollout
from . import memory, policy
from .options import TrainingOptions
from .samples import Sample, sample_of
from .sft import SftOptions
from .step_loader import processes

ASSUMED_GROUP = 8
UNKNOWN_CONTEXT = 4096


def describe(
    model: str,
    options: TrainingOptions,
    lines: Sequence[Line[Rollout]],
    reject: Callable[[Line[Rollout], str], None],
    rows: int | None,
    groups: int = 0,
    reference: bool = False,
    check: Callable[[Sample], None] = lambda sample: None,
    together: Callable[[Sequence[Sample]], object] = lambda samples: None,
) -> list[str]:
    """Human-readable lines about the largest step of the input. A model that cannot be read is one of them, no error.

    rows: rollouts of a step; None: those of `groups` groups of the input's mean size. reject: gets the records that
    cannot be trained on, as in a run. check: RecordError for a sample that the run refuses; together: for all of them. reference: the KL term needs a
    second model. Without rollouts they are as long as the model's context.
    """
    policy.require_libraries()
    try:
        model = _local(model)
        vocabulary = policy.vocabulary_size(model)
        rendered = any(not any(message.get("token_ids") for message in line.record["messages"]) for line in lines)
        tokenizer = policy.load_tokenizer(model) if rendered else None
    except ToolError as error:
        return [_no_estimate(error)]
    samples = _samples(lambda record: sample_of(record, vocabulary, tokenizer), lines, reject, check)
    together(samples)
    lengths = [
        len(each.input_ids) for sample in samples if sample.kept for each in sample.sequences if each.loss_tokens
    ]
    try:
        if rows is None:
            found = len({line.record["group"] for line in lines})
            rows = groups * (-(-len(lines) // found) if found else ASSUMED_GROUP)
        micro_batch = options.rows(processes()) if isinstance(options, SftOptions) else options.micro_batch
        assumed = ""
        if not lengths:
            lengths = [policy.context_length(model) or UNKNOWN_CONTEXT] * rows
            assumed = " (no rollouts: each as long as the model's context)"
        size = memory.step_size(lengths, rows, micro_batch, getattr(options, "micro_tokens", None))
        return [
            f"a step: up to {size.rows} sequences of {size.tokens:,} tokens; the largest micro-batch: "
            f"{size.micro_rows} of {size.length:,} tokens{assumed}",
            *memory.report(model, options.lora_rank, size, reference, options.logits_memory, options.dtype),
        ]
    except ToolError as error:
        return [_no_estimate(error)]


def _no_estimate(error: ToolError) -> str:
    return f"memory is not estimated: {error}"


def _local(model: str) -> str:
    """The folder of a model, of one at the hub where its configuration has been downloaded. ToolError: nowhere here."""
    resolved = policy.resolve_model(model)
    if Path(resolved).is_dir():
        return resolved
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, "config.json")
    if not isinstance(config, str):
        raise ToolError(
            f"{model} is not on this machine, and a dry run downloads nothing: hf download {model} --include '*.json'"
        )
    return str(Path(config).parent)


def _samples(
    read: Callable[[Rollout], Sample],
    lines: Sequence[Line[Rollout]],
    reject: Callable[[Line[Rollout], str], None],
    check: Callable[[Sample], None],
) -> list[Sample]:
    """Those that the run would take."""
    samples = []
    for line in lines:
        try:
            sample = read(line.record)
            check(sample)
        except RecordError as error:
            reject(line, str(error))
            continue
        samples.append(sample)
    return samples
