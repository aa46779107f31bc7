#include "passes/precision/words.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

#include "dialects/mil/readers.h"

namespace sardonyx::precision {
namespace {

struct Translation {
  std::string_view onnx, word;
  std::array<std::string_view, 5> slots;  // of the operands, in order
};

// clang-format off
constexpr Translation kTranslations[] = {
    // Elementwise.
    {"Abs", "abs", {"x"}}, {"Acos", "acos", {"x"}}, {"Add", "add", {"x", "y"}}, {"Asin", "asin", {"x"}}, {"Atan", "atan", {"x"}},
    {"Atanh", "atanh", {"x"}}, {"Cast", "cast", {"x"}}, {"Ceil", "ceil", {"x"}}, {"Clip", "clip", {"x", "alpha", "beta"}},
    {"Cos", "cos", {"x"}}, {"Cosh", "cosh", {"x"}}, {"Div", "real_div", {"x", "y"}}, {"Elu", "elu", {"x"}},
    {"Equal", "equal", {"x", "y"}}, {"Erf", "erf", {"x"}}, {"Exp", "exp", {"x"}}, {"Floor", "floor", {"x"}},
    {"Gelu", "gelu", {"x"}}, {"Greater", "greater", {"x", "y"}}, {"GreaterOrEqual", "greater_equal", {"x", "y"}},
    {"HardSigmoid", "sigmoid_hard", {"x"}}, {"LeakyRelu", "leaky_relu", {"x"}}, {"Less", "less", {"x", "y"}},
    {"LessOrEqual", "less_equal", {"x", "y"}}, {"Log", "log", {"x"}}, {"Max", "maximum", {"x", "y"}}, {"Min", "minimum", {"x", "y"}},
    {"Mod", "mod", {"x", "y"}}, {"Mul", "mul", {"x", "y"}}, {"Neg", "neg", {"x"}}, {"PRelu", "prelu", {"x", "alpha"}},
    {"Pow", "pow", {"x", "y"}}, {"Reciprocal", "inverse", {"x"}}, {"Relu", "relu", {"x"}}, {"Round", "round", {"x"}},
    {"Sigmoid", "sigmoid", {"x"}}, {"Sign", "sign", {"x"}}, {"Sin", "sin", {"x"}}, {"Sinh", "sinh", {"x"}},
    {"Softplus", "softplus", {"x"}}, {"Softsign", "softsign", {"x"}}, {"Sqrt", "sqrt", {"x"}}, {"Sub", "sub", {"x", "y"}},
    {"Swish", "silu", {"x"}}, {"Tan", "tan", {"x"}}, {"Tanh", "tanh", {"x"}}, {"Where", "select", {"cond", "a", "b"}},
    // Elements that move, or are chosen.
    {"Concat", "concat", {}}, {"DepthToSpace", "depth_to_space", {"x"}}, {"Dropout", "identity", {"x"}},
    {"Expand", "tile", {"x", "reps"}}, {"Flatten", "flatten2d", {"x"}}, {"Gather", "gather", {"x", "indices"}},
    {"GatherElements", "gather_along_axis", {"x", "indices"}}, {"GatherND", "gather_nd", {"x", "indices"}},
    {"Identity", "identity", {"x"}}, {"Pad", "pad", {"x", "pad", "constant_val"}}, {"Range", "range_1d", {"start", "end", "step"}},
    {"Reshape", "reshape", {"x", "shape"}}, {"ReverseSequence", "reverse_sequence", {"x", "lengths"}},
    {"ScatterElements", "scatter_along_axis", {"data", "indices", "updates"}}, {"ScatterND", "scatter_nd", {"data", "indices", "updates"}},
    {"Slice", "slice_by_index", {"x", "begin", "end"}}, {"SpaceToDepth", "space_to_depth", {"x"}}, {"Split", "split", {"x"}},
    {"Squeeze", "squeeze", {"x"}}, {"Tile", "tile", {"x", "reps"}}, {"Transpose", "transpose", {"x"}}, {"Trilu", "band_part", {"x"}},
    {"Unsqueeze", "expand_dims", {"x"}},
    // Reductions and orders.
    {"ArgMax", "reduce_argmax", {"x"}}, {"ArgMin", "reduce_argmin", {"x"}}, {"CumSum", "cumsum", {"x", "axis"}},
    {"GlobalAveragePool", "reduce_mean", {"x"}}, {"GlobalMaxPool", "reduce_max", {"x"}}, {"ReduceL1", "reduce_l1_norm", {"x", "axes"}},
    {"ReduceL2", "reduce_l2_norm", {"x", "axes"}}, {"ReduceLogSum", "reduce_log_sum", {"x", "axes"}},
    {"ReduceLogSumExp", "reduce_log_sum_exp", {"x", "axes"}}, {"ReduceMax", "reduce_max", {"x", "axes"}},
    {"ReduceMean", "reduce_mean", {"x", "axes"}}, {"ReduceMin", "reduce_min", {"x", "axes"}}, {"ReduceProd", "reduce_prod", {"x", "axes"}},
    {"ReduceSum", "reduce_sum", {"x", "axes"}}, {"ReduceSumSquare", "reduce_sum_square", {"x", "axes"}}, {"TopK", "topk", {"x", "k"}},
    // Products, pools and normalizations.
    {"Attention", "scaled_dot_product_attention", {"query", "key", "value", "attn_mask"}}, {"AveragePool", "avg_pool", {"x"}},
    {"BatchNormalization", "batch_norm", {"x", "gamma", "beta", "mean", "variance"}}, {"Conv", "conv", {"x", "weight", "bias"}},
    {"ConvTranspose", "conv_transpose", {"x", "weight", "bias"}}, {"Gemm", "gemm", {"x", "y", "bias"}},
    {"InstanceNormalization", "instance_norm", {"x", "gamma", "beta"}}, {"LayerNormalization", "layer_norm", {"x", "gamma", "beta"}},
    {"MatMul", "matmul", {"x", "y"}}, {"LpNormalization", "l2_norm", {"x"}}, {"MaxPool", "max_pool", {"x"}}, {"Softmax", "softmax", {"x"}},
    // Quantized values, boxes and coordinates.
    {"DequantizeLinear", "dequantize", {"input", "scale", "zero_point"}}, {"GridSample", "resample", {"x", "coordinates"}},
    {"NonMaxSuppression", "non_maximum_suppression", {"boxes", "scores"}}, {"QuantizeLinear", "quantize", {"input", "scale", "zero_point"}},
    {"RoiAlign", "crop_resize", {"x", "roi"}},
    // Bodies.
    {"If", "cond", {"pred"}}, {"Loop", "while_loop", {}}, {"Scan", "while_loop", {}},
};
// clang-format on

const Translation* translation_of(const Op& op) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const Translation*> found;
    for (const Translation& t : kTranslations) found.emplace(t.onnx, &t);
    return found;
  }();
  static const auto by_id = [] {
    std::vector<const Translation*> found(known_op_count());
    for (const Op& known : dialect(DialectId::kOnnx).ops()) {
      const auto at = known.domain.empty() ? all.find(known.name) : all.end();
      if (at != all.end()) found[known.id] = at->second;
    }
    return found;
  }();
  return op.known && op.id < by_id.size() ? by_id[op.id] : nullptr;
}

// Attributes that are slots in MIL.
std::optional<double> attribute(const Node& n, std::string_view slot) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (is(n, "clip")) {  // which has attributes before opset 11
    const bool is_low = slot == "alpha";
    return float_attr(n, is_low ? "min" : "max").value_or(is_low ? -kInfinite : kInfinite);
  }
  if (slot == "constant_val") return float_attr(n, "value").value_or(0);
  return float_attr(n, slot);
}

// Which operand is in that slot.
std::optional<size_t> position(const Node& n, std::string_view slot) {
  const Translation* t = translation_of(n.op());
  if (t == nullptr) return std::nullopt;
  const auto at = std::ranges::find(t->slots, slot);
  return at == t->slots.end() ? std::nullopt : std::optional(static_cast<size_t>(at - t->slots.begin()));
}

}  // namespace

std::string_view word_of(const Op& op) {
  if (op.dialect == DialectId::kOnnx) {
    const Translation* t = translation_of(op);
    return t == nullptr ? std::string_view() : t->word;
  }
  return op.known && op.domain.empty() ? op.name : std::string_view();
}

std::string_view slot_word(const Node& n, size_t i) {
  if (n.op().dialect == DialectId::kOnnx) {
    const Translation* t = translation_of(n.op());
    return t == nullptr || i >= t->slots.size() ? std::string_view() : t->slots[i];
  }
  const Slot* slot = slot_of(n.op(), i, n.num_inputs());
  return slot == nullptr ? std::string_view() : slot->name;
}

Value* operand(Node& n, KnownValues& known, std::string_view slot) {
  if (n.op().dialect != DialectId::kOnnx) return mil::OpReader(n, known.facts).value_in(slot);
  const auto i = position(n, slot);
  return i && *i < n.num_inputs() ? n.input(*i) : nullptr;
}

std::optional<double> number(Node& n, KnownValues& known, std::string_view slot) {
  if (n.op().dialect != DialectId::kOnnx) return mil::OpReader(n, known.facts).number_in(slot);
  if (const Value* v = operand(n, known, slot)) {
    if (const auto splat = known.splat(v)) return splat;
    const auto ints = known.ints(v);
    return ints && ints->size() == 1 ? std::optional(static_cast<double>(ints->front())) : std::nullopt;
  }
  return attribute(n, slot);
}

std::optional<std::vector<int64_t>> normalized_axes(Node& n, KnownValues& known) {
  if (n.op().dialect != DialectId::kOnnx) return mil::LayerNorm(n, known.facts).axes();
  const Value* x = n.input(0);
  if (x == nullptr || !x->ranked()) return std::nullopt;
  const auto first = from_front(int_attr(n, "axis").value_or(-1), x->type()->rank());
  if (!first) return std::nullopt;
  std::vector<int64_t> axes;
  for (int64_t i = *first; i < static_cast<int64_t>(x->type()->rank()); ++i) axes.push_back(i);
  return axes;
}

bool is_transposed(Node& n, KnownValues& known, size_t operand) {
  if (n.op().dialect == DialectId::kOnnx) return int_attr(n, operand == 0 ? "transA" : "transB").value_or(0) != 0;
  const mil::Matmul matmul(n, known.facts);
  return operand == 0 ? matmul.transpose_x() : matmul.transpose_y();
}

std::vector<const Value*> taken_by(const Value& v) {
  const Node* def = v.def();
  const Node* owner = def != nullptr && !def->bodies().empty() ? def
                      : v.kind() == ValueKind::kInput          ? v.graph()->parent()
                                                               : nullptr;
  if (owner == nullptr) return {};
  const bool is_onnx_loop = owner->op().dialect == DialectId::kOnnx && owner->op().name == "Loop";
  // Rows that Scan takes and gives are no variables.
  const auto rows = static_cast<size_t>(int_attr(*owner, "num_scan_inputs").value_or(0));
  const bool is_loop = is(*owner, "while_loop") && v.index() < owner->num_inputs() - std::min(rows, owner->num_inputs());
  const bool is_row = v.kind() == ValueKind::kInput && rows > 0 && !is_loop;
  std::vector<const Value*> found;
  const auto add_input = [&](size_t i) {
    if (i < owner->num_inputs() && owner->input(i) != nullptr) found.push_back(owner->input(i));
  };
  const auto add_output = [&](size_t i) {
    for (const Body& b : owner->bodies()) {
      if (i < b.graph->outputs().size()) found.push_back(b.graph->output(i));
    }
  };
  if (!is_onnx_loop) {
    if (is_loop || is_row) add_input(v.index());
    if (!is_row) add_output(v.index());
    return found;
  }
  // Loop: operands M, condition, variables; the body takes its number, the condition and the variables, and
  // gives the condition, the variables and rows.
  const size_t variables = owner->num_inputs() - 2;
  const size_t i = def != nullptr ? v.index() : v.index() - 2;
  if (def == nullptr && v.index() < 2) return found;
  if (i < variables) add_input(i + 2);
  add_output(i + 1);
  return found;
}

}  // namespace sardonyx::precision
