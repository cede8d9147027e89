"""A small language model from scratch, as a checkpoint folder that transformers loads: for tests, demos, CPU studies.

A Llama with tied embeddings, a byte-level BPE learnt from the records' own texts, a plain chat template. It knows
nothing: train it with mle-train-sft first. Not covered: models that are good at anything.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..base.errors import ToolError, filling
from ..records.rollout import Rollout
from .checkpoints import in_use, read_json

# vocabulary, hidden size, layers, heads, inner size, context; tiny has 0.9 million parameters, nano 0.06 million.
PRESETS = {
    "tiny": {"vocab": 768, "hidden": 128, "layers": 4, "heads": 4, "inner": 352, "context": 2048},
    "nano": {"vocab": 384, "hidden": 32, "layers": 2, "heads": 2, "inner": 88, "context": 1024},
}
FROM_SCRATCH = "from-scratch"
PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant", "tool")
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make_from_scratch(records: list[Rollout], out: Path, preset: str, seed: int, resume: bool) -> Path:
    """The model made of the records in the run's folder `out`; one that an earlier session made is gone on with.

    ToolError: there is one of another preset, or it is not to be gone on with.
    """
    folder = out / FROM_SCRATCH
    if folder.exists():
        if not resume:
            raise in_use(out)
        if read_json(folder / "config.json")["hidden_size"] != PRESETS[preset]["hidden"]:
            raise ToolError(
                f"{folder}: was made with another --from-scratch than {preset}: give that, or another folder"
            )
        return folder
    if not records:
        raise ToolError("--from-scratch needs rollouts to learn a tokenizer from, and the input is empty")
    unfinished = out / f"{FROM_SCRATCH}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.replace(make_tiny(records, unfinished, preset, seed), folder)
    return folder


def make_tiny(records: Iterable[Rollout], out: Path, preset: str = "tiny", seed: int = 0) -> Path:
    """Make a model folder `out` (config, weights, tokenizer) with random weights drawn from `seed`.

    The tokenizer is learnt from the contents of the records' messages. Same records, preset and seed: same folder.
    Raises ToolError for an unknown preset, or where `out` holds something already.
    """
    if preset not in PRESETS:
        raise ToolError(f"no preset {preset!r}: choose one of {', '.join(PRESETS)}")
    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise ToolError(f"{out}: is there already: choose another folder")
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    size = PRESETS[preset]
    tokenizer = _tokenizer(_texts(records), size["vocab"], size["context"])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size["hidden"],
        intermediate_size=size["inner"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["heads"],
        max_position_embeddings=size["context"],
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    out.mkdir(parents=True, exist_ok=True)
    with filling(out):
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    return out


def _texts(records: Iterable[Rollout]) -> Iterator[str]:
    for record in records:
        for message in record["messages"]:
            yield message["content"]


def _tokenizer(texts: Iterable[str], vocabulary: int, context: int) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    # Tokens may be phrases but never span lines, and every digit is one: answers become short, numbers can be new.
    pieces = pre_tokenizers.Split(Regex(r"\d|\n|[^\d\n]+"), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pieces, as_bytes])
    bpe.decoder = decoders.ByteLevel()
    specials = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=specials[2:],
        chat_template=TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
