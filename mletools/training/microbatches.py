"""An optimiser step cut into micro-batches: rows of one prompt, or of like length, padded to their own longest.

How a step is cut changes nothing but the order of additions. Covered: several processes, each of which makes as many
forward passes as the others (sharded models gather their weights in each); a row without loss fills up where rows are
missing. Not covered: packing rows that share nothing into one sequence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .steps import Row

SHORTEST_PREFIX = 32  # tokens; sharing fewer saves nothing


@dataclass(frozen=True)
class Layout:
    """Size limits of a micro-batch: rows, and tokens that go through the model, padding included (None: no limit).

    share: rows of one prompt form micro-batches of their own, whose common prefix goes through the model once.
    """

    rows: int = 8
    tokens: int | None = None
    share: bool = False


def cut(rows: Sequence[Row], layout: Layout, processes: int = 1) -> list[list[list[Row]]]:
    """The micro-batches of each process: as many for one as for another, and each at most one row shorter than its fellows.

    Largest first, so that what does not fit in memory is found out at once. A row longer than the token bound goes alone.
    """
    chunks: list[list[Row]] = []  # what all processes do at once
    for family in _families(rows, layout.share):
        chunk: list[Row] = []
        chunks.append(chunk)
        for row in family:
            each = -(-(len(chunk) + 1) // processes)
            full = each > layout.rows
            if chunk and layout.tokens is not None and each > 1:
                full = full or _positions([*chunk, row][:each], layout.share) > layout.tokens
            if full:
                chunks.append(chunk := [])
            chunk.append(row)
    chunks.sort(key=lambda chunk: -_positions(chunk, layout.share))
    return [[chunk[rank::processes] for chunk in chunks or [[]]] for rank in range(processes)]


def _families(rows: Sequence[Row], share: bool) -> Iterator[list[Row]]:
    """The rows of each prompt that several share, then all others; each list longest first."""
    by_prompt: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: -len(row.tokens.input_ids)):
        length = row.tokens.prompt_length if share else 0
        prompt = tuple(row.tokens.input_ids[:length]) if length > SHORTEST_PREFIX else ()
        by_prompt.setdefault(prompt, []).append(row)
    single = [family[0] for prompt, family in by_prompt.items() if prompt and len(family) == 1]
    yield from (family for prompt, family in by_prompt.items() if prompt and len(family) > 1)
    if rest := by_prompt.get((), []) + single:
        yield sorted(rest, key=lambda row: -len(row.tokens.input_ids))


def shared_length(rows: Sequence[Row]) -> int:
    """Tokens that all rows begin with and that predict no token with loss; 0 where these are too few to be shared."""
    if len(rows) < 2:
        return 0
    first, *others = (row.tokens.input_ids for row in rows)
    # the token before the first one with loss is each row's own: its prediction is scored
    length = min(row.tokens.prompt_length for row in rows) - 1
    for ids in others:
        length = next((at for at in range(length) if ids[at] != first[at]), length)
    return length if length >= SHORTEST_PREFIX else 0


def _positions(rows: Sequence[Row], share: bool) -> int:
    """Positions of a micro-batch that go through the model, padding included."""
    prefix = shared_length(rows) if share else 0
    return prefix + len(rows) * (max((len(row.tokens.input_ids) for row in rows), default=0) - prefix)


@dataclass(frozen=True)
class Work:
    """What goes through the model. positions: padding included; tokens: of all rows; shared: of these, not repeated."""

    positions: int
    tokens: int
    shared: int

    @property
    def padding_share(self) -> float:
        """Of the positions, the share without a token."""
        return 1.0 - (self.tokens - self.shared) / self.positions if self.positions else 0.0

    @property
    def shared_share(self) -> float:
        """Of the rows' tokens, the share that does not go through the model because another row begins with it, too."""
        return self.shared / self.tokens if self.tokens else 0.0


def work(batches: Sequence[Sequence[Row]], share: bool = False) -> Work:
    """That of micro-batches, each of one process."""
    saved = [(len(batch) - 1) * shared_length(batch) if share and batch else 0 for batch in batches]
    return Work(
        sum(_positions(batch, share) for batch in batches),
        sum(len(row.tokens.input_ids) for batch in batches for row in batch),
        sum(saved),
    )


def tensors_of(rows: Sequence[Row], pad: int, count: int = 1) -> dict[str, Any]:
    """What TRL's loss reads of a micro-batch, padded right to its longest row; filled up with rows without loss.

    TRL pads prompts left and completions right, each to its longest. Here all rows' prompts end where the shortest does, and what is
    left of the others' begins their completions, where `tool_mask` is 0: so no row is longer than the longest.

    count: rows at least. The first process's micro-batch is the longest, and the others' have as many rows.

    Shapes: prompt_* (B, P), completion_*, tool_mask, recorded_logps (B, C), advantages, recorded (B,); `recorded` is 1
    where a row has the sampler's log-probabilities.
    """
    import torch

    count = max(1, count, len(rows))
    split = min((row.tokens.prompt_length for row in rows), default=1)
    longest = max((1, *(len(row.tokens.input_ids) - split for row in rows)))
    prompt_ids = torch.full((count, split), pad)
    prompt_mask = torch.ones((count, split), dtype=torch.long)
    completion_ids = torch.full((count, longest), pad)
    completion_mask = torch.zeros((count, longest), dtype=torch.long)
    tool_mask = torch.zeros((count, longest), dtype=torch.long)
    recorded_logps = torch.zeros((count, longest))
    advantages, recorded = torch.zeros(count), torch.zeros(count)
    for index, row in enumerate(rows):
        tokens, length = row.tokens, len(row.tokens.input_ids) - split
        prompt_ids[index] = torch.tensor(tokens.input_ids[:split])
        completion_ids[index, :length] = torch.tensor(tokens.input_ids[split:])
        completion_mask[index, :length] = 1
        tool_mask[index, :length] = torch.tensor(tokens.loss_mask[split:])
        if tokens.logprobs is not None:
            recorded_logps[index, :length] = torch.tensor(tokens.logprobs[split:])
            recorded[index] = 1.0
        advantages[index] = row.advantage
    completion_mask[len(rows) :, 0] = 1  # a row without any visible token would turn attention into 0 / 0
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "recorded_logps": recorded_logps * tool_mask,
        "recorded": recorded,
        "advantages": advantages,
    }
