"""Facts about ops that coremltools' definitions do not hold as data. Input of gen_mil_ops.py."""

from __future__ import annotations

from gen_tables import traits

# Ops of coremltools that have no meaning in a program.
SKIP = {"_const_symbolic"}

# Ops of the format that coremltools spells otherwise in memory: (name, first version) -> operands.
EXTRA_OPS = {("write_state", 9): ["input", "data"], ("custom_layer", 4): []}

# ----------------------------------------------------------------------------------------------------------------------
# Minimum and maximum number of results (-1: no bound). One result unless listed.

RESULTS = {
    "classify": (2, 2),
    "complex_stft": (1, 1),
    "cond": (0, -1),
    "custom_layer": (0, -1),
    "gru": (2, 2),
    "lstm": (3, 3),
    "non_maximum_suppression": (3, 4),
    "rnn": (2, 2),
    "split": (1, -1),
    "topk": (1, 2),
    "while_loop": (0, -1),
    "write_state": (0, 0),
    "constexpr_lut_to_sparse": (2, 2),
    "constexpr_sparse_blockwise_shift_scale": (2, 2),
}


# Names of results, for comments in the builder's header.
RESULT_NAMES = {
    "classify": "label, probabilities",
    "constexpr_lut_to_sparse": "mask, nonzero data",
    "constexpr_sparse_blockwise_shift_scale": "mask, nonzero data",
    "gru": "h of each step or the last, last h",
    "lstm": "h of each step or the last, last h, last c",
    "non_maximum_suppression": "boxes, scores, indices, boxes that count",
    "rnn": "h of each step or the last, last h",
    "topk": "values, indices",
}

# Blocks, in the order of the op's operands.
BODIES = {"cond": ["true_fn", "false_fn"], "while_loop": ["cond", "body"]}

# No methods: constants are values, and the operands of a custom layer are up to its author.
BUILDER_SKIP = {"const", "custom_layer"}


def result_counts(name: str) -> tuple[int, int]:
    return RESULTS.get(name, (1, 1))


# ----------------------------------------------------------------------------------------------------------------------
# Readers: how a parameter is read, where its element type does not say. Other integer parameters are scalars.

LISTS = """begin block_shape crop_height crop_width crops dims end kernel_sizes output_shape pad paddings reps shape shapes
    split_sizes""".split()
# Slots of integers that are data, as a rule large.
DATA = "bias box_indices data_mask index indices indices_mask indices_nonzero_data lengths mask quantized_data weight zero_point".split()
DATA += ["input", "x", "y"]
# Lists with a default that depends on the number of axes: slot -> how to read it.
FILLED = {
    "begin_mask": 'flags_in("begin_mask", rank_in("x"))',
    "end_mask": 'flags_in("end_mask", rank_in("x"))',
    "squeeze_mask": 'flags_in("squeeze_mask", rank_in("x"))',
    "stride": 'ints_in("stride", rank_in("x"), 1)',
    "strides": 'ints_in("strides", spatial(), 1)',
    "dilations": 'ints_in("dilations", spatial(), 1)',
    "pad": 'ints_in("pad", spatial(2), 0)',
}
# The rank in which an op counts its axes: that of x, unless listed. Ops that add an axis count it, too.
RANK_OF = {
    "concat": 'rank_of_list("values")',
    "constexpr_affine_dequantize": 'rank_in("quantized_data")',
    "dequantize": 'rank_in("input")',
    "one_hot": 'rank_with_one_more(rank_in("indices"))',
    "quantize": 'rank_in("input")',
    "scatter": 'rank_in("data")',
    "scatter_along_axis": 'rank_in("data")',
    "stack": 'rank_with_one_more(rank_of_list("values"))',
}


# ----------------------------------------------------------------------------------------------------------------------
# Traits

UNARY = """abs acos asin atan atanh ceil clamped_relu cos cosh elu erf exp exp2 floor gelu identity inverse leaky_relu
    linear_activation log logical_not relu relu6 round rsqrt scaled_tanh sigmoid sigmoid_hard sign silu sin sinh softplus
    softsign sqrt square tan tanh threshold thresholded_relu clip cast""".split()
BINARY = """add equal floor_div greater greater_equal less less_equal logical_and logical_or logical_xor maximum minimum mod
    mul not_equal pow real_div sub select""".split()
COMMUTATIVE = "add equal logical_and logical_or logical_xor maximum minimum mul not_equal".split()
RANDOM = "random_bernoulli random_categorical random_normal random_uniform".split()
SHAPE_PRESERVING = """softmax batch_norm instance_norm layer_norm l2_norm local_response_norm cumsum prelu softplus_parametric
    quantize dequantize reverse reverse_sequence band_part scatter scatter_along_axis scatter_nd slice_update argsort
    scaled_dot_product_attention""".split()
SUBGRAPHS = ["cond", "while_loop"]
# Ops with effects besides their results, or that depend on more than their operands.
NOT_PURE = {*RANDOM, *SUBGRAPHS, "read_state", "write_state", "coreml_update_state", "custom_layer"}
NOT_PURE |= {"make_list", "list_write", "list_scatter"}
# No operand values make these fail. Indices, sizes and integer division may.
CANNOT_FAIL = [
    *UNARY,
    *[n for n in BINARY if n not in ("floor_div", "mod", "real_div", "pow")],
    *"""softmax batch_norm instance_norm layer_norm l2_norm local_response_norm cumsum prelu softplus_parametric quantize dequantize
    reverse band_part argsort matmul linear conv transpose shape concat stack reduce_argmax reduce_argmin reduce_l1_norm reduce_l2_norm
    reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum reduce_sum_square max_pool avg_pool
    l2_pool const non_zero""".split(),
]


def traits_of(name: str) -> str:
    return traits(
        name,
        {
            "kElementwise": [*UNARY, *BINARY],
            "kUnary": UNARY,
            "kBroadcasts": BINARY,
            "kCommutative": COMMUTATIVE,
            "kRandom": RANDOM,
            "kShapePreserving": [*UNARY, *SHAPE_PRESERVING],
            "kConstant": ["const"],
            "kCannotFail": CANNOT_FAIL,
            "kSubgraphs": SUBGRAPHS,
            "kPure": [] if name in NOT_PURE else [name],
        },
    )


# ----------------------------------------------------------------------------------------------------------------------
# Type rules: op -> rule in src/dialects/mil/infer/rules.h. An op without an entry has no rule.

RULES: dict[str, str] = {}


def rules(rule: str, names: str) -> None:
    for name in names.split():
        RULES[name] = rule


rules(
    "same",
    """abs acos asin atan atanh ceil clamped_relu clip cos cosh elu erf exp exp2 floor inverse leaky_relu linear_activation log relu relu6
    round rsqrt scaled_tanh sigmoid sigmoid_hard sign silu sin sinh softplus softsign sqrt square tan tanh threshold thresholded_relu
    batch_norm instance_norm l2_norm local_response_norm cumsum band_part reverse reverse_sequence slice_update
    list_write list_scatter scatter_nd""",
)
rules("identity", "identity")
rules("cast", "cast")
rules("add_op", "add")
rules("sub_op", "sub")
rules("mul_op", "mul")
rules("maximum", "maximum")
rules("minimum", "minimum")
rules("real_div", "real_div")
rules("floor_div", "floor_div")
rules("mod", "mod")
rules("broadcasting", "pow")
rules("equal", "equal")
rules("broadcasting_bool", "not_equal logical_xor")
rules("less", "less")
rules("less_equal", "less_equal")
rules("greater", "greater")
rules("greater_equal", "greater_equal")
rules("logical_and", "logical_and")
rules("logical_or", "logical_or")
rules("logical_not", "logical_not")
rules("select", "select")
rules("per_channel", "prelu softplus_parametric")
rules("gelu", "gelu")
rules("layer_norm", "layer_norm")
rules("softmax", "softmax")
rules("quantize", "quantize")
rules("dequantize", "dequantize")

rules("conv", "conv")
rules("conv_transpose", "conv_transpose")
rules("pool", "avg_pool l2_pool max_pool")
rules("upsample", "upsample_bilinear upsample_nearest_neighbor")
rules("resize_to", "resize_bilinear resize_nearest_neighbor")
rules("resize", "resize")
rules("affine", "affine")
rules("resample", "resample")
rules("crop", "crop")
rules("crop_resize", "crop_resize")

rules("linear", "linear")
rules("matmul", "matmul")
rules("einsum", "einsum")
rules("gru", "gru")
rules("lstm", "lstm")
rules("rnn", "rnn")
rules("attention", "scaled_dot_product_attention")

rules(
    "reduce",
    """reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum
    reduce_sum_square""",
)
rules("reduce_arg", "reduce_argmax reduce_argmin")
rules("argsort", "argsort")
rules("topk", "topk")
rules("non_zero", "non_zero")
rules("one_hot", "one_hot")
rules("non_maximum_suppression", "non_maximum_suppression")
rules("range_1d", "range_1d")
rules("gather", "gather")
rules("gather_along_axis", "gather_along_axis")
rules("gather_nd", "gather_nd")
rules("scatter", "scatter scatter_along_axis")
rules("slice_by_index", "slice_by_index")
rules("slice_by_size", "slice_by_size")
rules("random_bernoulli", "random_bernoulli")
rules("random_categorical", "random_categorical")
rules("random_normal", "random_normal")
rules("random_uniform", "random_uniform")

rules("shape", "shape")
rules("reshape", "reshape")
rules("reshape_like", "reshape_like")
rules("transpose", "transpose")
rules("expand_dims", "expand_dims")
rules("squeeze", "squeeze")
rules("flatten2d", "flatten2d")
rules("concat", "concat")
rules("stack", "stack")
rules("split", "split")
rules("tile", "tile")
rules("pad", "pad")
rules("fill", "fill")
rules("fill_like", "fill_like")
rules("depth_to_space", "depth_to_space")
rules("space_to_depth", "space_to_depth")
rules("pixel_shuffle", "pixel_shuffle")
rules("pixel_unshuffle", "pixel_unshuffle")
rules("space_to_batch", "space_to_batch")
rules("batch_to_space", "batch_to_space")
rules("sliding_windows", "sliding_windows")

rules("cond", "cond")
rules("while_loop", "while_loop")
rules("make_list", "make_list")
rules("list_length", "list_length")
rules("list_read", "list_read")
rules("list_gather", "list_gather")
rules("read_state", "read_state")
rules("write_state", "write_state")
rules("update_state", "coreml_update_state")
rules("classify", "classify")
rules("constexpr_affine_dequantize", "constexpr_affine_dequantize")
rules("constexpr_cast", "constexpr_cast")
rules("constexpr_blockwise_shift_scale", "constexpr_blockwise_shift_scale")
rules("constexpr_lut_to_dense", "constexpr_lut_to_dense")
rules("constexpr_sparse_to_dense", "constexpr_sparse_to_dense")
rules("constexpr_lut_to_sparse", "constexpr_lut_to_sparse")
rules("constexpr_sparse_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale")
