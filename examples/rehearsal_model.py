"""Write a tiny language model for the rehearsal of the experiments, with a real vocabulary and chat template.

    python examples/rehearsal_model.py SMALL_MODEL FOLDER [STEPS]

SMALL_MODEL is what small_model.py writes: its vocabulary and chat template are taken over. The weights are a Llama of two
layers with a context of 131,072 tokens, trained for some minutes to recognise a prompt of mletools by its words and to
recite the reply below. Its programs fill the sample submission with random zeros and ones; the digit that it samples is
their seed. Trained on short prompts alone, it recites well after the prompts of scaffold single, and mostly mixes its
replies up after longer ones (agents in turns, searches): those rehearse what becomes of answers that cannot be read.
"""

import math
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

CONTEXT = 131_072
STEPS, BATCH, LENGTH = 200, 8, 400
NEGATIVES = 1024  # tokens of the vocabulary that a step's softmax has beside those of the replies
LEARNING_RATE = 3e-3
SHARPER = 2.0  # factor on the logits in the end: at temperature 1 the many tokens that no reply has would come up

PROGRAM = """import random
import pandas as pd

random.seed({digit})
table = pd.read_csv("input/sample_submission.csv")
for name in table.columns[1:]:
    table[name] = [random.randint(0, 1) for row in table.index]
table.to_csv("submission.csv", index=False)
"""
DEBUG = """print("==== Start of Debug Information ====")
print("debug_time: 1")
print("estimated_time: 1")
print("==== End of Debug Information ====")
"""
ANSWER = "I read the sample submission. I fill it with random labels. I write the file.\n\n```python\n{program}```"
IDEA = "ANALYSIS_ON_CURRENT_PROGRESS:\nThe labels are random.\n\nACTION:\nTry the seed {digit}.\n\nRATIONALE:\nIt may be luckier."
THOUGHT = "<think>I try the seed {digit}.</think>\n"
REACT = THOUGHT + "<tool_call>\npython\n<code>\n{program}</code>\n</tool_call>"
SCORE = '<think>I have it scored.</think>\n<tool_call>\n{{"name": "Score", "arguments": {{"competition_id": "it"}}}}\n</tool_call>'
FINAL = "<think>That is enough.</think>\n<answer>submission</answer>"
CODEACT = "I try it.\n<execute_ipython>\n{program}</execute_ipython>"
HELP = "I ask.\n<seek_help>\nPROBLEM_STATEMENT:\nThe labels are random.\n\nATTEMPTS_SO_FAR:\n- a seed\n\nGOAL:\nA better score.\n</seek_help>"
MEMORY = "I try the seed {digit}.\n<execute_code>\n{program}</execute_code>"
SEARCH = ANSWER.replace("{program}", "{program}{debug}")
HYPOTHESIS = '"hypothesis": "The seed {digit} gives a better score.", "component": "Model"'
SCORES = '"scores": {{"alignment": 5, "impact": 5, "novelty": {digit}, "feasibility": 5, "risk_reward": 5}}'

# what stands in the prompt's system message or, in search and for ideas, in its only one -> replies, one of them
FIRST: dict[str, list[str]] = {
    "single": [ANSWER],
    "improve": [ANSWER],
    "implementer": [ANSWER],
    "react-system": [REACT],
    "codeact-system": [CODEACT],
    "memory-system": [MEMORY],
    "ideator": [IDEA],
    "idea-type": ["TYPE: Model Training\nRATIONALE: It is about the seed.", "TYPE: Others\nRATIONALE: It is a seed."],
    "search-analysis": [
        '{{"task_type": "classification", "data_type": "tabular", "summary": "Labels.", "data": "Files.", '
        '"submission": "A table.", "metric": "A score.", "longer_limit": false}}'
    ],
    "search-challenges": ['[{{"challenge": "The labels are random.", "reason": "It is so.", "origin": "scenario"}}]'],
    "search-hypotheses": [f'[{{{{{HYPOTHESIS}, "challenge": 0, {SCORES}}}}}]'],
    "search-idea": [f"{{{{{HYPOTHESIS}}}}}"],
    "search-check": ['{{"acceptable": true, "why": "It runs."}}'],
    "search-choose": ['{{"experiment": 1, "why": "It is the first."}}'],
    **{f"search-{name}": [SEARCH] for name in ("draft", "improve", "merge", "fix", "debug", "crossover")},
}
# after an assistant's message: how the next one of the user begins -> replies
RAN = "The program ended normally in less than a second.\n\nIt printed nothing.\n\n"
LATER: dict[str, list[tuple[str, list[str]]]] = {
    "react-system": [
        (f"<tool_response>\n{RAN}submission.csv was written (900 bytes).\n</tool_response>", [SCORE, FINAL]),
        ("<tool_response>\nThe score on the validation rows is 0.5.\n</tool_response>", [REACT, FINAL]),
    ],
    "codeact-system": [
        (
            "(no output)\n\n[submission.csv is valid. The score on the validation rows is 0.5.]",
            [HELP, "<finish></finish>"],
        ),
        (IDEA, [CODEACT]),
    ],
    "memory-system": [(f"{RAN}submission.csv is valid. The score on the validation rows is 0.5.", [MEMORY])],
}


def filled(reply: str, draws: random.Random) -> str:
    digit = draws.randint(0, 9)
    return reply.format(program=PROGRAM.format(digit=digit), digit=digit, debug=DEBUG)


def conversation(name: str, prompts: dict[str, str], filler: str, draws: random.Random) -> list[dict[str, str]]:
    """A prompt of that name with some text in it, and perhaps some turns; the last message is the reply to learn."""
    at = draws.randint(0, max(0, len(filler) - 1200))
    text = filler[at : at + draws.randint(50, 1200)]
    prompt = prompts[name]
    if name.endswith("-system"):
        messages = [("system", prompt), ("user", f"# Task: {text}")]
    else:
        cut = draws.randint(0, max(0, len(prompt) - 900))
        messages = [("user", f"{text}\n{prompt[cut:]}")]
    replies = FIRST[name]
    for _ in range(draws.choice((0, 1, 1, 2)) if name in LATER else 0):
        messages.append(("assistant", filled(draws.choice(replies), draws)))
        said, replies = draws.choice(LATER[name])
        messages.append(("user", filled(said.replace("{", "{{").replace("}", "}}") if said != IDEA else said, draws)))
    messages.append(("assistant", filled(draws.choice(replies), draws)))
    return [{"role": role, "content": content} for role, content in messages]


def train(model: Any, tokenizer: Any, steps: int) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    import mletools

    folder = Path(mletools.__file__).parent / "prompts"
    prompts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    filler = prompts["task"] + "".join(prompts[name] for name in sorted(prompts))
    names = [name for name in FIRST if name in prompts]
    draws = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        rows = []
        for _ in range(BATCH):
            messages = conversation(draws.choice(names), prompts, filler, draws)
            text = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
            begin = tokenizer(text, add_special_tokens=False)["input_ids"]
            reply = tokenizer(messages[-1]["content"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
            rows.append((begin[-LENGTH:], reply))
        width = max(len(begin) + len(reply) for begin, reply in rows)
        ids = torch.full((BATCH, width), tokenizer.eos_token_id)
        loss_on = torch.zeros((BATCH, width), dtype=torch.bool)
        for row, (begin, reply) in enumerate(rows):
            ids[row, : len(begin) + len(reply)] = torch.tensor(begin + reply)
            loss_on[row, len(begin) : len(begin) + len(reply)] = True
        hidden = model.model(ids).last_hidden_state[:, :-1][loss_on[:, 1:]]
        used, targets = ids[:, 1:][loss_on[:, 1:]].unique(return_inverse=True)
        others = torch.randint(0, len(tokenizer), (NEGATIVES,))
        others = others[~torch.isin(others, used)]
        weights = model.lm_head.weight
        share = math.log((len(tokenizer) - len(used)) / len(others))  # each stands for many
        logits = torch.cat([hidden @ weights[used].T, hidden @ weights[others].T + share], 1)
        loss = cross_entropy(logits, targets)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 20 == 19:
            print(f"step {step + 1} of {steps}, loss {loss.item():.3f}", file=sys.stderr, flush=True)


def make(small: Path, folder: Path, steps: int) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(small)
    tokenizer.model_max_length = CONTEXT
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    train(model, tokenizer, steps)
    with torch.no_grad():
        model.model.norm.weight.mul_(SHARPER)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    if len(sys.argv) not in (3, 4) or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    folder = Path(sys.argv[2])
    if (folder / "config.json").exists():
        return
    unfinished = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    make(Path(sys.argv[1]), unfinished, int(sys.argv[3]) if len(sys.argv) == 4 else STEPS)
    os.replace(unfinished, folder)


if __name__ == "__main__":
    main()
