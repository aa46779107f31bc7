"""What the schemas of ONNX do not say about its operators: input of gen_onnx_ops.py."""

from __future__ import annotations

# Integers that are truth values.
FLAGS = set(
    """align_corners allowzero antialias ceil_mode center_point_box count_include_pad detect_negative detect_positive
    exclude_outside exclusive input_forget interleaved inverse is_case_sensitive is_causal keepdims largest
    linear_before_reset new_axis noop_with_empty_axes onesided periodic reverse saturate select_last_index sorted
    training_mode transA transB upper""".split()
)
# Integers that are numbers of element types.
DTYPE_ATTRS = {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "stash_type", "precision"}

# Constants are made with Builder::constant().
BUILDER_SKIP = {"Constant"}
RESULT_COUNTS = {
    "If": "then_branch.outputs().size()",
    "Loop": "body.outputs().size() - 1",
    "Scan": "body.outputs().size()",
    "SequenceMap": "body.outputs().size()",
}

# ----------------------------------------------------------------------------------------------------------------------
# Traits

UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Swish Tan Tanh ThresholdedRelu Cast""".split()
BINARY = """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min
    Mod Mul Or PRelu Pow Sub Sum Where Xor""".split()
COMMUTATIVE = "Add And BitwiseAnd BitwiseOr BitwiseXor Equal Max Mean Min Mul Or Sum Xor".split()
RANDOM = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
# Random when training, by an operand or an attribute: not pure as a whole.
NOT_PURE = {*RANDOM, "Dropout", "ImageDecoder", "Gradient"}
SHAPE_PRESERVING = """CumSum CumProd Softmax LogSoftmax Hardmax LpNormalization MeanVarianceNormalization LRN
    BatchNormalization InstanceNormalization GroupNormalization LayerNormalization RMSNormalization Dropout Trilu
    ReverseSequence ScatterElements ScatterND Scatter TensorScatter RotaryEmbedding EyeLike RandomNormalLike RandomUniformLike
    Bernoulli CastLike Clip QuantizeLinear DequantizeLinear BitCast""".split()
# Elementwise with operands that are scalars or parameters: not unary.
ELEMENTWISE_MORE = ["Clip", "CastLike"]
SUBGRAPHS = ["If", "Loop", "Scan", "SequenceMap", "FlexAttention"]
# No operand values make them raise. Integer Div and Mod may, and so may indices, sizes and conversions of strings.
CANNOT_FAIL = [
    *[n for n in UNARY if n not in ("Cast",)],
    *[n for n in BINARY if n not in ("Div", "Mod", "Pow", "BitShift")],
    *"""Softmax LogSoftmax Hardmax LpNormalization MeanVarianceNormalization LRN BatchNormalization
    InstanceNormalization GroupNormalization LayerNormalization RMSNormalization Trilu CastLike Clip QuantizeLinear DequantizeLinear
    MatMul Gemm Transpose Shape Size Flatten Conv AveragePool MaxPool GlobalAveragePool GlobalMaxPool Concat ArgMax ArgMin
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    DepthToSpace SpaceToDepth NonZero Constant""".split(),
]


def traits_of(domain: str, name: str) -> str:
    facts = []
    if domain == "":
        if name in UNARY or name in BINARY or name in ELEMENTWISE_MORE:
            facts.append("kElementwise")
        if name in UNARY:
            facts.append("kUnary")
        if name in BINARY:
            facts.append("kBroadcasts")
        if name in COMMUTATIVE:
            facts.append("kCommutative")
        if name in RANDOM:
            facts.append("kRandom")
        if name in UNARY or name in SHAPE_PRESERVING:
            facts.append("kShapePreserving")
        if name == "Constant":
            facts.append("kConstant")
        if name in CANNOT_FAIL:
            facts.append("kCannotFail")
        if name in SUBGRAPHS:
            facts.append("kSubgraphs")
    if name not in NOT_PURE:
        facts.append("kPure")
    return " | ".join(facts) if facts else "0"


# ----------------------------------------------------------------------------------------------------------------------
# Type rules: operator -> [(first version, rule in src/dialects/onnx/rules.h)], newest last. No entry: no rule.

RULES: dict[str, list[tuple[int, str]]] = {}


def rules(rule: str, names: str, since: int = 1) -> None:
    for name in names.split():
        RULES.setdefault(name, []).append((since, rule))


def rule_of(domain: str, name: str, version: int) -> str:
    if domain not in ("", "ai.onnx.ml"):
        return "nullptr"
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
