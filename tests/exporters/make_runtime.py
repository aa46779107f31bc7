"""Quantize and optimize small graphs with onnxruntime's own tools: QDQ, QOperator, dynamic and blocked weights, fused operators.

    make_runtime.py FOLDER [--only TEXT ...]

The graphs are those of bench/torch_graphs.py, in small. Needs onnx and onnxruntime only. What is there already is kept.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from kept import Feeds, make_all, seed_of
from onnxruntime import quantization as q

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import torch_graphs

Sizes = dict[str, int]
TEXT = ({"batch": 2, "length": 11}, {"batch": 3, "length": 7}, {"batch": 1, "length": 1})
PLANES = (
    {"batch": 2, "height": 32, "width": 64},
    {"batch": 3, "height": 64, "width": 32},
    {"batch": 1, "height": 32, "width": 32},
)
BATCH = ({"batch": 2}, {"batch": 3}, {"batch": 1})

SOURCES: dict[str, tuple[Callable[[], onnx.ModelProto], tuple[Sizes, ...]]] = {
    "encoder": (lambda: torch_graphs.encoder(2, 32, 4, 97), TEXT),
    "gpt2": (lambda: torch_graphs.gpt2(2, 32, 2, 97), TEXT),
    "vit": (lambda: torch_graphs.vit(2, 48, 3, 8, 32), BATCH),
    "swin": (lambda: torch_graphs.swin(24, (1, 2), 4, 32), BATCH),
    "unet": (lambda: torch_graphs.unet(4, 2), PLANES),
    "detector": (torch_graphs.detector, PLANES),
}


def feeds(model: onnx.ModelProto, name: str, sizes: tuple[Sizes, ...]) -> list[Feeds]:
    rng = np.random.default_rng(seed_of(name))
    found = []
    for size in sizes:
        one: Feeds = {}
        for value in model.graph.input:
            tensor = value.type.tensor_type
            shape = [d.dim_value or size[d.dim_param] for d in tensor.shape.dim]
            if tensor.elem_type == onnx.TensorProto.FLOAT:
                one[value.name] = rng.standard_normal(shape).astype(np.float32)
            elif value.name == "mask":
                one[value.name] = np.ones(shape, np.int64)
            else:
                one[value.name] = rng.integers(0, 97, shape)
        found.append(one)
    return found


class Samples(q.CalibrationDataReader):
    def __init__(self, samples: list[Feeds]) -> None:
        self.left = iter(samples)

    def get_next(self) -> Feeds | None:
        return next(self.left, None)


U8, S8, U16 = q.QuantType.QUInt8, q.QuantType.QInt8, q.QuantType.QUInt16
STATIC = {
    "qdq_u8": {"quant_format": q.QuantFormat.QDQ, "activation_type": U8, "weight_type": U8},
    "qdq_s8_per_channel": {"quant_format": q.QuantFormat.QDQ, "activation_type": U8, "weight_type": S8, "per_channel": True},
    "qdq_u16": {"quant_format": q.QuantFormat.QDQ, "activation_type": U16, "weight_type": S8},
    "qoperator": {"quant_format": q.QuantFormat.QOperator, "activation_type": U8, "weight_type": U8},
    # Weights stay floats before a QuantizeLinear, as tools that train with quantization write them.
    "qdq_float_weights": {
        "quant_format": q.QuantFormat.QDQ, "activation_type": U8, "weight_type": S8,
        "extra_options": {"AddQDQPairToWeight": True},
    },
}  # fmt: skip


def static(source: Path, target: Path, samples: list[Feeds], options: dict) -> None:
    q.quantize_static(source, target, Samples(samples), **options)


def dynamic(source: Path, target: Path, samples: list[Feeds], options: dict) -> None:
    q.quantize_dynamic(source, target, **options)


def blocked(source: Path, target: Path, samples: list[Feeds], options: dict) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, is_symmetric=False, accuracy_level=4)
    quantizer.process()
    onnx.save(quantizer.model.model, target)


def saved(source: Path, target: Path, samples: list[Feeds], options: dict) -> None:
    """What a session leaves when it saves its graph before the layouts of its kernels come in."""
    session = onnxruntime.SessionOptions()
    session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session.optimized_model_filepath = str(target)
    session.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), session, providers=["CPUExecutionProvider"])


def fused(source: Path, target: Path, samples: list[Feeds], options: dict) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(source), **options).save_model_to_file(str(target))


WAYS: dict[str, tuple[Callable[..., None], dict]] = {name: (static, options) for name, options in STATIC.items()}
WAYS |= {"dynamic": (dynamic, {"weight_type": U8}), "dynamic_s8": (dynamic, {"weight_type": S8, "per_channel": True})}
WAYS |= {"blocked": (blocked, {}), "saved": (saved, {})}
WAYS |= {"fused_bert": (fused, {"model_type": "bert", "num_heads": 4, "hidden_size": 32})}
WAYS |= {"fused_gpt2": (fused, {"model_type": "gpt2", "num_heads": 2, "hidden_size": 32})}
WAYS |= {"fused_vit": (fused, {"model_type": "vit", "num_heads": 3, "hidden_size": 48})}


def pairs() -> list[tuple[str, str]]:
    """Which graph goes which way: all by the quantizer, each by the fusions for its kind."""
    fits = {"fused_bert": ("encoder",), "fused_gpt2": ("gpt2",), "fused_vit": ("vit",)}
    texts = ("encoder", "gpt2", "vit", "swin")
    fits |= dict.fromkeys(("blocked", "dynamic_s8"), texts) | {"qoperator": ("encoder", "unet", "detector", "vit")}
    return [(graph, way) for way in WAYS for graph in SOURCES if graph in fits.get(way, SOURCES)]


def export(graph: str, way: str, target: Path) -> list[Feeds]:
    make, sizes = SOURCES[graph]
    model = make()
    samples = feeds(model, graph, sizes)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(model), source)
        work, options = WAYS[way]
        work(source, Path(folder) / "target.onnx", samples[:2], options)
        onnx.save(onnx.load(Path(folder) / "target.onnx"), target)
    return samples


if __name__ == "__main__":
    make_all("runtime", __doc__, ((f"{graph}.{way}", partial(export, graph, way)) for graph, way in pairs()))
