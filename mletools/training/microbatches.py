"""An optimiser step cut into micro-batches: rows of one prompt, or of like length, as many as go through at once.

How a step is cut changes nothing but the order of additions. Covered: several processes, each of which makes as many
forward passes as the others (sharded models gather their weights in each); a row without loss stands in where one has none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .steps import Row

SHORTEST_PREFIX = 32  # tokens; sharing fewer saves nothing
SLACK = 1 / 8  # of a group's longest row, at most this share is padding of another


@dataclass(frozen=True)
class Layout:
    """Size limits of a micro-batch: rows, and tokens that go through the model, padding included (None: no limit).

    pack: rows lie one behind the other; without, they are padded to the longest. share: a prompt that several rows of a
    micro-batch begin with goes through the model once, which wants them packed.
    """

    rows: int = 8
    tokens: int | None = None
    pack: bool = False
    share: bool = False


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a micro-batch that begin with the same `prefix` tokens.

    groups: (rows, tokens of the longest without the prefix) of those of like length, in order.
    """

    prefix: int
    groups: tuple[tuple[int, int], ...]

    @property
    def positions(self) -> int:
        return self.prefix + sum(rows * rest for rows, rest in self.groups)


def cut(rows: Sequence[Row], layout: Layout, processes: int = 1) -> list[list[list[Row]]]:
    """The micro-batches of each process: as many for one as for another, and each at most one row shorter than its fellows.

    Largest first, so that what does not fit in memory is found out at once. A row longer than the token bound goes alone.
    """

    def fits(chunk: Sequence[Row]) -> bool:
        share = chunk[::processes]  # the first process's, which is the longest
        if len(share) == 1:
            return True
        return len(share) <= layout.rows and (layout.tokens is None or _positions(share, layout) <= layout.tokens)

    chunks: list[list[Row]] = []  # what all processes do at once
    chunk: list[Row] = []
    for family in _families(rows, layout.share):
        if chunk and layout.share and len(family) > 1 and not fits([*chunk, *family]):
            chunks.append(chunk)  # a prompt in two micro-batches is computed twice
            chunk = []
        for row in family:
            if chunk and not fits([*chunk, row]):
                chunks.append(chunk)
                chunk = []
            chunk.append(row)
    chunks.append(chunk)
    chunks.sort(key=lambda chunk: -_positions(chunk, layout))
    return [[chunk[rank::processes] for chunk in chunks] for rank in range(processes)]


def _families(rows: Sequence[Row], share: bool) -> Iterator[list[Row]]:
    """The rows of each prompt that several share, then all others; each list longest first."""
    by_prompt: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: -len(row.tokens.input_ids)):
        by_prompt.setdefault(_prompt(row) if share else (), []).append(row)
    single = [family[0] for prompt, family in by_prompt.items() if prompt and len(family) == 1]
    yield from (family for prompt, family in by_prompt.items() if prompt and len(family) > 1)
    if rest := by_prompt.get((), []) + single:
        yield sorted(rest, key=lambda row: -len(row.tokens.input_ids))


def _prompt(row: Row) -> tuple[int, ...]:
    """The tokens that a row can share: those before the first one with loss, less the last, whose prediction is scored.

    Empty where these are too few.
    """
    length = row.tokens.prompt_length - 1
    return tuple(row.tokens.input_ids[:length]) if length >= SHORTEST_PREFIX else ()


def blocks(rows: Sequence[Row], layout: Layout) -> list[Block]:
    """How the rows of a micro-batch lie, in their order; of padded rows, one block of one group."""
    if not rows:
        return []
    if not layout.pack:
        return [Block(0, ((len(rows), max(len(row.tokens.input_ids) for row in rows)),))]
    parts: list[tuple[int, list[int]]] = []  # prefix, and the tokens of each row behind it
    for prompt, family in groupby(rows, lambda row: _prompt(row) if layout.share else ()):
        lengths = [len(row.tokens.input_ids) for row in family]
        prefix = len(prompt) if len(lengths) > 1 else 0
        if parts and not prefix and not parts[-1][0]:
            parts[-1][1].extend(lengths)
        else:
            parts.append((prefix, [length - prefix for length in lengths]))
    return [Block(prefix, _groups(lengths)) for prefix, lengths in parts]


def _groups(lengths: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(number, longest) of consecutive lengths that are alike."""
    found: list[tuple[int, int]] = []
    for length in lengths:
        count, longest = found[-1] if found else (0, 0)
        if found and (1 - SLACK) * longest <= length <= longest:
            found[-1] = count + 1, longest
        else:
            found.append((1, length))
    return tuple(found)


def _positions(rows: Sequence[Row], layout: Layout) -> int:
    """Positions of a micro-batch that go through the model, padding included."""
    return sum(block.positions for block in blocks(rows, layout))


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


def work(batches: Sequence[Sequence[Row]], layout: Layout) -> Work:
    """That of micro-batches, each of one process."""
    laid = [block for batch in batches for block in blocks(batch, layout)]
    return Work(
        sum(block.positions for block in laid),
        sum(len(row.tokens.input_ids) for batch in batches for row in batch),
        sum(block.prefix * (sum(rows for rows, _ in block.groups) - 1) for block in laid if block.prefix),
    )


def tensors_of(rows: Sequence[Row], pad: int) -> dict[str, Any]:
    """What TRL's loss reads of a micro-batch, padded right to its longest row; of no rows, one without loss.

    TRL pads prompts left and completions right, each to its longest. Here all rows' prompts end where the shortest does, and what is
    left of the others' begins their completions, where `tool_mask` is 0: so no row is longer than the longest.

    Shapes: prompt_* (B, P), completion_*, tool_mask, recorded_logps (B, C), advantages, recorded (B,); `recorded` is 1
    where a row has the sampler's log-probabilities.
    """
    import torch

    count = max(1, len(rows))
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
