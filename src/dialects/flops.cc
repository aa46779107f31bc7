#include "dialects/flops.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dialects/operator_kinds.h"

namespace sardonyx {
namespace {

// What the operators of one row of the table count.
enum class Rule : uint8_t {
  kMoves,       // nothing
  kPerResult,   // `factor` per element of the result
  kPerOperand,  // `factor` per element of operand 0
  kProduct,     // multiply-adds along the last axis of operand 0
  kGemm,        // A (transposed if transA) times B, plus C
  kMatMulMil,   // the same with transpose_x
  kConv,        // a window of the weight (operand `factor`) per element of the result
  kConvTranspose,
  kLinear,
  kPool,  // a window per element of the result
  kAttention,
  kAttentionMil,
  kRecurrent,     // W and R once per step and row
  kRecurrentMil,  // weight_ih and weight_hh
  kEinsum,
  kNearest,     // nothing in mode "nearest"; other modes interpolate and are not counted
  kDotGeneral,  // multiply-adds along the contracted axes of operand 0
};

struct Row {
  Rule rule = Rule::kMoves;
  int factor = 1;
};

// Of all dialects: ONNX writes names in capitals, the others do not.
const std::unordered_map<std::string_view, Row>& rows() {
  static const auto& all = *new std::unordered_map<std::string_view, Row>{
      {"MatMul", {Rule::kProduct}},
      {"MatMulInteger", {Rule::kProduct}},
      {"QLinearMatMul", {Rule::kProduct}},
      {"Gemm", {Rule::kGemm}},
      {"Conv", {Rule::kConv, 1}},
      {"ConvInteger", {Rule::kConv, 1}},
      {"QLinearConv", {Rule::kConv, 3}},
      {"DeformConv", {Rule::kConv, 1}},
      {"ConvTranspose", {Rule::kConvTranspose, 1}},
      {"Attention", {Rule::kAttention}},
      {"LSTM", {Rule::kRecurrent}},
      {"GRU", {Rule::kRecurrent}},
      {"RNN", {Rule::kRecurrent}},
      {"Einsum", {Rule::kEinsum}},
      {"AveragePool", {Rule::kPool}},
      {"MaxPool", {Rule::kPool}},
      {"LpPool", {Rule::kPool}},
      {"GlobalAveragePool", {Rule::kPerOperand}},
      {"GlobalMaxPool", {Rule::kPerOperand}},
      {"GlobalLpPool", {Rule::kPerOperand, 2}},
      {"CumProd", {Rule::kPerOperand}},
      // Subtract the largest, exponentiate, add, divide; one pass more finds the largest.
      {"Softmax", {Rule::kPerOperand, 5}},
      {"LogSoftmax", {Rule::kPerOperand, 5}},
      {"Hardmax", {Rule::kPerOperand}},
      {"LogSumExp", {Rule::kPerOperand, 3}},
      // Mean, difference, square, sum, quotient, scale, bias.
      {"LayerNormalization", {Rule::kPerOperand, 7}},
      {"InstanceNormalization", {Rule::kPerOperand, 7}},
      {"GroupNormalization", {Rule::kPerOperand, 7}},
      {"MeanVarianceNormalization", {Rule::kPerOperand, 5}},
      {"RMSNormalization", {Rule::kPerOperand, 4}},
      {"LpNormalization", {Rule::kPerOperand, 3}},
      {"BatchNormalization", {Rule::kPerOperand, 2}},
      {"LRN", {Rule::kPerOperand, 3}},
      {"RotaryEmbedding", {Rule::kPerOperand, 3}},
      {"QuantizeLinear", {Rule::kPerResult, 2}},
      {"DequantizeLinear", {Rule::kPerResult, 2}},
      {"DynamicQuantizeLinear", {Rule::kPerOperand, 4}},
      // These only compare, or move in one of their modes.
      {"TopK", {}},
      {"topk", {}},
      {"sort", {}},
      {"argsort", {}},
      {"Resize", {Rule::kNearest}},
      // JAX
      {"dot_general", {Rule::kDotGeneral}},
      // Core ML
      {"matmul", {Rule::kMatMulMil}},
      {"linear", {Rule::kLinear}},
      {"conv", {Rule::kConv, 1}},
      {"conv_quantized", {Rule::kConv, 1}},
      {"conv_transpose", {Rule::kConvTranspose, 1}},
      {"scaled_dot_product_attention", {Rule::kAttentionMil}},
      {"lstm", {Rule::kRecurrentMil}},
      {"gru", {Rule::kRecurrentMil}},
      {"rnn", {Rule::kRecurrentMil}},
      {"einsum", {Rule::kEinsum}},
      {"avg_pool", {Rule::kPool}},
      {"max_pool", {Rule::kPool}},
      {"l2_pool", {Rule::kPool}},
      {"softmax", {Rule::kPerOperand, 5}},
      {"layer_norm", {Rule::kPerOperand, 7}},
      {"instance_norm", {Rule::kPerOperand, 7}},
      {"batch_norm", {Rule::kPerOperand, 2}},
      {"l2_norm", {Rule::kPerOperand, 3}},
      {"local_response_norm", {Rule::kPerOperand, 3}},
      {"quantize", {Rule::kPerResult, 2}},
      {"dequantize", {Rule::kPerResult, 2}},
  };
  return all;
}

std::optional<Row> row_of(const Op& op) {
  if (!op.domain.empty()) return std::nullopt;
  if (const auto at = rows().find(op.name); at != rows().end()) return at->second;
  if (op.has(Trait::kConstant)) return Row{};
  const std::string_view kind = kind_of(op);
  if (kind == "movement") return Row{};
  if (kind == "reduction") return Row{Rule::kPerOperand};
  if (kind == "elementwise") return Row{Rule::kPerResult};
  return std::nullopt;
}

// The rows of all known operators, by Op::id.
const std::vector<std::optional<Row>>& rows_by_id() {
  static const auto& all = *new std::vector<std::optional<Row>>([] {
    std::vector<std::optional<Row>> list(known_op_count());
    for (DialectId d : kDialects) {
      for (const Op& op : dialect(d).ops()) list[op.id] = row_of(op);
    }
    return list;
  }());
  return all;
}

class Counting {
 public:
  explicit Counting(const Node& n) : n_(n), dims_(n.model().dims()) {}

  std::optional<Dim> run(const Row& row) {
    switch (row.rule) {
      case Rule::kMoves: return Dim::of(0);
      case Rule::kPerResult: return times(row.factor, size(n_.result()));
      case Rule::kPerOperand: return times(row.factor, size(n_.input(0)));
      case Rule::kProduct: return product(axis(n_.input(0), -1));
      case Rule::kGemm: return gemm();
      case Rule::kMatMulMil: return product(axis(n_.input(0), flag("transpose_x") ? -2 : -1));
      case Rule::kLinear: return plus(product(axis(n_.input(1), -1)), n_.input(2) != nullptr ? size(n_.result()) : zero());
      case Rule::kConv: {
        const Value* weight = n_.input(static_cast<size_t>(row.factor));
        return plus(times(2, times(size(n_.result()), window(weight))), bias());
      }
      case Rule::kConvTranspose: return plus(times(2, times(size(n_.input(0)), window(n_.input(1)))), bias());
      case Rule::kPool: return times(size(n_.result()), pool_window());
      case Rule::kAttention: return attention();
      case Rule::kAttentionMil: return attention_products(axis(n_.input(1), -2));
      case Rule::kRecurrent: return recurrent(n_.input(1), n_.input(2));
      case Rule::kRecurrentMil:
        return recurrent(slot("weight_ih"), slot("weight_hh"), slot("weight_ih_back"), slot("weight_hh_back"));
      case Rule::kEinsum: return einsum();
      case Rule::kNearest: return n_.attr_string("mode", "nearest") == "nearest" ? zero() : std::nullopt;
      case Rule::kDotGeneral: return dot_general();
    }
    return std::nullopt;
  }

 private:
  using Count = std::optional<Dim>;
  static Count zero() { return Dim::of(0); }
  Count plus(Count a, Count b) const { return a && b ? Count(dims_.add(*a, *b)) : std::nullopt; }
  Count times(Count a, Count b) const { return a && b ? Count(dims_.mul(*a, *b)) : std::nullopt; }
  Count times(int a, Count b) const { return times(Dim::of(a), b); }

  Count size(const Value* v) const {
    if (v == nullptr || !v->ranked()) return std::nullopt;
    return dims_.product(v->type()->dims());
  }
  Count axis(const Value* v, int axis) const {
    if (v == nullptr || !v->ranked()) return std::nullopt;
    const int rank = static_cast<int>(v->type()->rank()), at = axis < 0 ? axis + rank : axis;
    // A vector is a row on the left of a product, a column on the right.
    if (rank == 1) return v->type()->dim(0);
    return at >= 0 && at < rank ? Count(v->type()->dim(static_cast<size_t>(at))) : std::nullopt;
  }
  // The product of all sizes of a weight but the first.
  Count window(const Value* weight) const {
    if (weight == nullptr || !weight->ranked() || weight->type()->rank() == 0) return std::nullopt;
    return dims_.product(weight->type()->dims().subspan(1));
  }
  Count product(Count depth) const { return times(2, times(size(n_.result()), depth)); }
  Count gemm() const {
    const Count depth = axis(n_.input(0), n_.attr_int("transA", 0) != 0 ? 0 : 1);
    return plus(product(depth), n_.input(2) != nullptr ? size(n_.result()) : zero());
  }
  Count bias() const {
    const bool has = slot("B") != nullptr || slot("bias") != nullptr;
    return has ? size(n_.result()) : zero();
  }

  const Value* slot(std::string_view name) const {
    for (size_t i = 0; i < n_.num_inputs() && i < n_.op().inputs.size(); ++i) {
      if (n_.op().inputs[i].name == name) return n_.input(i);
    }
    return nullptr;
  }
  bool flag(std::string_view name) const {
    const Value* v = slot(name);
    return v != nullptr && v->is_constant() && v->constant()->size() == 1 && v->constant()->as_double(0) != 0;
  }
  Count pool_window() const {
    int64_t all = 1;
    if (const auto sizes = n_.attr_ints("kernel_shape")) {
      for (int64_t k : *sizes) all *= k;
      return Dim::of(all);
    }
    const Value* sizes = slot("kernel_sizes");
    if (sizes == nullptr || !sizes->is_constant()) return std::nullopt;
    for (int64_t i = 0; i < sizes->constant()->size(); ++i) all *= static_cast<int64_t>(sizes->constant()->as_double(i));
    return Dim::of(all);
  }

  // Queries times keys, and weights times values; `keys` is their number.
  Count attention_products(Count keys) const { return times(2, times(plus(size(n_.input(0)), size(n_.result())), keys)); }
  Count attention() const {
    Count keys = axis(n_.input(1), -2);
    if (n_.input(4) != nullptr) keys = plus(keys, axis(n_.input(4), -2));  // cached ones
    return attention_products(keys);
  }
  // x is [time, batch, features] or [batch, time, features]: each row meets all weights once.
  template <class... More>
  Count recurrent(const Value* w, const Value* r, const More*... more) const {
    const Value* x = n_.input(0);
    if (x == nullptr || !x->ranked() || x->type()->rank() < 2) return std::nullopt;
    Count weights = plus(size(w), size(r));
    ((weights = more != nullptr ? plus(weights, size(more)) : weights), ...);
    return times(2, times(dims_.product(x->type()->dims().first(2)), weights));
  }

  // The product of all index sizes: once, and an addition for each where operands are multiplied.
  Count einsum() const {
    std::string equation = n_.attr_string("equation", "");
    if (const Value* v = slot("equation"); v != nullptr && v->is_constant() && !v->constant()->string_values().empty())
      equation = v->constant()->string_values()[0];
    std::erase(equation, ' ');
    std::map<char, Dim> sizes;
    size_t operand = 0, axis = 0;
    for (char c : equation.substr(0, equation.find("->"))) {
      if (c == ',') {
        ++operand;
        axis = 0;
        continue;
      }
      const Value* v = n_.input(operand);
      if (c == '.' || v == nullptr || !v->ranked() || axis >= v->type()->rank()) return std::nullopt;
      const Dim d = v->type()->dim(axis++);
      if (const auto [at, is_new] = sizes.emplace(c, d); !is_new && at->second.is(1)) at->second = d;
    }
    Dim all = Dim::of(operand > 0 ? 2 : 1);
    for (const auto& [letter, d] : sizes) all = dims_.mul(all, d);
    return all;
  }

  // dimension_numbers = ((axes of a, axes of b) to contract, batch axes)
  Count dot_general() const {
    const Attr* numbers = n_.attr("dimension_numbers");
    const auto* both = numbers != nullptr ? numbers->get<AttrList>() : nullptr;
    const auto* contracted = both != nullptr && !both->empty() ? both->front().get<AttrList>() : nullptr;
    const auto* axes = contracted != nullptr && !contracted->empty() ? contracted->front().get<Attr::Ints>() : nullptr;
    if (axes == nullptr) return std::nullopt;
    Count depth = Dim::of(1);
    for (int64_t a : *axes) depth = times(depth, axis(n_.input(0), static_cast<int>(a)));
    return product(depth);
  }

  const Node& n_;
  Dims& dims_;
};

}  // namespace

std::optional<Dim> flops(const Node& n) {
  if (!n.bodies().empty()) return Dim::of(0);
  const auto row = n.op().known ? rows_by_id()[n.op().id] : std::nullopt;
  if (!row) return std::nullopt;
  const auto count = Counting(n).run(*row);
  return count && !count->is_unknown() ? count : std::nullopt;
}

bool is_view(const Node& n) {
  static constexpr std::array<std::string_view, 9> kViews = {"Reshape", "Squeeze",     "Unsqueeze", "Flatten", "Identity",
                                                             "reshape", "expand_dims", "squeeze",   "identity"};
  return std::ranges::any_of(kViews, [&](std::string_view name) { return n.is(name); });
}

bool is_selection(const Node& n) {
  static constexpr std::array<std::string_view, 9> kSelections = {
      "Gather", "GatherElements",    "GatherND",  "Slice",         "Compress",
      "gather", "gather_along_axis", "gather_nd", "slice_by_index"};
  return std::ranges::any_of(kSelections, [&](std::string_view name) { return n.is(name); });
}

}  // namespace sardonyx
