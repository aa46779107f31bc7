"""Small generated Core ML programs: one for each op and op set, and a few networks."""

import contextlib
import logging
import os
from dataclasses import dataclass, field
from types import SimpleNamespace

os.environ.setdefault("TQDM_DISABLE", "1")
logging.getLogger("coremltools").setLevel(logging.ERROR)

import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters import _converters_entry  # noqa: E402
from coremltools.converters.mil.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import get_new_symbol, types  # noqa: E402
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry  # noqa: E402
from coremltools.models import utils as ct_utils  # noqa: E402,F401

# ct.convert collects garbage each time, which takes more than a second with the memory that JAX uses in other
# tests.
_converters_entry.gc = SimpleNamespace(collect=lambda: None)

TARGETS = [
    ct.target.iOS15,
    ct.target.iOS16,
    ct.target.iOS17,
    ct.target.iOS18,
]
F32, F16, I32, BOOL = types.fp32, types.fp16, types.int32, types.bool


@dataclass
class Input:
    shape: tuple
    dtype: object = F32


def f(*shape):
    return Input(shape)


def h(*shape):
    return Input(shape, F16)


def i(*shape):
    return Input(shape, I32)


def b(*shape):
    return Input(shape, BOOL)


@dataclass
class Case:
    """One op: operands that are Input become inputs of the program, everything else is a constant."""

    op: str
    operands: dict
    since: int = 4
    until: int = 9
    build: object = None
    tag: str = ""
    inputs: list = field(default_factory=list)

    @property
    def id(self):
        return self.op + ("-" + self.tag if self.tag else "")


CASES: list[Case] = []


def case(op, tag="", since=4, until=9, **operands):
    CASES.append(Case(op, operands, since, until, tag=tag))


def program(op, *inputs, tag="", since=4, until=9):
    """Decorates a function that builds more than one op."""

    def register(build):
        CASES.append(Case(op, {}, since, until, build, tag, list(inputs)))
        return build

    return register


rng = np.random.default_rng(17)


def w(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def ints(*values):
    return np.array(values, dtype=np.int32)


# --- elementwise

for op in """abs acos asin atan atanh ceil cos cosh erf exp exp2 floor round sign sin sinh sqrt square tan tanh
    sigmoid relu relu6 silu softplus softsign identity inverse log rsqrt gelu""".split():
    case(op, x=f(2, 3))
for op in "log inverse rsqrt".split():
    case(op, tag="epsilon", x=f(2, 3), epsilon=1e-3)
case("cast", x=f(2, 3), dtype="int32")
case("cast", tag="fp16", x=f(2, 3), dtype="fp16")
case("cast", tag="bool", x=i(2, 3), dtype="bool")
case("cast", tag="int8", since=8, x=f(2, 3), dtype="int8")
case("clip", x=f(2, 3), alpha=0.0, beta=6.0)
case("clamped_relu", x=f(2, 3), alpha=0.5, beta=2.0)
case("elu", x=f(2, 3), alpha=0.5)
case("gelu", tag="tanh", x=f(2, 3), mode="TANH_APPROXIMATION")
case("leaky_relu", x=f(2, 3), alpha=0.1)
case("linear_activation", x=f(2, 3), alpha=0.5, beta=1.0)
case("scaled_tanh", x=f(2, 3), alpha=0.5, beta=1.0)
case("sigmoid_hard", x=f(2, 3), alpha=0.5, beta=1.0)
case("threshold", x=f(2, 3), alpha=0.5)
case("thresholded_relu", x=f(2, 3), alpha=0.5)
case("prelu", x=f(2, 3, 5, 7), alpha=w(3))
case("softplus_parametric", x=f(2, 3, 5, 7), alpha=w(3), beta=w(3))
case("softmax", x=f(2, 3, 5), axis=1)
case("softmax", tag="default", x=f(2, 3, 5))
for op in "add sub mul real_div floor_div maximum minimum mod pow equal not_equal greater greater_equal less less_equal".split():
    case(op, x=f(2, 3), y=f(2, 3))
    case(op, tag="broadcast", x=f(5, 1, 3), y=f(2, 3))
    case(op, tag="const", x=f(2, 3), y=w(3))
    case(op, tag="int", x=i(2, 3), y=ints(7))
for op in "logical_and logical_or logical_xor".split():
    case(op, x=b(2, 3), y=b(1, 3))
case("logical_not", x=b(2, 3))
case("select", cond=b(2, 3), a=f(2, 3), b=f(2, 3))
case("select", tag="broadcast", cond=b(2, 1), a=f(2, 3), b=f(3))
case("cumsum", x=f(2, 3, 5), axis=1, exclusive=True, reverse=True)

# --- convolutions, pooling, images

case("conv", x=f(2, 6, 11, 13), weight=w(4, 6, 3, 3), bias=w(4), pad_type="valid")
case("conv", tag="plain", x=f(2, 6, 11, 13), weight=w(4, 6, 3, 3))
case("conv", tag="same", x=f(2, 6, 11, 13), weight=w(4, 6, 3, 3), pad_type="same", strides=[2, 3])
case("conv", tag="lower", since=7, x=f(2, 6, 11, 13), weight=w(4, 6, 2, 3), pad_type="same_lower", strides=[2, 3])
case(
    "conv",
    tag="custom",
    x=f(2, 6, 11, 13),
    weight=w(4, 3, 3, 3),
    pad_type="custom",
    pad=[1, 2, 0, 1],
    dilations=[2, 1],
    groups=2,
)
case("conv", tag="1d", x=f(2, 6, 11), weight=w(4, 6, 3))
case("conv", tag="3d", x=f(1, 2, 5, 7, 9), weight=w(4, 2, 3, 3, 2))
case("conv_transpose", x=f(2, 6, 5, 7), weight=w(6, 4, 3, 3), bias=w(4), strides=[2, 2])
case("conv_transpose", tag="same", x=f(2, 6, 5, 7), weight=w(6, 4, 3, 3), pad_type="same", strides=[2, 2])
case(
    "conv_transpose",
    tag="custom",
    x=f(2, 6, 5, 7),
    weight=w(6, 2, 3, 3),
    pad_type="custom",
    pad=[1, 1, 0, 1],
    groups=2,
    strides=[2, 3],
)
case("conv_transpose", tag="shape", x=f(2, 6, 5, 7), weight=w(6, 4, 3, 3), strides=[2, 2], output_shape=[2, 4, 11, 15])
case("conv_transpose", tag="1d", x=f(2, 6, 5), weight=w(6, 4, 3), dilations=[2])
for op in "avg_pool max_pool l2_pool".split():
    case(op, x=f(2, 3, 11, 13), kernel_sizes=[2, 3], strides=[2, 2], pad_type="valid")
    case(op, tag="same", x=f(2, 3, 11, 13), kernel_sizes=[2, 3], strides=[2, 2], pad_type="same")
    case(op, tag="1d", x=f(2, 3, 11), kernel_sizes=[3], pad_type="valid")
case(
    "avg_pool",
    tag="ceil",
    x=f(2, 3, 11, 13),
    kernel_sizes=[2, 3],
    strides=[2, 2],
    pad_type="custom",
    pad=[1, 1, 1, 1],
    ceil_mode=True,
    exclude_padding_from_average=True,
)
case(
    "max_pool",
    tag="ceil",
    x=f(2, 3, 11, 13),
    kernel_sizes=[2, 3],
    strides=[2, 2],
    pad_type="custom",
    pad=[0, 0, 1, 1],
    ceil_mode=True,
)
case(
    "affine",
    since=7,
    x=f(2, 3, 11, 13),
    transform_matrix=w(2, 6),
    output_height=5,
    output_width=7,
    sampling_mode="bilinear",
    padding_mode="constant",
    padding_value=0.0,
    coordinates_mode="normalized_minus_one_to_one",
    align_corners=True,
)
case(
    "resample",
    since=5,
    x=f(2, 3, 11, 13),
    coordinates=f(2, 5, 7, 2),
    sampling_mode="bilinear",
    padding_mode="constant",
    padding_value=0.0,
    coordinates_mode="normalized_minus_one_to_one",
    align_corners=True,
)
case("upsample_bilinear", x=f(2, 3, 5, 7), scale_factor_height=2, scale_factor_width=3)
case(
    "upsample_bilinear",
    tag="float",
    x=f(2, 3, 5, 7),
    scale_factor_height=2.5,
    scale_factor_width=1.5,
    align_corners=False,
)
case("upsample_nearest_neighbor", x=f(2, 3, 5, 7), scale_factor_height=2, scale_factor_width=3)
case("resize_bilinear", x=f(2, 3, 5, 7), target_size_height=11, target_size_width=13, sampling_mode="ALIGN_CORNERS")
case("resize_nearest_neighbor", x=f(2, 3, 5, 7), target_size_height=11, target_size_width=13)
case(
    "resize",
    since=8,
    x=f(2, 3, 5, 7),
    shape=[11, 13],
    resized_dims=np.uint32(2),
    interpolation_mode="LINEAR",
    sampling_mode="DEFAULT",
)
case("crop", x=f(2, 3, 11, 13), crop_height=[1, 2], crop_width=[3, 1])
case(
    "crop_resize",
    until=7,
    x=f(2, 3, 11, 13),
    roi=f(5, 1, 4, 1, 1),
    target_height=3,
    target_width=5,
    box_coordinate_mode="CORNERS_HEIGHT_FIRST",
)
case(
    "crop_resize",
    tag="17",
    since=8,
    x=f(2, 3, 11, 13),
    boxes=f(5, 4),
    box_indices=ints(0, 1, 0, 1, 0),
    target_height=3,
    target_width=5,
)

# --- linear algebra

case("linear", x=f(2, 3), weight=w(5, 3), bias=w(5))
case("linear", tag="plain", x=f(7, 2, 3), weight=w(5, 3))
case("matmul", x=f(2, 3, 5), y=f(2, 5, 7))
case("matmul", tag="transpose", x=f(5, 3), y=w(7, 5), transpose_x=True, transpose_y=True)
case("matmul", tag="vector", x=f(5), y=f(2, 5, 7))
case("matmul", tag="int", x=i(3, 5), y=i(5, 7))


@program("einsum", f(2, 3, 5, 7), f(2, 7, 5, 11))
def einsum(x, y):
    return mb.einsum(values=(x, y), equation="abcd,adce->abce")


# --- normalization

case("batch_norm", x=f(2, 3, 5, 7), mean=w(3), variance=np.abs(w(3)))
case("batch_norm", tag="all", x=f(2, 3, 5), mean=w(3), variance=np.abs(w(3)), gamma=w(3), beta=w(3), epsilon=1e-4)
case("instance_norm", x=f(2, 3, 5, 7), gamma=w(3), beta=w(3), epsilon=1e-4)
case("layer_norm", x=f(2, 3, 5), axes=[-1], gamma=w(5), beta=w(5), epsilon=1e-4)
case("layer_norm", tag="plain", x=f(2, 3, 5), axes=[1, 2])
case("l2_norm", x=f(2, 3, 5, 7), epsilon=1e-4)
case("local_response_norm", x=f(2, 3, 5, 7), size=3)

# --- random

case("random_bernoulli", shape=ints(2, 3), prob=0.25, seed=7)
case("random_categorical", x=f(2, 5), size=3)
case("random_normal", shape=ints(2, 3), mean=0.5, stddev=2.0)
case("random_uniform", shape=ints(2, 3), low=-1.0, high=1.0)
case("random_uniform", tag="dynamic", shape=i(2), low=-1.0, high=1.0)

# --- recurrent

case("gru", x=f(5, 2, 3), initial_h=w(2, 4), weight_ih=w(12, 3), weight_hh=w(12, 4), bias=w(12))
case(
    "gru",
    tag="18",
    since=9,
    x=f(5, 2, 3),
    initial_h=w(2, 4),
    weight_ih=w(12, 3),
    weight_hh=w(12, 4),
    bias=w(12),
    input_bias=w(12),
    output_sequence=True,
)
case(
    "lstm",
    x=f(5, 2, 3),
    initial_h=w(2, 4),
    initial_c=w(2, 4),
    weight_ih=w(16, 3),
    weight_hh=w(16, 4),
    bias=w(16),
    output_sequence=True,
)
case(
    "lstm",
    tag="bidirectional",
    x=f(5, 2, 3),
    initial_h=w(2, 8),
    initial_c=w(2, 8),
    weight_ih=w(16, 3),
    weight_hh=w(16, 4),
    weight_ih_back=w(16, 3),
    weight_hh_back=w(16, 4),
    direction="bidirectional",
    output_sequence=False,
)
case("rnn", x=f(5, 2, 3), initial_h=w(2, 4), weight_ih=w(4, 3), weight_hh=w(4, 4), bias=w(4), activation="relu")

# --- reductions

for op in "reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum reduce_sum_square".split():
    case(op, x=f(2, 3, 5), axes=[1], keep_dims=True)
    case(op, tag="gone", x=f(2, 3, 5), axes=[0, -1], keep_dims=False)
    case(op, tag="all", x=f(2, 3, 5), keep_dims=False)
for op in "reduce_argmax reduce_argmin".split():
    case(op, x=f(2, 3, 5), axis=1, keep_dims=True)
    case(op, tag="gone", x=f(2, 3, 5), axis=-1, keep_dims=False)
case("reduce_argmax", tag="u16", since=8, x=f(2, 3, 5), axis=1, output_dtype="uint16")

# --- gather and scatter

case("gather", x=f(7, 3, 5), indices=i(2, 4), axis=1)
case("gather", tag="const", x=f(7, 3, 5), indices=ints(0, 2), axis=0)
case("gather", tag="scalar", x=f(7, 3, 5), indices=np.int32(1), axis=0)
case("gather", tag="batch", since=7, x=f(7, 3, 5), indices=i(7, 4), axis=1, batch_dims=1)
case("gather", tag="negative", x=f(7, 3, 5), indices=i(2), axis=-1)
case("gather_along_axis", x=f(7, 3, 5), indices=i(7, 2, 5), axis=1)
case("gather_nd", x=f(7, 3, 5), indices=i(4, 2))
case("gather_nd", tag="batch", since=7, x=f(7, 3, 5), indices=i(7, 4, 1), batch_dims=1)
case("scatter", data=f(7, 3), indices=i(2), updates=f(2, 3), axis=0, mode="add")
case("scatter_along_axis", data=f(7, 3), indices=i(2, 3), updates=f(2, 3), axis=0, mode="update")
case("scatter_nd", data=f(7, 3), indices=i(2, 1), updates=f(2, 3), mode="mul")

# --- shapes and slices

case("argsort", x=f(2, 3), axis=-1, ascending=True)
case("band_part", x=f(2, 5, 7), lower=1, upper=-1)
case("batch_to_space", x=f(12, 5, 4, 7), block_shape=[2, 3], crops=np.array([[0, 1], [1, 0]], np.int32))
case("space_to_batch", x=f(2, 5, 7, 8), block_shape=[2, 3], paddings=np.array([[0, 1], [1, 0]], np.int32))
case("depth_to_space", x=f(2, 12, 5, 7), block_size=2)
case("space_to_depth", x=f(2, 3, 4, 6), block_size=2)
case("pixel_shuffle", x=f(2, 12, 5, 7), upscale_factor=2)
case("pixel_unshuffle", since=7, x=f(2, 3, 4, 6), downscale_factor=np.uint32(2))
case("expand_dims", x=f(2, 3), axes=[0, -1])
case("squeeze", x=f(1, 2, 1, 3), axes=[0])
case("squeeze", tag="all", x=f(1, 2, 1, 3))
case("fill", shape=ints(2, 3), value=0.5)
case("fill", tag="int", shape=ints(2, 3), value=np.int32(7))
case("fill", tag="dynamic", shape=i(3), value=1.0)
case("fill_like", since=7, ref_tensor=f(2, 3), value=1.5)
case("flatten2d", x=f(2, 3, 5, 7), axis=2)
case("non_zero", x=f(2, 3))
case("one_hot", indices=i(2, 3), one_hot_vector_size=5, axis=1, on_value=2.0, off_value=0.5)
case("one_hot", tag="default", indices=i(4), one_hot_vector_size=5)
case("pad", x=f(2, 3, 5), pad=[1, 2, 0, 3], mode="constant", constant_val=1.5)
case("pad", tag="reflect", x=f(1, 3, 5, 7), pad=[1, 2, 0, 3], mode="reflect")
case("range_1d", start=0, end=7, step=2)
case("range_1d", tag="float", start=0.0, end=3.5, step=0.5)
case("reshape", x=f(2, 3, 5), shape=[6, 5])
case("reshape", tag="inferred", x=f(2, 3, 5), shape=[-1, 5])
case("reshape", tag="zero", since=8, x=f(2, 3, 5), shape=[0, -1])
case("reverse", x=f(2, 3), axes=[0])
case("reverse", tag="all", x=f(2, 3))
case("reverse_sequence", x=f(2, 5, 3), lengths=ints(3, 4), seq_axis=1, batch_axis=0)
case("shape", x=f(2, 3, 5))
case("slice_by_index", x=f(7, 11, 5), begin=[1, 2, 0], end=[6, 9, 4], stride=[2, 3, 1])
case(
    "slice_by_index",
    tag="masks",
    x=f(7, 11, 5),
    begin=[1, -3, 0],
    end=[6, 0, 4],
    begin_mask=[True, False, False],
    end_mask=[False, True, True],
    squeeze_mask=[False, False, True],
)
case("slice_by_index", tag="negative", x=f(7, 11), begin=[5, 0], end=[1, 0], stride=[-2, 1], end_mask=[False, True])
case("slice_by_index", tag="dynamic", x=f(7, 11), begin=i(2), end=i(2))
case("slice_by_size", x=f(7, 11, 5), begin=[1, 2, 0], size=[3, -1, 5])
case("slice_by_size", tag="dynamic", x=f(7, 11), begin=i(2), size=[3, 4])
case("slice_update", since=9, x=f(7, 11), update=f(2, 3), begin=[1, 2], end=[3, 5])
case("sliding_windows", x=f(2, 9, 3), axis=1, size=3, stride=2)
case("tile", x=f(2, 3), reps=[2, 1])
case("tile", tag="dynamic", x=f(2, 3), reps=i(2))
case("topk", x=f(2, 5), k=3, axis=1)
case("topk", tag="ascending", x=f(2, 5), k=2, axis=-1, ascending=True)
case("topk", tag="u16", since=8, x=f(2, 5), k=3, axis=1, output_indices_dtype="uint16")
case("transpose", x=f(2, 3, 5), perm=[2, 0, 1])
case("transpose", tag="negative", x=f(2, 3, 5), perm=[-1, 0, 1])


@program("reshape_like", f(2, 3, 5), f(6, 2), f(5, 7), since=7)
def reshape_like(x, a, c):
    return mb.reshape_like(x=x, ref_tensors=(a, c), begins=(0, 0), ends=(1, 1), end_masks=(False, False))


@program("range_1d", i(1), tag="dynamic")
def range_1d(n):
    return mb.range_1d(start=0, end=mb.squeeze(x=n), step=1)


@program("split", f(2, 6, 5))
def split(x):
    return mb.split(x=x, num_splits=3, axis=1)


@program("split", f(2, 6, 5), tag="sizes")
def split_sizes(x):
    return mb.split(x=x, split_sizes=[1, 2, 3], axis=1)


@program("concat", f(2, 3), f(2, 5))
def concat(x, y):
    return mb.concat(values=(x, y), axis=1)


@program("concat", f(2, 6, 3), f(2, 6, 3), tag="interleave")
def concat_interleave(x, y):
    return mb.concat(values=(x, y), axis=1, interleave=True)


@program("concat", f(2, 3), tag="one")
def concat_one(x):
    return mb.concat(values=(x,), axis=0)


@program("stack", f(2, 3), f(2, 3))
def stack(x, y):
    return mb.stack(values=(x, y), axis=1)


@program("const", f(2, 30))
def const(x):
    big = mb.const(val=w(2, 30), name="big")
    half = mb.const(val=w(30).astype(np.float16), name="half")
    whole = mb.const(val=np.arange(30, dtype=np.int32), name="whole")
    mb.const(val="a text that nobody reads", name="text")
    y = mb.add(x=mb.cast(x=mb.add(x=x, y=big), dtype="fp16"), y=half)
    z = mb.add(x=mb.cast(x=y, dtype="int32"), y=whole)
    return mb.greater(x=z, y=z), z


@program("non_maximum_suppression", f(1, 7, 4), f(1, 7, 3), until=7)
def nms(boxes, scores):
    return mb.non_maximum_suppression(
        boxes=boxes, scores=scores, iou_threshold=0.5, score_threshold=0.1, max_boxes=5, per_class_suppression=True
    )


@program("non_maximum_suppression", f(1, 4, 7), f(1, 3, 7), tag="17", since=8)
def nms_17(boxes, scores):
    return mb.non_maximum_suppression(boxes=boxes, scores=scores, iou_threshold=0.5, max_boxes=5)


# --- control flow and lists


@program("cond", f(2, 3), b(1))
def cond(x, p):
    p = mb.squeeze(x=p)
    big = mb.const(val=w(2, 30), name="captured")

    def yes():
        return mb.reduce_sum(x=mb.concat(values=(x, big), axis=1), axes=[1], keep_dims=True), mb.relu(x=x)

    def no():
        return mb.reduce_max(x=x, axes=[1], keep_dims=True), mb.sub(x=x, y=1.0)

    return mb.cond(pred=p, _true_fn=yes, _false_fn=no)


@program("while_loop", f(2, 3), i(1))
def while_loop(x, n):
    def test(k, a):
        return mb.less(x=mb.squeeze(x=k), y=7)

    def body(k, a):
        inner = mb.cond(
            pred=mb.less(x=mb.squeeze(x=k), y=3),
            _true_fn=lambda: mb.add(x=a, y=x),
            _false_fn=lambda: mb.mul(x=a, y=2.0),
        )
        return mb.add(x=k, y=ints(1)), inner

    return mb.while_loop(_cond=test, _body=body, loop_vars=(n, mb.relu(x=x)))


@program("list_write", f(2, 3), i(1))
def lists(x, at):
    ls = mb.make_list(init_length=5, dynamic_length=True, elem_shape=(2, 3), dtype="fp32")
    ls = mb.list_write(ls=ls, index=0, value=x)
    ls = mb.list_scatter(ls=ls, indices=ints(1, 2), value=mb.stack(values=(x, x), axis=0))
    n = mb.list_length(ls=ls)
    one = mb.list_read(ls=ls, index=mb.squeeze(x=at))
    some = mb.list_gather(ls=ls, indices=ints(0, 1))
    return mb.cast(x=n, dtype="fp32"), one, some


# --- quantization and compression

case("quantize", since=8, input=f(2, 3), scale=0.5, zero_point=np.int8(3), output_dtype="int8")
case(
    "quantize",
    tag="axis",
    since=8,
    input=f(2, 3),
    scale=np.abs(w(3)),
    zero_point=np.array([1, 2, 3], np.uint8),
    axis=1,
    output_dtype="uint8",
)


@program("dequantize", f(2, 3), since=8)
def dequantize(x):
    q = mb.quantize(input=x, scale=0.5, output_dtype="int8")
    return mb.dequantize(input=q, scale=0.5)


def plus(x, y):
    return mb.add(x=x, y=y)


@program("constexpr_affine_dequantize", f(4, 13), since=7, until=8)
def affine_dequantize(x):
    data = np.arange(52, dtype=np.uint8).reshape(4, 13)
    return plus(
        x, mb.constexpr_affine_dequantize(quantized_data=data, zero_point=np.uint8(3), scale=np.float32(0.5), axis=0)
    )


@program("constexpr_cast", f(4, 13), since=7)
def constexpr_cast(x):
    return plus(x, mb.constexpr_cast(source_val=w(4, 13).astype(np.float16), output_dtype="fp32"))


@program("constexpr_lut_to_dense", f(4, 13), since=7, until=8)
def lut_to_dense(x):
    return plus(x, mb.constexpr_lut_to_dense(indices=np.arange(13, dtype=np.uint8), lut=w(4), shape=np.uint32([4, 13])))


@program("constexpr_sparse_to_dense", f(4, 13), since=7, until=8)
def sparse_to_dense(x):
    mask = np.packbits(np.arange(52) % 2, bitorder="little").astype(np.uint8)
    return plus(x, mb.constexpr_sparse_to_dense(nonzero_data=w(26), mask=mask, shape=np.uint32([4, 13])))


def sub_byte(values, dtype):
    return np.asarray(values).astype(types.nptype_from_builtin(types.string_to_builtin(dtype)))


@program("constexpr_blockwise_shift_scale", f(4, 16), since=9)
def blockwise(x):
    data = sub_byte(np.arange(64).reshape(4, 16) % 16 - 8, "int4")
    offset = sub_byte(np.arange(8).reshape(4, 2) % 7, "int4")
    y = mb.constexpr_blockwise_shift_scale(data=data, scale=w(4, 2), offset=offset)
    return plus(x, y)


@program("constexpr_lut_to_dense", f(4, 16), tag="18", since=9)
def lut_to_dense_18(x):
    y = x
    for bits in (1, 2, 3, 4, 6, 8):
        indices = sub_byte(np.arange(64).reshape(4, 16) % (1 << bits), f"uint{bits}")
        y = plus(y, mb.constexpr_lut_to_dense(indices=indices, lut=w(1, 1, 1 << bits, 1)))
    return y


@program("constexpr_sparse_to_dense", f(4, 16), tag="18", since=9)
def sparse_to_dense_18(x):
    mask = sub_byte(np.arange(64).reshape(4, 16) % 2, "uint1")
    return plus(x, mb.constexpr_sparse_to_dense(nonzero_data=w(32), mask=mask))


@program("constexpr_lut_to_sparse", f(4, 16), since=9)
def lut_to_sparse(x):
    mask = sub_byte(np.arange(64).reshape(4, 16) % 2, "uint1")
    nonzero = sub_byte(np.arange(32) % 4, "uint2")
    mask, values = mb.constexpr_lut_to_sparse(indices_mask=mask, indices_nonzero_data=nonzero, lut=w(1, 1, 4, 1))
    return plus(x, mb.constexpr_sparse_to_dense(nonzero_data=values, mask=mask))


@program("constexpr_sparse_blockwise_shift_scale", f(4, 16), since=9)
def sparse_blockwise(x):
    mask = sub_byte(np.arange(64).reshape(4, 16) % 2, "uint1")
    nonzero = np.arange(32).astype(np.int8)
    mask, values = mb.constexpr_sparse_blockwise_shift_scale(
        data_mask=mask, nonzero_data=nonzero, scale=w(4, 1), offset=np.arange(4).reshape(4, 1).astype(np.int8)
    )
    return plus(x, mb.constexpr_sparse_to_dense(nonzero_data=values, mask=mask))


case("scaled_dot_product_attention", since=9, query=f(2, 3, 5, 7), key=f(2, 3, 11, 7), value=f(2, 3, 11, 13))
case(
    "scaled_dot_product_attention",
    tag="mask",
    since=9,
    query=f(2, 3, 5, 7),
    key=f(2, 3, 11, 7),
    value=f(2, 3, 11, 13),
    attn_mask=b(5, 11),
)


# --- building


def targets_of(one: Case):
    """The op sets that have their own version of the op, and at least the newest."""
    versions = SSAOpRegistry.core_ops[one.op]
    found = []
    for t in TARGETS:
        if not one.since <= int(t) <= one.until or t not in versions:
            continue
        if found and versions[found[-1]] is versions[t]:
            found.pop()
        found.append(t)
    return found


def build(one: Case, target, symbolic=False):
    """The program as coremltools holds it in memory. `symbolic`: the first size of each input is unknown."""
    names, specs, constants = [], [], {}
    symbol = None
    if one.build is None:
        for name, value in one.operands.items():
            if isinstance(value, Input):
                names.append(name)
            else:
                constants[name] = value
        inputs = [one.operands[n] for n in names]
    else:
        inputs = one.inputs
    for value in inputs:
        shape = value.shape
        if symbolic and len(shape) > 1:
            symbol = get_new_symbol()
            shape = (symbol, *shape[1:])
        specs.append(
            mb.TensorSpec(shape=shape, dtype=value.dtype) if shape else mb.TensorSpec(shape=(), dtype=value.dtype)
        )

    def body(*values):
        if one.build is not None:
            return one.build(*values)
        return getattr(mb, one.op)(**dict(zip(names, values, strict=True)), **constants, name="the_op")

    arguments = [f"in_{k}" for k in range(len(specs))]
    if not arguments:  # a program needs an input

        def with_input(x):
            out = body()
            return (mb.identity(x=x), *(out if isinstance(out, (list, tuple)) else (out,)))

        return mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=target)(with_input)
    scope = {"body": body}
    exec(f"def build_all({', '.join(arguments)}): return body({', '.join(arguments)})", scope)
    return mb.program(input_specs=specs, opset_version=target)(scope["build_all"])


@contextlib.contextmanager
def quiet():
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def save(prog, path, target):
    """Writes the program as it is, without any pass."""
    with quiet():
        model = ct.convert(
            prog,
            convert_to="mlprogram",
            minimum_deployment_target=target,
            pass_pipeline=ct.PassPipeline.EMPTY,
            skip_model_load=True,
        )
        model.save(str(path))
    return model


# --- networks


def residual_block(x, channels, stride, name):
    y = x
    for k, s in ((0, stride), (1, 1)):
        c_in = y.shape[1]
        y = mb.conv(x=y, weight=w(channels, c_in, 3, 3), strides=[s, s], pad_type="same", name=f"{name}/conv{k}")
        y = mb.batch_norm(x=y, mean=w(channels), variance=np.abs(w(channels)), gamma=w(channels), beta=w(channels))
        if k == 0:
            y = mb.relu(x=y)
    if x.shape != y.shape:
        x = mb.conv(x=x, weight=w(channels, x.shape[1], 1, 1), strides=[stride, stride], name=f"{name}/short cut")
    return mb.relu(x=mb.add(x=x, y=y), name=f"{name}/out")


def resnet():
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 32, 32))], opset_version=ct.target.iOS15)
    def prog(image):
        x = mb.conv(x=image, weight=w(8, 3, 3, 3), pad_type="same")
        for k in range(3):
            x = residual_block(x, 8 << k, 1 + (k > 0), f"stage_{k}")
        x = mb.reduce_mean(x=x, axes=[2, 3], keep_dims=False)
        return mb.softmax(x=mb.linear(x=x, weight=w(10, 32), bias=w(10)), axis=-1, name="probabilities")

    return prog


def attention(x, heads, size):
    d = x.shape[-1]
    q, k, v = (
        mb.transpose(
            x=mb.reshape(x=mb.linear(x=x, weight=w(d, d), bias=w(d)), shape=[1, -1, heads, d // heads]),
            perm=[0, 2, 1, 3],
        )
        for _ in range(3)
    )
    scores = mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=np.float32(size**-0.5))
    y = mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v)
    return mb.reshape(x=mb.transpose(x=y, perm=[0, 2, 1, 3]), shape=[1, -1, d])


def transformer():
    length = get_new_symbol()

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, length), dtype=I32)], opset_version=ct.target.iOS17)
    def prog(tokens):
        table = mb.const(val=w(101, 32), name="tied weights")
        x = mb.gather(x=table, indices=tokens, axis=0)
        for _ in range(3):
            n = mb.layer_norm(x=x, axes=[-1], gamma=w(32), beta=w(32), epsilon=1e-5)
            x = mb.add(x=x, y=attention(n, 4, 8))
            n = mb.layer_norm(x=x, axes=[-1], gamma=w(32), beta=w(32), epsilon=1e-5)
            n = mb.gelu(x=mb.linear(x=n, weight=w(64, 32), bias=w(64)), mode="TANH_APPROXIMATION")
            x = mb.add(x=x, y=mb.linear(x=n, weight=w(32, 64)))
        return mb.matmul(x=x, y=table, transpose_y=True, name="logits")

    return prog


def recurrent():
    @mb.program(input_specs=[mb.TensorSpec(shape=(7, 1, 3))], opset_version=ct.target.iOS16)
    def prog(x):
        y, h, c = mb.lstm(
            x=x, initial_h=w(1, 8), initial_c=w(1, 8), weight_ih=w(32, 3), weight_hh=w(32, 8), output_sequence=True
        )
        return y, mb.concat(values=(h, c), axis=1)

    return prog


def stateful():
    @mb.program(
        input_specs=[mb.TensorSpec(shape=(2, 3), dtype=F16), mb.StateTensorSpec((2, 3), F16)],
        opset_version=ct.target.iOS18,
    )
    def prog(x, cache):
        old = mb.read_state(input=cache)
        new = mb.coreml_update_state(state=cache, value=mb.add(x=x, y=old))
        return mb.mul(x=new, y=np.float16(0.5))

    return prog


NETWORKS = {
    "resnet": (resnet, ct.target.iOS15),
    "transformer": (transformer, ct.target.iOS17),
    "recurrent": (recurrent, ct.target.iOS16),
    "stateful": (stateful, ct.target.iOS18),
}
