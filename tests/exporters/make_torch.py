"""Export the models of torch_vision.py and torch_language.py with both of PyTorch's exporters.

    make_torch.py FOLDER [--only TEXT ...]

Eight exports of each: by TorchScript with and without constant folding, of fixed and of open sizes; by torch.export of fixed and of open
sizes, and of open sizes without the exporter's own optimizer, and at opset 23, where attention is an operator. What is there already is kept.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
import torch_language
import torch_vision
from kept import Feeds, make_all, seed_of
from torch_case import Case

FLAVOURS = (
    "ts",
    "ts_raw",
    "ts_dynamic",
    "ts_dynamic_raw",
    "dynamo",
    "dynamo_dynamic",
    "dynamo_dynamic_raw",
    "dynamo_dynamic_23",
)
OPSET = 17  # of TorchScript's; the other writes the opset that it prefers


def built(case: Case) -> torch.nn.Module:
    """The module as after a training: statistics and scales that are not those of the start."""
    torch.manual_seed(seed_of(case.name))
    module = case.module().eval()
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            torch.nn.init.normal_(part.running_mean, std=0.1)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
        scaled = isinstance(part, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm, torch.nn.GroupNorm))
        if scaled and part.weight is not None:
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.normal_(part.bias, std=0.1)
    return module


def feeds(case: Case, sizes: tuple[dict[str, int], ...]) -> list[Feeds]:
    return [{n: t.numpy() for n, t in zip(case.names, case.inputs(**s), strict=True)} for s in sizes]


def export(case: Case, flavour: str, target: Path) -> list[Feeds]:
    module = built(case)
    example, dynamic = case.inputs(**case.sizes[0]), "dynamic" in flavour
    common = {"input_names": list(case.names), "verbose": False}
    with torch.no_grad():
        if flavour.startswith("ts"):
            common |= {"dynamic_axes": case.axes if dynamic else None, "opset_version": OPSET}
            torch.onnx.export(module, example, target, dynamo=False, do_constant_folding="raw" not in flavour, **common)
        else:
            shapes = None
            if dynamic:
                named: dict[str, torch.export.Dim] = {}
                shapes = tuple(
                    {i: named.setdefault(d, torch.export.Dim.DYNAMIC) for i, d in case.axes.get(n, {}).items()}
                    for n in case.names
                )
                if "past" in case.names[-1]:  # one *argument
                    shapes = (*shapes[:3], tuple(shapes[3:]))
            if flavour.endswith("_23"):
                common["opset_version"] = 23
            program = torch.onnx.export(
                module, example, dynamo=True, dynamic_shapes=shapes, optimize="raw" not in flavour, **common
            )
            program.save(target)
    return feeds(case, case.sizes if dynamic else case.sizes[:1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # it has an operator of its own, which no exporter knows
    cases = [(case, flavour) for flavour in FLAVOURS for case in torch_vision.CASES + torch_language.CASES]
    make_all("torch", __doc__, ((f"{case.name}.{flavour}", partial(export, case, flavour)) for case, flavour in cases))
