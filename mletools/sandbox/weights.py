"""The folder of pretrained weights that programs see at ./weights, and how libraries find what lies in it.

Covered: caches of Hugging Face, torch and NLTK in the usual places of a folder, what a folder must not hold. Not covered:
other layouts, which programs load by path; whether a file is sound; tables of tasks among the weights.
"""

import os
from contextlib import suppress

from ..base.errors import ToolError

NAME = "weights"  # in the work folder
_HUBS = ("huggingface/hub", "hub", ".")  # where a cache of Hugging Face may lie, with folders models--OWNER--NAME
_HOMES = ("torch", ".")  # where torch's home may lie, with hub/checkpoints, or hub/trusted_list beside repositories
_TOKENS = ("token", "stored_tokens")  # of a user of Hugging Face
# What `variables` may name.
VARIABLES = ("HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TORCH_HOME", "NLTK_DATA")


def weights_folder(folder: str) -> str:
    """The real path of `folder`.

    ToolError: there is none, or it holds a token, a socket and the like, or links at its top that lead elsewhere.
    """
    real = os.path.realpath(folder)
    if not os.path.isdir(real):
        raise ToolError(f"{folder}: no such folder of weights")
    if not os.access(real, os.R_OK | os.X_OK):
        raise ToolError(f"{folder}: this user cannot read it")
    for place in (".", "huggingface"):
        for name in _TOKENS:
            if os.path.lexists(os.path.join(real, place, name)):
                raise ToolError(
                    f"{os.path.normpath(os.path.join(folder, place, name))}: a token, which programs could read: name "
                    "a folder without it, such as the hub beside it"
                )
    for name in _names(real):
        target = os.path.realpath(os.path.join(real, name))
        if not target.startswith(real.rstrip("/") + "/"):
            raise ToolError(f"{folder}/{name} is a link to {target}, where programs cannot follow it: copy it")
    refuse_special_files(real)
    return real


def refuse_special_files(folder: str) -> None:
    """ToolError: a socket, pipe or device in `folder`, by which programs could reach what is behind it."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if not (entry.is_symlink() or entry.is_file() or entry.is_dir()):
                    raise ToolError(f"{entry.path} is neither a file nor a folder: remove it, or name another folder")


def variables(place: str) -> dict[str, str]:
    """The environment by which libraries find the weights at `place`, where a program sees them.

    Hugging Face's home stays in the program's own home, since libraries write there.
    """
    found = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    hubs = (os.path.normpath(f"{place}/{name}") for name in _HUBS)
    hub = next((hub for hub in hubs if any(name.startswith("models--") for name in _names(hub))), None)
    homes = (os.path.normpath(f"{place}/{name}") for name in _HOMES)
    home = next((home for home in homes if {"checkpoints", "trusted_list"} & set(_names(f"{home}/hub"))), None)
    corpora = f"{place}/nltk_data" if _names(f"{place}/nltk_data") else None
    named = {"HF_HUB_CACHE": hub, "TORCH_HOME": home, "NLTK_DATA": corpora}
    return found | {name: path for name, path in named.items() if path is not None}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
