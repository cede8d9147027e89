"""Write the stand-in model of the rehearsal: a tiny language model that recites, with a real vocabulary.

    python examples/rehearsal_model.py SMALL_MODEL FOLDER

SMALL_MODEL is what small_model.py writes: its vocabulary is taken over. The chat template drops what was thought before the last
question, as Qwen3's and QwQ's do, so that a trainer gets several sequences of a rollout. The model is a Llama of two
layers with a context of 131,072 tokens, in float32. Its weights are not trained but computed: it recognises the prompts
of mletools in a context of any length and recites a reply of rehearsal_replies.py, drawing at each choice. Servers,
samplers and trainers treat it as any other model. It can do nothing else: a context without a known prompt gets an
empty reply.

How it works. Each token has a random code. In layer 1, head k copies the code of the token k places back, so that a
position holds its last WINDOW tokens. A neuron for each prompt raises a flag after twelve tokens that stand in no other
prompt. In layer 2, a head finds the flag of the highest rank. A neuron for each place in each reply detects the tokens
before it, and the flag where these do not decide alone; it writes the code of the next token.
"""

import math
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rehearsal_replies import REPLIES, SCORED

CONTEXT = 131_072
WINDOW = 12  # tokens that a position knows
CODE = 20  # dimensions of a token's code
CONSTANT = WINDOW * CODE  # the dimension that is 1 everywhere
FLAGS = 32  # dimensions after it, one for each prompt, and one for a score
HEADS, HEAD = 12, 32  # with the same keys and values: a cache of 512 bytes a token
WIDTH = 24 * HEADS  # a multiple of them; what is left serves the codes of the next token alone
PAIRS = HEAD // 2
ROPE = 1e8  # the base of the rotations: the first pairs tell places apart, the last two are the same at any distance
PLACING = 8  # pairs that tell places apart
SHARP = 25.0  # difference of attention scores between what is looked for and all else
STEEP = 40.0  # of a neuron: half a token more or less is on or off
ROUTE = 2.0  # a flag weighs as much as this many tokens
LOUD = 100.0  # of the next token's code over what else a position holds
CERTAIN = 40.0  # logit of the next token; others have at most half
END = 4.0  # weight of the end of a reply, which comes where nothing else does

# Each message between its marks; of an answer before the last question what comes behind its thoughts.
TEMPLATE = (
    "{% set asked = namespace(at=0) %}{% for m in messages %}{% if m['role'] == 'user' %}{% set asked.at = loop.index0 %}{% endif %}"
    "{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}"
    "{% if m['role'] == 'assistant' and loop.index0 < asked.at %}{{ m['content'].split('</think>')[-1].lstrip('\\n') }}"
    "{% else %}{{ m['content'] }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
PARTS = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
    "input_layernorm",
    "post_attention_layernorm",
)

Choice = tuple[tuple[int, float], ...]  # (token, probability)
Pattern = tuple[int | None, ...]  # the last tokens; None: any
Route = tuple[str, bool | None]  # prompt, and whether a score is in the context; None: no matter


def choices(tokenizer: Any, text: str) -> Iterator[Choice]:
    """The tokens of a reply, each certain or a choice."""
    for at, part in enumerate(re.split(r"<<(.*?)>>", text)):
        if at % 2 == 0:
            yield from (((token, 1.0),) for token in tokenizer(part, add_special_tokens=False)["input_ids"])
            continue
        words = list("0123456789") if part == "digit" else part.split("|")
        tokens = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        if any(len(token) != 1 for token in tokens):
            sys.exit(f"<<{part}>>: each word of a choice has to be one token")
        yield tuple((token[0], 1 / len(words)) for token in tokens)


def continuations(tokenizer: Any) -> dict[Pattern, dict[Route, Choice]]:
    """What comes next after each pattern that a reply has, by the route that leads there."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": ""}], tokenize=False, add_generation_prompt=True)
    begin = tokenizer(text[text.rindex("<|im_start|>") :], add_special_tokens=False)["input_ids"]
    after: dict[Pattern, dict[Route, Choice]] = defaultdict(dict)
    for name, replies in REPLIES.items():
        scored = replies.scored
        for route, weighted in (((name, False if scored else None), replies.first), ((name, True), scored)):
            drawn: dict[Pattern, dict[int, float]] = defaultdict(lambda: defaultdict(float))  # after all before it
            for weight, reply in weighted:
                history: Pattern = tuple(begin)
                for choice in [*choices(tokenizer, reply), ((tokenizer.eos_token_id, 1.0),)]:
                    for token, probability in choice:
                        drawn[history][token] += weight * probability
                    history += (choice[0][0] if len(choice) == 1 else None,)
            for history, weights in drawn.items():
                total = sum(weights.values())
                choice = tuple(sorted((token, round(weight / total, 6)) for token, weight in weights.items()))
                if after[history[-WINDOW:]].setdefault(route, choice) != choice:
                    where = tokenizer.decode([token for token in history if token is not None])
                    sys.exit(f"{name}: its replies go on in two ways after the same {WINDOW} tokens: {where[-200:]!r}")
    return after


def markers(tokenizer: Any) -> list[list[list[int]]]:
    """Runs of tokens that raise a flag: of each prompt one that no other has, from its own words; then of a score."""
    import mletools

    folder = Path(mletools.__file__).parent / "prompts"
    parts = {
        path.stem: [
            tokenizer(part, add_special_tokens=False)["input_ids"][2:-2]  # the ends may merge with what is filled in
            for part in re.split(r"\{\{.*?\}\}", path.read_text(encoding="utf-8").strip())
        ]
        for path in sorted(folder.glob("*.md"))
    }
    runs = {
        name: [tuple(part[at : at + WINDOW]) for part in of_prompt for at in range(len(part) - WINDOW + 1)]
        for name, of_prompt in parts.items()
    }
    found = []
    for name in REPLIES:
        others = {run for other in runs if other != name for run in runs[other]}
        own = [run for run in runs[name] if run not in others]
        if not own:
            sys.exit(f"{name}: no {WINDOW} of its tokens are its own")
        found.append([list(own[0])])
    return [*found, [tokenizer(text, add_special_tokens=False)["input_ids"] for text in SCORED]]


class Neuron(NamedTuple):
    """Detects the last tokens, and flags, and says what comes next."""

    pattern: Pattern
    route: Route | None
    next: Choice


def neurons(after: Mapping[Pattern, Mapping[Route, Choice]]) -> list[Neuron]:
    """A neuron for each pattern and route; one for all routes, where they go on alike after a whole window."""
    listed: list[Neuron] = []
    for pattern, following in after.items():
        if len(set(following.values())) == 1 and len(pattern) == WINDOW:
            listed.append(Neuron(pattern, None, next(iter(following.values()))))
        else:
            listed += [Neuron(pattern, route, choice) for route, choice in following.items()]
    return listed


def placing() -> tuple[Any, Any]:
    """(angles of the pairs that tell places apart, their weight), so that one place has SHARP more than any other."""
    import torch

    angles = ROPE ** (-torch.arange(PLACING, dtype=torch.float64) / PAIRS)
    away = torch.cat([torch.arange(-WINDOW, 0), torch.arange(1, CONTEXT)]).to(torch.float64)
    gap = (1 - torch.cos(away[:, None] * angles)).sum(1).min()
    return angles, SHARP / gap


def write(model: Any, tokenizer: Any) -> None:
    """The weights, all others zero. Sizes of what a norm sees: a code is 1 long, and so is the constant."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def codes(count: int, width: int) -> Any:
        return torch.nn.functional.normalize(torch.randn(count, width, generator=generator), dim=1)

    tensors = dict(model.named_parameters())
    for tensor in tensors.values():
        tensor.data.zero_()
    layers = [{name: tensors[f"model.layers.{at}.{name}.weight"].data for name in PARTS} for at in range(2)]
    listed = neurons(continuations(tokenizer))
    flags = markers(tokenizer)
    prompts = {name: CONSTANT + 1 + at for at, name in enumerate(REPLIES)}
    score = CONSTANT + 1 + len(prompts)

    # tokens
    code = codes(len(tokenizer), CODE)
    tensors["model.embed_tokens.weight"].data[:, :CODE] = code
    tensors["model.embed_tokens.weight"].data[:, CONSTANT] = 1
    for norm, size in (
        (layers[0]["input_layernorm"], 2),
        (layers[0]["post_attention_layernorm"], WINDOW + 1),
        (layers[1]["input_layernorm"], WINDOW + 1),
        (layers[1]["post_attention_layernorm"], WINDOW + 2),
    ):
        norm.fill_((size / WIDTH) ** 0.5)
    tensors["model.norm.weight"].data.fill_(CERTAIN / WIDTH**0.5)

    # layer 1: the last tokens, and flags
    angles, weight = placing()
    loudness = (weight * HEAD**0.5) ** 0.5
    layers[0]["self_attn.k_proj"][:PLACING, CONSTANT] = loudness
    layers[0]["self_attn.v_proj"][:CODE, :CODE] = torch.eye(CODE)
    for back in range(1, WINDOW):
        row = (back - 1) * HEAD
        layers[0]["self_attn.q_proj"][row : row + PLACING, CONSTANT] = loudness * torch.cos(back * angles).float()
        turned = slice(row + PAIRS, row + PAIRS + PLACING)
        layers[0]["self_attn.q_proj"][turned, CONSTANT] = -loudness * torch.sin(back * angles).float()
        layers[0]["self_attn.o_proj"][back * CODE : (back + 1) * CODE, row : row + CODE] = torch.eye(CODE)

    def look_for(layer: int, neuron: int, pattern: Sequence[int | None], route: Route | None = None) -> None:
        gate, wanted = layers[layer]["mlp.gate_proj"][neuron], 0.0
        for back, token in enumerate(reversed(pattern)):
            if token is not None:
                gate[back * CODE : (back + 1) * CODE] = STEEP * code[token]
                wanted += 1
        if route is not None:
            gate[prompts[route[0]]] = STEEP * ROUTE
            wanted += ROUTE
            if route[1] is not None:
                gate[score] = STEEP * ROUTE * (1 if route[1] else -1)
                wanted += ROUTE * route[1]
        gate[CONSTANT] = -STEEP * (wanted - 0.5)
        layers[layer]["mlp.up_proj"][neuron, CONSTANT] = 2 / STEEP

    runs = [(flag, run) for flag, of_flag in zip([*prompts.values(), score], flags, strict=True) for run in of_flag]
    for neuron, (flag, run) in enumerate(runs):
        look_for(0, neuron, run)
        layers[0]["mlp.down_proj"][flag, neuron] = 1

    # layer 2: the first of the prompts in REPLIES that has its flag up (head 0), and whether a score has (head 1)
    ranks = {flag: SHARP * (len(prompts) - at) for at, flag in enumerate(prompts.values())}
    for head, ranked in enumerate((ranks, {score: SHARP})):
        pair = PAIRS - 1 - head  # the same at any distance
        layers[1]["self_attn.q_proj"][head * HEAD + pair, CONSTANT] = HEAD**0.5
        for flag, rank in ranked.items():
            value = flag - CONSTANT - 1
            layers[1]["self_attn.k_proj"][pair, flag] = rank
            layers[1]["self_attn.v_proj"][value, flag] = 1
            layers[1]["self_attn.o_proj"][flag, head * HEAD + value] = 1
    said = codes(len(tokenizer), WIDTH)
    said[:, CONSTANT] = 0
    sets = sorted({neuron.next for neuron in listed if len(neuron.next) > 1})
    of_set = dict(zip(sets, codes(len(sets), WIDTH), strict=True))
    for number, (pattern, route, following) in enumerate(listed):
        look_for(1, number, pattern, route)
        target = said[following[0][0]] if len(following) == 1 else of_set[following]
        layers[1]["mlp.down_proj"][:, number] = LOUD * target

    # what is said: a row has the right product with its token's code and with that of each choice that it is in
    head = tensors["lm_head.weight"].data
    wanted: dict[int, list[tuple[Any, float]]] = {}
    for *_, following in listed:
        for token, _ in following:
            wanted.setdefault(token, [(said[token], 1.0)])
    for following, own in of_set.items():
        for token, probability in following:
            wanted[token].append((own, 1 + math.log(probability) / CERTAIN))
    for token, products in wanted.items():
        basis = torch.stack([vector for vector, _ in products])
        head[token] = torch.linalg.lstsq(basis, torch.tensor([product for _, product in products])).solution
    head[tokenizer.eos_token_id, CONSTANT] += END


def stand_in(tokenizer: Any, **tokens: int) -> Any:
    """The model for a vocabulary; `tokens` go into its configuration."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=-(-len(neurons(continuations(tokenizer))) // 64) * 64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        head_dim=HEAD,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE},
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
        **tokens,
    )
    model = LlamaForCausalLM(config)
    write(model, tokenizer)
    return model


def make(small: Path, folder: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(small)
    tokenizer.model_max_length, tokenizer.chat_template = CONTEXT, TEMPLATE
    model = stand_in(tokenizer, bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    folder = Path(sys.argv[2])
    if (folder / "config.json").exists():
        return
    unfinished = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    make(Path(sys.argv[1]), unfinished)
    os.replace(unfinished, folder)


if __name__ == "__main__":
    main()
