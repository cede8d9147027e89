"""Whether a model is on this machine or can be had from the Hugging Face hub, before a library tries for a minute."""

from pathlib import Path

from .errors import ToolError

TIMEOUT_S = 4.0  # for the hub's answer
CONFIGS = ("config.json", "adapter_config.json")


def check_model(model: str) -> None:
    """ToolError unless `model` is a folder of whole files, lies in the hub's cache, or is known to the hub."""
    if Path(model).is_dir():
        check_weights(Path(model))
        return
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError

    try:
        if any(isinstance(try_to_load_from_cache(model, name), str) for name in CONFIGS):
            return
        HfApi().model_info(model, timeout=TIMEOUT_S)
    except OfflineModeIsEnabled:
        reason = "it is not in the hub's cache, and HF_HUB_OFFLINE forbids to ask the hub"
    except (RepositoryNotFoundError, HFValidationError):
        reason = "there is no model of this name at the hub (one that is private needs HF_TOKEN)"
    except Exception as error:  # of the HTTP library, whose classes differ between versions of huggingface_hub
        reason = f"it is not in the hub's cache, and the hub does not answer ({error})"
    else:
        return
    raise ToolError(f"{model}: no such folder, and {reason}")


def check_weights(folder: Path) -> None:
    """ToolError that names a file of weights in `folder` which is cut off."""
    found = damaged_weights(folder)
    if found:
        raise ToolError(f"{found[0]}: is no whole file of weights ({found[1]}): copy or save it again") from found[1]


def damaged_weights(folder: Path) -> tuple[Path, Exception] | None:
    """The first file of weights in `folder` that is cut off, and the error. Reads headers alone."""
    for file in sorted(folder.glob("*.safetensors")):
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(file, "np"):  # compares its length with what its header says
                pass
        except (SafetensorError, OSError) as error:
            return file, error
    return None
