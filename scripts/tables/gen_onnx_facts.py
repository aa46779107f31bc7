"""Facts about operators that ONNX's schemas do not hold. Input of gen_onnx_ops.py."""

from __future__ import annotations

from gen_tables import traits

# Integer attributes that are booleans.
FLAGS = set(
    """align_corners allowzero antialias ceil_mode center_point_box count_include_pad detect_negative detect_positive
    exclude_outside exclusive input_forget interleaved inverse is_case_sensitive is_causal keepdims largest
    linear_before_reset new_axis noop_with_empty_axes onesided periodic reverse saturate select_last_index sorted
    training_mode transA transB upper""".split()
)
# Integer attributes that are dtypes.
DTYPE_ATTRS = {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "stash_type", "precision"}

# Builder::constant() makes constants.
BUILDER_SKIP = {"Constant"}
RESULT_COUNTS = {
    "If": "then_branch.outputs().size()",
    "Loop": "body.outputs().size() - 1",
    "Scan": "body.outputs().size()",
    "SequenceMap": "body.outputs().size()",
}

# ----------------------------------------------------------------------------------------------------------------------
# Readers: class -> operators of the same parameters. An operator that nobody reads has none.

READERS = {
    "ArgReduce": "ArgMax ArgMin",
    "BatchNormalization": "BatchNormalization",
    "Concat": "Concat",
    "Gather": "Gather GatherElements",
    "Gemm": "Gemm",
    "LayerNormalization": "LayerNormalization RMSNormalization",
    "OneHot": "OneHot",
    "Reduce": """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
        ReduceSumSquare""",
    "Softmax": "Softmax LogSoftmax",
    "Split": "Split",
    "SplitToSequence": "SplitToSequence",
    "Transpose": "Transpose",
}
# The rank in which a class counts its axes: that of the first operand, unless listed.
RANK_OF = {"Concat": "rank_of_result()", "OneHot": "rank_of_result()"}

# ----------------------------------------------------------------------------------------------------------------------
# Traits

UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Swish Tan Tanh ThresholdedRelu Cast RegexFullMatch""".split()
BINARY = """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min
    Mod Mul Or PRelu Pow StringConcat Sub Sum Where Xor""".split()
# Before these versions, attributes fitted the second operand to the first, or it had to have the same shape.
BROADCASTS_SINCE = {
    **dict.fromkeys("Add And Div Equal Greater Less Mul Or PRelu Pow Sub Xor".split(), 7),
    **dict.fromkeys("Max Mean Min Sum".split(), 8),
}
COMMUTATIVE = "Add And BitwiseAnd BitwiseOr BitwiseXor Equal Max Mean Min Mul Or Sum Xor".split()
RANDOM = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
# Random when training, as an operand or an attribute says, so not pure.
NOT_PURE = {*RANDOM, "Dropout", "ImageDecoder", "Gradient"}
SHAPE_PRESERVING = """CumSum CumProd Softmax LogSoftmax Hardmax LpNormalization MeanVarianceNormalization LRN
    BatchNormalization InstanceNormalization GroupNormalization LayerNormalization RMSNormalization Dropout Trilu
    ReverseSequence ScatterElements ScatterND Scatter TensorScatter RotaryEmbedding EyeLike RandomNormalLike RandomUniformLike
    Bernoulli CastLike Clip QuantizeLinear DequantizeLinear BitCast PRelu SwiGLU""".split()
# Elementwise, but further operands are scalars or parameters: not unary.
ELEMENTWISE_MORE = ["Clip", "CastLike", "SwiGLU"]
SUBGRAPHS = ["If", "Loop", "Scan", "SequenceMap", "FlexAttention"]
# No operand values make these fail. Integer Div and Mod may, and so may indices, sizes and conversions of
# strings.
CANNOT_FAIL = [
    *[n for n in UNARY if n not in ("Cast", "RegexFullMatch")],
    *[n for n in BINARY if n not in ("Div", "Mod", "Pow", "BitShift")],
    *"""Softmax LogSoftmax Hardmax LpNormalization MeanVarianceNormalization LRN BatchNormalization
    InstanceNormalization GroupNormalization LayerNormalization RMSNormalization SwiGLU Trilu Clip QuantizeLinear DequantizeLinear
    MatMul Gemm Transpose Shape Size Flatten Conv AveragePool MaxPool GlobalAveragePool GlobalMaxPool Concat ArgMax ArgMin
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    DepthToSpace SpaceToDepth NonZero Constant""".split(),
]


def traits_of(domain: str, name: str, version: int) -> str:
    pure = {} if name in NOT_PURE else {"kPure": [name]}
    if domain != "":
        return traits(name, pure)
    binary = [n for n in BINARY if version >= BROADCASTS_SINCE.get(n, 1)]
    return traits(
        name,
        {
            "kElementwise": [*UNARY, *binary, *ELEMENTWISE_MORE],
            "kUnary": UNARY,
            "kBroadcasts": binary,
            "kCommutative": [n for n in COMMUTATIVE if n in binary],
            "kRandom": RANDOM,
            "kShapePreserving": [*UNARY, *SHAPE_PRESERVING],
            "kConstant": ["Constant"],
            "kCannotFail": CANNOT_FAIL,
            "kSubgraphs": SUBGRAPHS,
            **pure,
        },
    )


# ----------------------------------------------------------------------------------------------------------------------
# Type rules: operator -> [(first version, rule in src/dialects/onnx/infer/rules.h)], newest last. An operator
# without an entry has no rule.

RULES: dict[str, list[tuple[int, str]]] = {}


def rules(rule: str, names: str, since: int = 1) -> None:
    for name in names.split():
        RULES.setdefault(name, []).append((since, rule))


rules(
    "same",
    """Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu
    Log Mish Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
    LRN LpNormalization MeanVarianceNormalization RMSNormalization RotaryEmbedding TensorScatter""",
)
rules("identity", "Identity")
rules("absolute", "Abs")
rules("negate", "Neg")
rules("not_op", "Not")
rules("same_shape_bool", "IsInf IsNaN RegexFullMatch")
rules("cast", "Cast")
rules("cast_like", "CastLike")
rules("bit_cast", "BitCast")
rules("clip", "Clip")
rules("prelu", "PRelu")
rules("dropout", "Dropout")
rules("swiglu", "SwiGLU")
rules("legacy_broadcasting", "Add Sub Mul Div Pow Max Min Mean Sum")
rules("legacy_broadcasting_bool", "And Or Xor Equal Greater Less")
rules("add_op", "Add", 7)
rules("sub_op", "Sub", 7)
rules("mul_op", "Mul", 7)
rules("div_op", "Div", 7)
rules("mod_op", "Mod")
rules("max_op", "Max", 8)
rules("min_op", "Min", 8)
rules("broadcasting", "Pow", 7)
rules("broadcasting", "Mean Sum", 8)
rules("broadcasting", "BitShift BitwiseAnd BitwiseOr BitwiseXor StringConcat")
rules("equal_op", "Equal", 7)
rules("less_op", "Less", 7)
rules("greater_op", "Greater", 7)
rules("less_or_equal_op", "LessOrEqual")
rules("greater_or_equal_op", "GreaterOrEqual")
rules("and_op", "And", 7)
rules("or_op", "Or", 7)
rules("broadcasting_bool", "Xor", 7)
rules("where_op", "Where")

rules(
    "reduce",
    """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare""",
)
rules("arg_extreme", "ArgMax ArgMin")
rules("cumulative", "CumSum CumProd")
rules("along_axis", "Softmax LogSoftmax Hardmax")
rules("top_k", "TopK")
rules("unique", "Unique")
rules("compress", "Compress")
rules("non_zero", "NonZero")
rules("one_hot", "OneHot")

rules("shape_op", "Shape")
rules("size_op", "Size")
rules("reshape", "Reshape")
rules("squeeze", "Squeeze")
rules("unsqueeze", "Unsqueeze")
rules("flatten", "Flatten")
rules("transpose", "Transpose")
rules("expand", "Expand")
rules("concat", "Concat")
rules("split", "Split")
rules("tile", "Tile")
rules("constant_of_shape", "ConstantOfShape")
rules("range_op", "Range")
rules("eye_like", "EyeLike")
rules("trilu", "Trilu")
rules("depth_to_space", "DepthToSpace")
rules("space_to_depth", "SpaceToDepth")

rules("slice", "Slice")
rules("pad", "Pad")
rules("center_crop_pad", "CenterCropPad")
rules("gather", "Gather")
rules("gather_elements", "GatherElements")
rules("gather_nd", "GatherND")
rules("scatter_elements", "Scatter ScatterElements")
rules("scatter_nd", "ScatterND")
rules("reverse_sequence", "ReverseSequence")

rules("matmul", "MatMul")
rules("matmul_integer", "MatMulInteger")
rules("qlinear_matmul", "QLinearMatMul")
rules("gemm", "Gemm")
rules("einsum", "Einsum")
rules("det", "Det")

rules("conv", "Conv")
rules("conv_integer", "ConvInteger")
rules("qlinear_conv", "QLinearConv")
rules("deform_conv", "DeformConv")
rules("conv_transpose", "ConvTranspose")
rules("pool", "AveragePool MaxPool LpPool")
rules("global_pool", "GlobalAveragePool GlobalMaxPool GlobalLpPool")
rules("max_unpool", "MaxUnpool")
rules("max_roi_pool", "MaxRoiPool")
rules("roi_align", "RoiAlign")
rules("col2im", "Col2Im")

rules("batch_norm", "BatchNormalization")
rules("instance_norm", "InstanceNormalization")
rules("group_norm", "GroupNormalization")
rules("layer_norm", "LayerNormalization")
rules("softmax_cross_entropy", "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss")
rules("attention", "Attention")
rules("flex_attention", "FlexAttention")
rules("linear_attention", "LinearAttention")
rules("causal_conv", "CausalConvWithState")
rules("recurrent", "RNN GRU LSTM")

rules("quantize", "QuantizeLinear")
rules("dequantize", "DequantizeLinear")
rules("dynamic_quantize", "DynamicQuantizeLinear")

rules("random_shape", "RandomNormal RandomUniform")
rules("random_like", "RandomNormalLike RandomUniformLike Bernoulli")
rules("multinomial", "Multinomial")
rules("dft", "DFT")
rules("stft", "STFT")
rules("window", "BlackmanWindow HammingWindow HannWindow")
rules("mel_weights", "MelWeightMatrix")

rules("upsample", "Upsample")
rules("resize", "Resize")
rules("grid_sample", "GridSample")
rules("affine_grid", "AffineGrid")
rules("image_decoder", "ImageDecoder")
rules("non_max_suppression", "NonMaxSuppression")

rules("sequence_construct", "SequenceConstruct")
rules("sequence_empty", "SequenceEmpty")
rules("sequence_at", "SequenceAt")
rules("sequence_insert", "SequenceInsert")
rules("same", "SequenceErase")
rules("sequence_length", "SequenceLength")
rules("sequence_map", "SequenceMap")
rules("concat_from_sequence", "ConcatFromSequence")
rules("split_to_sequence", "SplitToSequence")
rules("optional_op", "Optional")
rules("optional_has_element", "OptionalHasElement")
rules("optional_get_element", "OptionalGetElement")

rules("if_op", "If")
rules("loop", "Loop")
rules("scan", "Scan")
rules("constant", "Constant")

rules("array_feature_extractor", "ArrayFeatureExtractor")
rules("same", "Binarizer")
rules("cast_map", "CastMap")
rules("category_mapper", "CategoryMapper")
rules("dict_vectorizer", "DictVectorizer")
rules("feature_vectorizer", "FeatureVectorizer")
rules("label_encoder", "LabelEncoder")
rules("linear_classifier", "LinearClassifier")
rules("svm_classifier", "SVMClassifier")
rules("tree_classifier", "TreeEnsembleClassifier")
rules("regressor", "LinearRegressor SVMRegressor TreeEnsembleRegressor")
rules("tree_ensemble", "TreeEnsemble")
rules("one_hot_encoder", "OneHotEncoder")
rules("zip_map", "ZipMap")
rules("same", "Imputer")
rules("f32_same_shape", "Normalizer Scaler")

rules("string_normalizer", "StringNormalizer")
rules("string_split", "StringSplit")
rules("tf_idf", "TfIdfVectorizer")
rules("adagrad", "Adagrad")
rules("momentum", "Momentum")
rules("adam", "Adam")


def rule_of(name: str, version: int) -> str:
    found = "nullptr"
    for since, rule in RULES.get(name, []):
        if version >= since:
            found = f"rules::{rule}"
    return found


HELPERS = """
  // --- one meaning, spelled as the model's opset wants it (13 and later)

  // Reduce* of any name ("ReduceSum", "ReduceMax", ...) over `axes`; all axes when empty is given as std::nullopt.
  Value* reduce(std::string_view op_name, Value* x, std::optional<std::vector<int64_t>> axes, bool keepdims);
  Value* squeeze(Value* x, std::span<const int64_t> axes);
  Value* unsqueeze(Value* x, std::span<const int64_t> axes);
  // Pieces of the given sizes along `axis`.
  std::vector<Value*> split(Value* x, std::span<const int64_t> sizes, int64_t axis);
  // The version of the default domain that the model imports.
  int opset() const;
  // A Constant node (and not an initializer).
  Value* Constant(TensorPtr value);
"""
