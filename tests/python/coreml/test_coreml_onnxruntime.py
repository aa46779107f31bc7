"""MIL ops on the evaluator against ONNX operators in onnxruntime: two independent implementations, over
shapes and dtypes.

Ops without an ONNX operator are written in NumPy, from their definitions.
"""

import logging

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
from mil_programs import mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402

ONNX = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(bool): TensorProto.BOOL,
}
ONNX |= {
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
}
MIL = {np.dtype(np.float32): types.fp32, np.dtype(np.float16): types.fp16, np.dtype(np.int32): types.int32}
MIL |= {np.dtype(bool): types.bool}


def ort(op, *inputs, results=1, **attributes):
    """One operator in onnxruntime; halves are computed in single precision."""
    feed, names = {}, []
    for k, value in enumerate(inputs):
        names.append("" if value is None else f"i{k}")
        if value is not None:
            value = np.asarray(value)
            feed[names[-1]] = value.astype(np.float32) if value.dtype == np.float16 else value
    ports = [helper.make_tensor_value_info(n, ONNX[v.dtype], v.shape) for n, v in feed.items()]
    outputs = [f"o{k}" for k in range(results)]
    node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(o) for o in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    found = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
    return found[0] if results == 1 else found


def i64(*values):
    return np.array(values, np.int64)


rng = np.random.default_rng(11)


def n(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i(*shape, low=0, high=5):
    return rng.integers(low, high, shape).astype(np.int32)


CASES = []


def row(name, inputs, mil, want, half=True):
    """mil and want take a function that makes constants in the run's dtype, then the inputs."""
    CASES.append(pytest.param(inputs, mil, want, np.float32, id=name))
    if half and any(x.dtype == np.float32 for x in inputs):
        CASES.append(pytest.param(inputs, mil, want, np.float16, id=f"{name}-half"))


def op(name, onnx, *inputs, half=True, attributes=None, **parameters):
    """An op whose operands are ONNX's, in that order."""
    slots = {1: ["x"], 2: ["x", "y"]}[len(inputs)]
    row(
        name,
        list(inputs),
        lambda c, *v: getattr(mb, name)(**dict(zip(slots, v, strict=True)), **parameters),
        lambda c, *v: ort(onnx, *v, **(attributes or {})),
        half,
    )


for (
    mil_name
) in "abs atan ceil cos erf exp floor round sigmoid sign sin sinh cosh softplus softsign tanh relu tan".split():
    op(mil_name, mil_name.capitalize(), n(3, 5, 7))
for mil_name in "acos asin atanh".split():
    op(mil_name, mil_name.capitalize(), np.tanh(n(5, 7)))
op("sqrt", "Sqrt", np.abs(n(5, 7)))
for mil_name, onnx_name in {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "real_div": "Div",
    "maximum": "Max",
    "minimum": "Min",
}.items():
    for a, b in (((3, 5), (3, 5)), ((2, 3, 5), (3, 1)), ((5,), (2, 3, 5)), ((1,), (7,))):
        op(mil_name, onnx_name, n(*a), n(*b))
for mil_name in "add sub mul maximum minimum".split():
    op(mil_name, {"maximum": "Max", "minimum": "Min"}.get(mil_name, mil_name.capitalize()), i(3, 5), i(5))
op("pow", "Pow", np.abs(n(3, 5)) + 0.1, n(5))
op("mod", "Mod", i(3, 5, low=-9, high=9), i(5, low=1, high=4))
row(
    "floor_div",
    [i(3, 5, low=-9, high=9), i(5, low=1, high=4)],
    lambda c, x, y: mb.floor_div(x=x, y=y),
    lambda c, x, y: x // y,
)
comparisons = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}
for mil_name, onnx_name in comparisons.items():
    op(mil_name, onnx_name, i(3, 5), i(5))
    op(mil_name, onnx_name, np.round(n(3, 5)), np.round(n(5)))
for mil_name, onnx_name in {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}.items():
    op(mil_name, onnx_name, n(3, 5) > 0, n(5) > 0)
row(
    "select",
    [n(3, 5) > 0, n(3, 5), n(3, 5)],
    lambda c, p, a, b: mb.select(cond=p, a=a, b=b),
    lambda c, *v: ort("Where", *v),
)

row(
    "clip",
    [n(5, 7)],
    lambda c, x: mb.clip(x=x, alpha=c(-0.5), beta=c(1.0)),
    lambda c, x: ort("Clip", x, np.float32(-0.5), np.float32(1)),
)
row("elu", [n(5, 7)], lambda c, x: mb.elu(x=x, alpha=c(0.5)), lambda c, x: ort("Elu", x, alpha=0.5))
row(
    "leaky_relu",
    [n(5, 7)],
    lambda c, x: mb.leaky_relu(x=x, alpha=c(0.25)),
    lambda c, x: ort("LeakyRelu", x, alpha=0.25),
)
slopes = n(3)
row(
    "prelu",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.prelu(x=x, alpha=c(slopes)),
    lambda c, x: ort("PRelu", x, slopes.reshape(3, 1, 1)),
)
row(
    "sigmoid_hard",
    [n(5, 7)],
    lambda c, x: mb.sigmoid_hard(x=x, alpha=c(0.25), beta=c(0.5)),
    lambda c, x: ort("HardSigmoid", x, alpha=0.25, beta=0.5),
)
row(
    "thresholded_relu",
    [n(5, 7)],
    lambda c, x: mb.thresholded_relu(x=x, alpha=c(0.5)),
    lambda c, x: ort("ThresholdedRelu", np.where(x == 0.5, 1, x), alpha=0.5),
)
for axis in (0, 1, -1):
    row(
        f"softmax-{axis}",
        [n(3, 5, 7)],
        lambda c, x, a=axis: mb.softmax(x=x, axis=a),
        lambda c, x, a=axis: ort("Softmax", x, axis=a),
    )
    row(
        f"cumsum-{axis}",
        [n(3, 5, 7)],
        lambda c, x, a=axis: mb.cumsum(x=x, axis=a, exclusive=True),
        lambda c, x, a=axis: ort("CumSum", x, i64(a)[0], exclusive=1),
    )
    row(
        f"argmax-{axis}",
        [n(3, 5, 7)],
        lambda c, x, a=axis: mb.reduce_argmax(x=x, axis=a, keep_dims=False),
        lambda c, x, a=axis: ort("ArgMax", x, axis=a, keepdims=0),
    )
for mil_name, onnx_name in {
    "sum": "Sum",
    "mean": "Mean",
    "max": "Max",
    "min": "Min",
    "prod": "Prod",
    "l1_norm": "L1",
    "l2_norm": "L2",
    "log_sum_exp": "LogSumExp",
    "sum_square": "SumSquare",
}.items():
    for axes, keep in ((None, False), ([1], True), ([-1, 0], False)):
        row(
            f"reduce_{mil_name}-{axes}-{keep}",
            [n(3, 5, 7)],
            lambda c, x, m=mil_name, a=axes, k=keep: getattr(mb, f"reduce_{m}")(x=x, axes=a, keep_dims=k),
            lambda c, x, o=onnx_name, a=axes, k=keep: ort(
                f"Reduce{o}", x, None if a is None else i64(*a), keepdims=int(k)
            ),
        )

weight, bias = n(4, 7), n(4)
row(
    "linear",
    [n(3, 5, 7)],
    lambda c, x: mb.linear(x=x, weight=c(weight), bias=c(bias)),
    lambda c, x: ort("MatMul", x, weight.T) + bias,
)
op("matmul", "MatMul", n(2, 3, 5), n(5, 4))
row(
    "matmul-transposed",
    [n(2, 5, 3), n(2, 4, 5)],
    lambda c, x, y: mb.matmul(x=x, y=y, transpose_x=True, transpose_y=True),
    lambda c, x, y: ort("MatMul", x.swapaxes(1, 2), y.swapaxes(1, 2)),
)
row(
    "einsum",
    [n(2, 3, 5, 7), n(2, 7, 5, 4)],
    lambda c, x, y: mb.einsum(values=(x, y), equation="nchw,nwhu->nchu"),
    lambda c, x, y: ort("Einsum", x, y, equation="nchw,nwhu->nchu"),
)

for name, shape, kernel, mil, onnx in (
    (
        "1d",
        (2, 3, 11),
        (5, 3, 3),
        {"strides": [2], "pad_type": "custom", "pad": [1, 2]},
        {"strides": [2], "pads": [1, 2]},
    ),
    ("2d", (2, 3, 7, 11), (5, 3, 3, 2), {"pad_type": "valid", "dilations": [2, 1]}, {"dilations": [2, 1]}),
    (
        "same",
        (2, 3, 7, 11),
        (5, 3, 3, 2),
        {"pad_type": "same", "strides": [2, 3]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    ),
    ("same-lower", (2, 3, 7, 11), (5, 3, 2, 2), {"pad_type": "same_lower"}, {"auto_pad": "SAME_LOWER"}),
    (
        "groups",
        (2, 4, 7, 11),
        (6, 2, 3, 3),
        {"pad_type": "custom", "pad": [1, 0, 2, 1], "groups": 2},
        {"pads": [1, 2, 0, 1], "group": 2},
    ),
    ("3d", (1, 2, 5, 7, 3), (3, 2, 2, 3, 1), {"pad_type": "valid"}, {}),
):
    k, b = n(*kernel), n(kernel[0])
    row(
        f"conv-{name}",
        [n(*shape)],
        lambda c, x, k=k, b=b, p=mil: mb.conv(x=x, weight=c(k), bias=c(b), **p),
        lambda c, x, k=k, b=b, p=onnx: ort("Conv", x, k, b, **p),
    )
for name, shape, kernel, mil, onnx in (
    (
        "1d",
        (2, 3, 5),
        (3, 4, 3),
        {"strides": [2], "pad_type": "custom", "pad": [1, 0]},
        {"strides": [2], "pads": [1, 0]},
    ),
    ("2d", (2, 3, 5, 7), (3, 4, 3, 2), {"pad_type": "valid", "dilations": [1, 2]}, {"dilations": [1, 2]}),
    (
        "groups",
        (2, 4, 5, 7),
        (4, 3, 3, 3),
        {"pad_type": "custom", "pad": [1, 0, 2, 1], "groups": 2},
        {"pads": [1, 2, 0, 1], "group": 2},
    ),
    (
        "shape",
        (1, 3, 5, 7),
        (3, 2, 3, 3),
        {"strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1], "output_shape": [1, 2, 10, 13]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]},
    ),
    (
        "own-shape",
        (1, 3, 5, 7),
        (3, 2, 3, 3),
        {"pad_type": "custom", "pad": [2, 0, 0, 1], "output_shape": [1, 2, 5, 8]},
        {"pads": [2, 0, 0, 1]},
    ),
):
    k, b = n(*kernel), n(kernel[1] * mil.get("groups", 1))
    row(
        f"conv_transpose-{name}",
        [n(*shape)],
        lambda c, x, k=k, b=b, p=mil: mb.conv_transpose(x=x, weight=c(k), bias=c(b), **p),
        lambda c, x, k=k, b=b, p=onnx: ort("ConvTranspose", x, k, b, **p),
    )
pools = {"kernel_sizes": [3, 2], "strides": [2, 3], "pad_type": "custom", "pad": [1, 1, 0, 1]}
onnx_pools = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}
row("max_pool", [n(2, 3, 7, 11)], lambda c, x: mb.max_pool(x=x, **pools), lambda c, x: ort("MaxPool", x, **onnx_pools))
row(
    "avg_pool",
    [n(2, 3, 7, 11)],
    lambda c, x: mb.avg_pool(x=x, **pools),
    lambda c, x: ort("AveragePool", x, count_include_pad=1, **onnx_pools),
)
row(
    "avg_pool-inside",
    [n(2, 3, 7, 11)],
    lambda c, x: mb.avg_pool(x=x, exclude_padding_from_average=True, **pools),
    lambda c, x: ort("AveragePool", x, **onnx_pools),
)
row(
    "max_pool-ceil",
    [n(2, 3, 8)],
    lambda c, x: mb.max_pool(x=x, kernel_sizes=[3], strides=[2], pad_type="valid", ceil_mode=True),
    lambda c, x: ort("MaxPool", x, kernel_shape=[3], strides=[2], ceil_mode=1),
)

gamma, beta, mean, variance = n(3), n(3), n(3), np.abs(n(3)) + 0.5
row(
    "batch_norm",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.batch_norm(x=x, mean=c(mean), variance=c(variance), gamma=c(gamma), beta=c(beta), epsilon=c(1e-3)),
    lambda c, x: ort("BatchNormalization", x, gamma, beta, mean, variance, epsilon=1e-3),
)
row(
    "instance_norm",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.instance_norm(x=x, gamma=c(gamma), beta=c(beta), epsilon=c(1e-3)),
    lambda c, x: ort("InstanceNormalization", x, gamma, beta, epsilon=1e-3),
)
scale, shift = n(5, 7), n(5, 7)
row(
    "layer_norm",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.layer_norm(x=x, axes=[2, 3], gamma=c(scale), beta=c(shift), epsilon=c(1e-3)),
    lambda c, x: ort("LayerNormalization", x, scale, shift, axis=2, epsilon=1e-3),
)
row(
    "local_response_norm",
    [n(2, 7, 5, 3)],
    lambda c, x: mb.local_response_norm(x=x, size=3, alpha=c(1e-2), beta=c(0.75), k=c(1.0)),
    lambda c, x: ort("LRN", x, size=3, alpha=1e-2),
)

row(
    "transpose",
    [n(2, 3, 5)],
    lambda c, x: mb.transpose(x=x, perm=[2, 0, 1]),
    lambda c, x: ort("Transpose", x, perm=[2, 0, 1]),
)
row("reshape", [n(2, 3, 5)], lambda c, x: mb.reshape(x=x, shape=[5, -1]), lambda c, x: ort("Reshape", x, i64(5, -1)))
row(
    "expand_dims",
    [n(3, 5)],
    lambda c, x: mb.expand_dims(x=x, axes=[0, -1]),
    lambda c, x: ort("Unsqueeze", x, i64(0, -1)),
)
row("squeeze", [n(1, 3, 1, 5)], lambda c, x: mb.squeeze(x=x, axes=[0]), lambda c, x: ort("Squeeze", x, i64(0)))
row(
    "concat",
    [n(3, 5), n(3, 2)],
    lambda c, x, y: mb.concat(values=(x, y), axis=1),
    lambda c, x, y: ort("Concat", x, y, axis=1),
)
row(
    "split",
    [n(3, 7)],
    lambda c, x: mb.split(x=x, split_sizes=[2, 5], axis=1),
    lambda c, x: ort("Split", x, i64(2, 5), axis=1, results=2),
)
row(
    "slice_by_index",
    [n(7, 11)],
    lambda c, x: mb.slice_by_index(x=x, begin=[5, 1], end=[0, 9], stride=[-2, 3], end_mask=[True, False]),
    lambda c, x: ort("Slice", x, i64(5, 1), i64(-100, 9), i64(0, 1), i64(-2, 3)),
)
row(
    "slice_by_size",
    [n(7, 11)],
    lambda c, x: mb.slice_by_size(x=x, begin=[2, 3], size=[-1, 5]),
    lambda c, x: ort("Slice", x, i64(2, 3), i64(7, 8)),
)
row(
    "gather",
    [n(7, 5), i(2, 3, high=7)],
    lambda c, x, k: mb.gather(x=x, indices=k, axis=0, validate_indices=False),
    lambda c, x, k: ort("Gather", x, k, axis=0),
)
row(
    "gather_along_axis",
    [n(5, 7), i(3, 7, high=5)],
    lambda c, x, k: mb.gather_along_axis(x=x, indices=k, axis=0, validate_indices=False),
    lambda c, x, k: ort("GatherElements", x, k, axis=0),
)
row(
    "gather_nd",
    [n(5, 7, 3), i(4, 2, high=5)],
    lambda c, x, k: mb.gather_nd(x=x, indices=k, validate_indices=False),
    lambda c, x, k: ort("GatherND", x, k.astype(np.int64)),
)
for mode, reduction in {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}.items():
    places = np.array([[4, 0, 2], [1, 3, 0]], np.int32)
    row(
        f"scatter_along_axis-{mode}",
        [n(2, 5), n(2, 3)],
        lambda c, x, u, m=mode, p=places: mb.scatter_along_axis(
            data=x, indices=p, updates=u, axis=1, mode=m, validate_indices=False
        ),
        lambda c, x, u, r=reduction, p=places: ort("ScatterElements", x, p, u, axis=1, reduction=r),
    )
    at = np.array([[4], [1]], np.int32)
    row(
        f"scatter_nd-{mode}",
        [n(5, 3), n(2, 3)],
        lambda c, x, u, m=mode, p=at: mb.scatter_nd(data=x, indices=p, updates=u, mode=m, validate_indices=False),
        lambda c, x, u, r=reduction, p=at: ort("ScatterND", x, p.astype(np.int64), u, reduction=r),
        half=False,
    )
row("tile", [n(2, 3)], lambda c, x: mb.tile(x=x, reps=[2, 3]), lambda c, x: ort("Tile", x, i64(2, 3)))
for mode, onnx_mode in {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.items():
    row(
        f"pad-{mode}",
        [n(2, 5, 7)],
        lambda c, x, m=mode: mb.pad(x=x, pad=[1, 2, 0, 3], mode=m, constant_val=c(0.5)),
        lambda c, x, m=onnx_mode: ort("Pad", x, i64(0, 1, 0, 0, 2, 3), np.float32(0.5), mode=m),
    )
row(
    "one_hot",
    [i(3, 5, high=7)],
    lambda c, x: mb.one_hot(indices=x, one_hot_vector_size=7, axis=1, on_value=2.0, off_value=-1.0),
    lambda c, x: ort("OneHot", x.astype(np.int64), i64(7), np.float32([-1, 2]), axis=1),
)
row(
    "topk",
    [n(3, 7)],
    lambda c, x: mb.topk(x=x, k=3, axis=1, ascending=True),
    lambda c, x: ort("TopK", x, i64(3), axis=1, largest=0, results=2),
)
row(
    "reverse_sequence",
    [n(4, 3, 2), np.int32([4, 1, 3])],
    lambda c, x, k: mb.reverse_sequence(x=x, lengths=k, seq_axis=0, batch_axis=1),
    lambda c, x, k: ort("ReverseSequence", x, k.astype(np.int64), time_axis=0, batch_axis=1),
)
row("band_part", [n(2, 5, 7)], lambda c, x: mb.band_part(x=x, lower=0, upper=-1), lambda c, x: ort("Trilu", x, upper=1))
row("non_zero", [np.round(n(5, 7))], lambda c, x: mb.non_zero(x=x), lambda c, x: ort("NonZero", x).T)
row(
    "depth_to_space",
    [n(2, 12, 3, 5)],
    lambda c, x: mb.depth_to_space(x=x, block_size=2),
    lambda c, x: ort("DepthToSpace", x, blocksize=2, mode="DCR"),
)
row(
    "pixel_shuffle",
    [n(2, 12, 3, 5)],
    lambda c, x: mb.pixel_shuffle(x=x, upscale_factor=2),
    lambda c, x: ort("DepthToSpace", x, blocksize=2, mode="CRD"),
)
row(
    "space_to_depth",
    [n(2, 3, 4, 6)],
    lambda c, x: mb.space_to_depth(x=x, block_size=2),
    lambda c, x: ort("SpaceToDepth", x, blocksize=2),
)
row("gelu", [n(5, 7)], lambda c, x: mb.gelu(x=x, mode="EXACT"), lambda c, x: ort("Gelu", x))
row(
    "gelu-tanh",
    [n(5, 7)],
    lambda c, x: mb.gelu(x=x, mode="TANH_APPROXIMATION"),
    lambda c, x: ort("Gelu", x, approximate="tanh"),
)
row(
    "quantize",
    [n(3, 5)],
    lambda c, x: mb.quantize(input=x, scale=c(0.25), zero_point=np.int8(3), output_dtype="int8"),
    lambda c, x: ort("QuantizeLinear", x, np.float32(0.25), np.int8(3)),
    half=False,
)

# --- images: sampling positions, in onnxruntime's terms
modes = {
    "ALIGN_CORNERS": "align_corners",
    "STRICT_ALIGN_CORNERS": "align_corners",
    "UNALIGN_CORNERS": "half_pixel",
    "DEFAULT": "asymmetric",
}
for mode, onnx_mode in modes.items():
    for height, width in ((11, 13), (3, 5)):
        sizes = i64(2, 3, height, width)

        def resized(c, x, m=onnx_mode, s=sizes):
            return ort("Resize", x, None, None, s, mode="linear", coordinate_transformation_mode=m)

        row(
            f"resize_bilinear-{mode}-{height}",
            [n(2, 3, 5, 7)],
            lambda c, x, m=mode, h=height, w=width: mb.resize_bilinear(
                x=x, target_size_height=h, target_size_width=w, sampling_mode=m
            ),
            resized,
        )
        row(
            f"resize-{mode}-{height}",
            [n(2, 3, 5, 7)],
            lambda c, x, m=mode, h=height, w=width: mb.resize(
                x=x, shape=[h, w], resized_dims=np.uint32(2), sampling_mode=m
            ),
            resized,
        )
row(
    "resize_nearest_neighbor",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.resize_nearest_neighbor(x=x, target_size_height=11, target_size_width=4),
    lambda c, x: ort(
        "Resize",
        x,
        None,
        None,
        i64(2, 3, 11, 4),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
)
row(
    "upsample_bilinear",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.upsample_bilinear(x=x, scale_factor_height=2, scale_factor_width=3, align_corners=True),
    lambda c, x: ort(
        "Resize", x, None, None, i64(2, 3, 10, 21), mode="linear", coordinate_transformation_mode="align_corners"
    ),
)
for padding, onnx_padding, corners in (
    ("constant", "zeros", True),
    ("constant", "zeros", False),
    ("border", "border", True),
    ("reflection", "reflection", True),
    ("symmetric", "reflection", False),
):
    for mode in ("bilinear", "nearest"):
        row(
            f"resample-{padding}-{corners}-{mode}",
            [n(2, 3, 5, 7), 1.3 * n(2, 4, 3, 2)],
            lambda c, x, g, p=padding, m=mode, k=corners: mb.resample(
                x=x,
                coordinates=g,
                sampling_mode=m,
                padding_mode=p,
                padding_value=c(0.0),
                coordinates_mode="normalized_minus_one_to_one",
                align_corners=k,
            ),
            lambda c, x, g, p=onnx_padding, m=mode, k=corners: ort(
                "GridSample", x, g, mode={"bilinear": "linear"}.get(m, m), padding_mode=p, align_corners=int(k)
            ),
            half=False,
        )
matrices = np.float32([[1, 0.2, 0.1, -0.3, 0.8, 0], [0.5, 0, -0.5, 0.1, 1.2, 0.3]])
row(
    "affine",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.affine(
        x=x,
        transform_matrix=c(matrices),
        output_height=4,
        output_width=6,
        sampling_mode="bilinear",
        padding_mode="constant",
        padding_value=c(0.0),
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=True,
    ),
    lambda c, x: ort(
        "GridSample",
        x,
        ort("AffineGrid", matrices.reshape(2, 2, 3), i64(2, 3, 4, 6), align_corners=1),
        mode="linear",
        align_corners=1,
    ),
    half=False,
)

# --- recurrent: onnxruntime's gates are in another order, and its directions have an axis
hidden, columns = 4, 3


def reordered(w, order):
    return np.concatenate([np.split(w, len(order))[k] for k in order])[None]


w_ih, w_hh, b_h = n(4 * hidden, columns), n(4 * hidden, hidden), n(4 * hidden)
h0, c0 = n(2, hidden), n(2, hidden)


def lstm(c, x):
    order = (0, 2, 1, 3)
    bias = np.concatenate([reordered(b_h, order), np.zeros((1, 4 * hidden), np.float32)], 1)
    y, h, s = ort(
        "LSTM",
        x,
        reordered(w_ih, order),
        reordered(w_hh, order),
        bias,
        None,
        h0[None],
        c0[None],
        hidden_size=hidden,
        results=3,
    )
    return y[:, 0], h[0], s[0]


row(
    "lstm",
    [n(5, 2, columns)],
    lambda c, x: mb.lstm(
        x=x, initial_h=c(h0), initial_c=c(c0), weight_ih=c(w_ih), weight_hh=c(w_hh), bias=c(b_h), output_sequence=True
    ),
    lstm,
    half=False,
)


def gru(c, x):
    order, w, r, b = (2, 0, 1), w_ih[: 3 * hidden], w_hh[: 3 * hidden], b_h[: 3 * hidden]
    bias = np.concatenate([np.zeros((1, 3 * hidden), np.float32), reordered(b, order)], 1)
    y, h = ort(
        "GRU",
        x,
        reordered(w, order),
        reordered(r, order),
        bias,
        None,
        h0[None],
        hidden_size=hidden,
        linear_before_reset=0,
        results=2,
    )
    return y[:, 0], h[0]


row(
    "gru",
    [n(5, 2, columns)],
    lambda c, x: mb.gru(
        x=x,
        initial_h=c(h0),
        weight_ih=c(w_ih[: 3 * hidden]),
        weight_hh=c(w_hh[: 3 * hidden]),
        bias=c(b_h[: 3 * hidden]),
        output_sequence=True,
    ),
    gru,
    half=False,
)


def rnn(c, x):
    bias = np.concatenate([b_h[:hidden], np.zeros(hidden, np.float32)])[None]
    y, h = ort(
        "RNN",
        x,
        w_ih[None, :hidden],
        w_hh[None, :hidden],
        bias,
        None,
        h0[None],
        hidden_size=hidden,
        direction="reverse",
        activations=["Relu"],
        results=2,
    )
    return y[::-1, 0], h[0]  # Core ML returns the results in the order of reading


row(
    "rnn",
    [n(5, 2, columns)],
    lambda c, x: mb.rnn(
        x=x,
        initial_h=c(h0),
        weight_ih=c(w_ih[:hidden]),
        weight_hh=c(w_hh[:hidden]),
        bias=c(b_h[:hidden]),
        output_sequence=True,
        activation="relu",
        direction="reverse",
    ),
    rnn,
    half=False,
)


# --- boxes
boxes, scores = np.abs(n(2, 4, 13)) * np.float32([[1], [1], [0.7], [0.7]]), rng.random((2, 3, 13)).astype(np.float32)


def suppressed(c, b, s):
    best = s.max(1, keepdims=True)
    picked = ort("NonMaxSuppression", b.swapaxes(1, 2), best, i64(5), np.float32([0.3]), center_point_box=1)
    out_b, out_s, out_i = (
        np.zeros((2, 4, 5), np.float32),
        np.zeros((2, 3, 5), np.float32),
        np.full((2, 5), -1, np.int32),
    )
    for image in range(2):
        for place, at in enumerate(picked[picked[:, 0] == image][:, 2]):
            out_b[image, :, place], out_s[image, :, place], out_i[image, place] = b[image, :, at], s[image, :, at], at
    return out_b, out_s, out_i


row(
    "non_maximum_suppression",
    [boxes, scores],
    lambda c, b, s: mb.non_maximum_suppression(boxes=b, scores=s, iou_threshold=c(0.3), max_boxes=5),
    suppressed,
    half=False,
)


def cropped(c, x):
    """The sample positions of a box, and interpolation between four pixels, in NumPy."""
    out = np.zeros((len(crops), 3, 4, 5))
    for k, (top, left, bottom, right) in enumerate(crops * np.float64([4, 6, 4, 6])):
        for r, y in enumerate(np.linspace(top, bottom, 4)):
            for q, z in enumerate(np.linspace(left, right, 5)):
                if not (0 <= y <= 4 and 0 <= z <= 6):
                    out[k, :, r, q] = 0.5
                    continue
                a, b = int(y), int(z)
                d, e = min(a + 1, 4), min(b + 1, 6)
                v, u = y - a, z - b
                image = x[crops_of[k]].astype(np.float64)
                out[k, :, r, q] = (image[:, a, b] * (1 - u) + image[:, a, e] * u) * (1 - v) + (
                    image[:, d, b] * (1 - u) + image[:, d, e] * u
                ) * v
    return out.astype(np.float32)


crops, crops_of = np.float32([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.3, 0.5, 0.4, 1.4]]), np.int32([1, 0, 1])
row(
    "crop_resize",
    [n(2, 3, 5, 7)],
    lambda c, x: mb.crop_resize(x=x, boxes=crops, box_indices=crops_of, target_height=4, target_width=5, normalized_coordinates=True, spatial_scale=1.0, box_coordinate_mode="CORNERS_HEIGHT_FIRST", sampling_mode="STRICT_ALIGN_CORNERS", pad_value=c(0.5)),
    cropped,
    half=False,
)  # fmt: skip


@pytest.mark.parametrize(("inputs", "mil", "want", "dtype"), CASES)
def test_against_onnxruntime(inputs, mil, want, dtype, tmp_path):
    def typed(v):
        v = np.asarray(v)
        return v.astype(dtype) if v.dtype.kind == "f" else v

    inputs = [typed(v) for v in inputs]
    specs = [mb.TensorSpec(shape=v.shape, dtype=MIL[v.dtype]) for v in inputs]
    scope = {"body": lambda *v: mil(typed, *v)}
    names = ", ".join(f"i{k}" for k in range(len(specs)))
    exec(f"def build({names}): return body({names})", scope)
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    program = mb.program(input_specs=specs, opset_version=ct.target.iOS17)(scope["build"])
    programs.save(program, tmp_path / "x.mlpackage", ct.target.iOS17)
    got = list(coreml.load(tmp_path / "x.mlpackage").run(inputs).values())
    expected = want(typed, *inputs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        if b.dtype.kind != "f":
            assert (a == b).all()
            continue
        tolerance = 4e-3 if dtype == np.float16 else 2e-5
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max())) if b.size else 1.0
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance * scale)
