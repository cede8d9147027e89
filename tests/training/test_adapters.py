"""LoRA layers that add in place: values and gradients are PEFT's, and what is not covered stays PEFT's."""

import copy
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from mletools.training.adapters import AddedLinear, add_in_place


def adapted(bias: bool = True, **settings: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5, bias=bias), torch.nn.SiLU(), torch.nn.Linear(5, 4, bias=False))
    model = get_peft_model(model, LoraConfig(r=2, lora_alpha=6, target_modules=["0", "2"], **settings))
    for name, weight in model.named_parameters():
        if "lora_B" in name:  # which begins as zero
            torch.nn.init.normal_(weight)
    return model


def passed(model: Any, given: Any) -> dict[str, Any]:
    """What the model makes of it, and the gradients of its weights and of what was given."""
    given = given.clone().requires_grad_()
    result = model(given)
    result.sin().sum().backward()
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in found.values())
    return found | {"result": result, "given": given.grad}


def kinds(model: Any) -> set[type]:
    return {type(part) for name, part in model.named_modules() if name.endswith(("model.0", "model.2"))}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 6), (2, 7, 6), (1, 1, 6)])
def test_values_and_gradients_are_those_of_peft(bias: bool, shape: tuple[int, ...]) -> None:
    model = adapted(bias)
    expected = passed(copy.deepcopy(model), torch.arange(torch.Size(shape).numel()).reshape(shape).sin())
    add_in_place(model)
    assert kinds(model) == {AddedLinear}
    found = passed(model, torch.arange(torch.Size(shape).numel()).reshape(shape).sin())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


def test_what_goes_peft_s_way_gets_its_results() -> None:
    model, given = adapted(), torch.randn(3, 6)
    plain = copy.deepcopy(model)
    add_in_place(model)
    with model.disable_adapter(), plain.disable_adapter():
        torch.testing.assert_close(model(given), plain(given))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(given), plain(given))
        assert model(given).dtype == torch.bfloat16
    torch.testing.assert_close(model(given), plain(given))
    for each in (model, plain):
        each.merge_adapter()
    torch.testing.assert_close(model(given), plain(given))


@pytest.mark.parametrize("settings", [{"lora_dropout": 0.5}, {"use_dora": True}, {"lora_bias": True}])
def test_what_is_not_covered_stays_peft_s(settings: dict[str, Any]) -> None:
    model = adapted(**settings)
    before = kinds(model)
    add_in_place(model)
    assert kinds(model) == before and AddedLinear not in before
