"""Whether a model is on this machine or can be had from the Hugging Face hub, before a library tries for a minute."""

from pathlib import Path

from .errors import ToolError

TIMEOUT_S = 4.0  # for the hub's answer
CONFIGS = ("config.json", "adapter_config.json")
OF_A_RUN = ("latest", "best", "merged", "from-scratch")  # folders of models in one of training


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


def model_folder(folder: Path) -> Path | None:
    """`folder` where it holds a model or an adapter, else the first in it that does, of a run's; None: there is none."""
    inside = (*(folder / name for name in OF_A_RUN), *sorted(folder.glob("checkpoint-*"), reverse=True))
    return next((each for each in (folder, *inside) if any((each / name).is_file() for name in CONFIGS)), None)


def check_weights(folder: Path) -> None:
    """ToolError for a folder of models, such as a run's, and one that names a file of weights which is cut off."""
    inside = model_folder(folder)
    if inside is not None and inside != folder:
        raise ToolError(f"{folder}: is no model, but a folder of models; did you mean {inside}?")
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
