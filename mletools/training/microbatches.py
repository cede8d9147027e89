"""An optimiser step cut into micro-batches: rollouts of one prompt, or of like length, as many as go through at once.

How a step is cut changes nothing but the order of additions. Covered: several processes, each of which makes as many
forward passes as the others (sharded models gather their weights in each); a row without loss stands in where one has none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from .steps import Row

if TYPE_CHECKING:
    import torch

SHORTEST_PREFIX = 32  # tokens; sharing fewer saves nothing
SLACK = 1 / 8  # where attention goes block by block


@dataclass(frozen=True)
class Layout:
    """Size limits of a micro-batch: rows, and tokens that go through the model, padding included (None: no limit).

    pack: rows lie one behind the other; without, they are padded to the longest. share: a prompt that several rows of a
    micro-batch begin with goes through the model once, which wants them packed. slack: of the longest of rows that are
    packed as a group, at most this share is padding of another.
    """

    rows: int = 8
    tokens: int | None = None
    pack: bool = False
    share: bool = False
    slack: float = SLACK


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
    """The micro-batches of each process: as many for one as for another, and each at most one rollout shorter than its fellows.

    The sequences of a rollout stay together. Where they do not fit into one micro-batch, they have several for themselves
    alone. Largest first, so that what does not fit in memory is found out at once. A row longer than the token bound goes
    alone.
    """

    def fits(chunk: Sequence[_Unit]) -> bool:
        share = chunk[::processes]  # the first process's, which is the longest
        together = [row for unit in share for row in unit.rows]
        if len(share) == 1:
            return True
        return not any(unit.alone for unit in chunk) and _fits(together, layout)

    chunks: list[list[_Unit]] = []  # what all processes do at once
    chunk: list[_Unit] = []
    for family in _families(rows, layout):
        if chunk and layout.share and len(family) > 1 and not fits([*chunk, *family]):
            chunks.append(chunk)  # a prompt in two micro-batches is computed twice
            chunk = []
        for unit in family:
            if chunk and not fits([*chunk, unit]):
                chunks.append(chunk)
                chunk = []
            chunk.append(unit)
    chunks.append(chunk)
    shares = [[_rows(chunk[rank::processes]) for rank in range(processes)] for chunk in chunks]
    shares.sort(key=lambda share: -sum(_positions(part, layout) for part in share))
    return [[share[rank] for share in shares] for rank in range(processes)]


@dataclass(frozen=True)
class _Unit:
    """Rows of one rollout, longest first; alone: not all of them, so no other's go with them."""

    rows: tuple[Row, ...]
    alone: bool = False


def _rows(units: Sequence[_Unit]) -> list[Row]:
    return [row for unit in units for row in unit.rows]


def _fits(rows: Sequence[Row], layout: Layout) -> bool:
    return len(rows) <= layout.rows and (layout.tokens is None or _positions(rows, layout) <= layout.tokens)


def _units(rows: Sequence[Row], layout: Layout) -> Iterator[_Unit]:
    by_rollout: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: -len(row.tokens.input_ids)):
        by_rollout.setdefault(row.sample.id, []).append(row)
    for own in by_rollout.values():
        parts: list[list[Row]] = [[]]
        for row in own:
            if parts[-1] and not _fits([*parts[-1], row], layout):
                parts.append([])
            parts[-1].append(row)
        yield from (_Unit(tuple(part), len(parts) > 1) for part in parts)


def _families(rows: Sequence[Row], layout: Layout) -> Iterator[list[_Unit]]:
    """The rollouts of each prompt that several share, then all others; each list longest first."""
    by_prompt: dict[tuple[int, ...], list[_Unit]] = {}
    for unit in _units(rows, layout):
        shares = layout.share and len(unit.rows) == 1
        by_prompt.setdefault(_prompt(unit.rows[0]) if shares else (), []).append(unit)
    single = [family[0] for prompt, family in by_prompt.items() if prompt and len(family) == 1]
    yield from (family for prompt, family in by_prompt.items() if prompt and len(family) > 1)
    if rest := by_prompt.get((), []) + single:
        yield sorted(rest, key=lambda unit: -len(unit.rows[0].tokens.input_ids))


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
    return [Block(prefix, _groups(lengths, layout.slack)) for prefix, lengths in parts]


def _groups(lengths: Sequence[int], slack: float) -> tuple[tuple[int, int], ...]:
    """(number, longest) of consecutive lengths that are alike."""
    found: list[tuple[int, int]] = []
    for length in lengths:
        count, longest = found[-1] if found else (0, 0)
        if found and (1 - slack) * longest <= length <= longest:
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


def tensors_of(rows: Sequence[Row], pad: int) -> "tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]":
    """(what the model reads of a micro-batch, what TRL's loss reads of it); of no rows, of one without loss.

    For the model, a row is a sequence, padded right to the longest: `ids` and `targets` (B, L), where targets[t] is the token
    behind ids[t] if it carries loss, else -100. For the loss, a row is a rollout, of whatever number of sequences, and has
    their loss tokens alone, in the order of the rows: completion_ids, completion_mask, recorded_logps (R, C), advantages and
    recorded (R,); `recorded` is 1 where a rollout has the sampler's log-probabilities. Its prompt_* are empty, (R, 0).
    """
    import torch

    count, length = max(1, len(rows)), max((2, *(len(row.tokens.input_ids) for row in rows)))
    ids, targets = torch.full((count, length), pad), torch.full((count, length), -100)
    rollouts = [list(own) for _, own in groupby(rows, lambda row: row.sample.id)]
    widths = [sum(row.tokens.loss_tokens for row in own) for own in rollouts]
    shape = (max(1, len(rollouts)), max((1, *widths)))
    completion_ids, completion_mask = torch.full(shape, pad), torch.zeros(shape, dtype=torch.long)
    recorded_logps = torch.zeros(shape)
    advantages, recorded = torch.zeros(shape[0]), torch.zeros(shape[0])
    for index, row in enumerate(rows):
        own = torch.tensor(row.tokens.input_ids)
        ids[index, : len(own)] = own
        targets[index, : len(own) - 1] = own[1:].masked_fill(torch.tensor(row.tokens.loss_mask[1:]) == 0, -100)
    for index, (own_rows, width) in enumerate(zip(rollouts, widths, strict=True)):
        tokens = [row.tokens for row in own_rows]
        completion_mask[index, :width] = 1
        completion_ids[index, :width] = torch.tensor([id for each in tokens for id in each.loss_of(each.input_ids)])
        if all(each.logprobs is not None for each in tokens):
            scores = [score for each in tokens for score in each.loss_of(each.logprobs or [])]
            recorded_logps[index, :width] = torch.tensor(scores)
            recorded[index] = 1.0
        advantages[index] = own_rows[0].advantage
    none = torch.zeros((shape[0], 0), dtype=torch.long)
    return {"ids": ids, "targets": targets}, {
        "prompt_ids": none,
        "prompt_mask": none,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "recorded_logps": recorded_logps,
        "recorded": recorded,
        "advantages": advantages,
    }
