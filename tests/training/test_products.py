"""Products by oneDNN: the values and gradients of PyTorch's own, whatever the shapes, biases and places of the results."""

import copy
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from mletools.training import products
from mletools.training.products import LEAST, OneDNN

ROWS, INNER, COLUMNS = LEAST + 5, LEAST + 1, LEAST


@pytest.fixture(autouse=True)
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The shapes of the products that oneDNN made."""
    made: list[torch.Size] = []
    product = products._product

    def counting(*args: Any) -> torch.Tensor:
        found = product(*args)
        made.append(found.shape)
        return found

    monkeypatch.setattr(products, "_product", counting)
    return made


def onednn() -> Any:
    return OneDNN()  # type: ignore[no-untyped-call]


def passed(layer: torch.nn.Linear, given: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of what was given and of the weights."""
    layer, given = copy.deepcopy(layer), given.clone().requires_grad_()
    result = layer(given)
    result.sin().sum().backward()
    gradients = [given.grad, *(weight.grad for weight in layer.parameters() if weight.requires_grad)]
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients)
    return [result, *(gradient for gradient in gradients if gradient is not None)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("shape", [(ROWS,), (3, ROWS)])
def test_a_linear_layer_and_its_gradients(
    bias: bool, frozen: bool, shape: tuple[int, ...], by_onednn: list[torch.Size]
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(INNER, COLUMNS, bias=bias).requires_grad_(not frozen)
    given = torch.randn(*shape, INNER)
    expected = passed(layer, given)
    assert not by_onednn
    with onednn():
        found = passed(layer, given)
    assert len(by_onednn) == (2 if frozen else 3)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_results_that_have_a_place(by_onednn: list[torch.Size]) -> None:
    torch.manual_seed(0)
    left, right, sums = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER), torch.randn(ROWS, COLUMNS)
    wide, place = torch.zeros(ROWS, COLUMNS + 7), sums.clone()
    with onednn():
        torch.mm(left, right.t(), out=wide[:, :COLUMNS])
        place.addmm_(left, right.t())
    torch.testing.assert_close(wide[:, :COLUMNS], left @ right.t())
    torch.testing.assert_close(place, sums + left @ right.t())
    assert not wide[:, COLUMNS:].any() and by_onednn == [sums.shape] * 2
    with onednn(), pytest.warns(UserWarning, match="resized"):
        torch.mm(left, right.t(), out=wide)
    torch.testing.assert_close(wide, left @ right.t())


@pytest.mark.parametrize(
    "make",
    [
        lambda: (torch.randn(ROWS, LEAST - 1), torch.randn(LEAST - 1, COLUMNS)),
        lambda: (torch.randn(0, INNER), torch.randn(INNER, COLUMNS)),
        lambda: (torch.randn(ROWS, INNER).bfloat16(), torch.randn(INNER, COLUMNS).bfloat16()),
        lambda: (torch.randn(ROWS, INNER).double(), torch.randn(INNER, COLUMNS).double()),
    ],
    ids=["narrow", "empty", "bfloat16", "float64"],
)
def test_others_are_pytorch_s(make: Any, by_onednn: list[torch.Size]) -> None:
    left, right = make()
    with onednn():
        found = left @ right
        weighed = torch.addmm(found, left, right, beta=0.5, alpha=2.0)
    assert not by_onednn and torch.equal(found, left @ right)
    torch.testing.assert_close(weighed, found / 2 + 2 * (left @ right))


def test_errors_are_pytorch_s() -> None:
    left, right = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    with onednn():
        with pytest.raises(RuntimeError, match="shapes"):
            left @ torch.randn(INNER + 1, COLUMNS)
        with pytest.raises(RuntimeError, match="expand"):
            torch.addmm(torch.randn(COLUMNS + 1), left, right)


@pytest.mark.parametrize(
    ("vendor", "capability", "device", "chosen"),
    [
        ("AuthenticAMD", "AVX512", "cpu", True),
        ("AuthenticAMD", "AVX2", "cpu", False),
        ("GenuineIntel", "AVX512", "cpu", False),
        ("AuthenticAMD", "AVX512", "meta", False),
    ],
)
def test_where_it_is_on(
    vendor: str, capability: str, device: str, chosen: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    with products.on(torch.device(device)) as mode:
        assert isinstance(mode, OneDNN) == chosen
    with monkeypatch.context() as beside:
        beside.setenv("WORLD_SIZE", "2")
        with products.on(torch.device(device)) as mode:
            assert mode is None
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "none")
    with products.on(torch.device(device)) as mode:
        assert mode is None
