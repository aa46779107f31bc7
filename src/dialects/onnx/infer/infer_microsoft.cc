// Operators of onnxruntime (com.microsoft, and two that its optimizer adds to the standard's domain). Shapes
// flow through them, so that values computed from these shapes fold. Facts from onnxruntime's
// docs/ContribOperators.md.
#include <unordered_map>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"
#include "ir/infer/foreign_rules.h"

namespace sardonyx {
namespace onnx::rules {
namespace {

Dim dim_or_unknown(const Type* t, size_t axis) { return t != nullptr && axis < t->rank() ? t->dim(axis) : Dim(); }

// Results 0 and, if present, 3 (the normalized sum).
void skip_norm(InferContext& c) {
  set_same(c);
  if (c.num_results() > 3) set_same(c, 0, 3);
}

void bias_split_gelu(InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr || x->rank() == 0) return;
  DimVec dims = dims_of(x);
  if (!dims.back().is_unknown()) dims.back() = floordiv(c, dims.back(), 2);
  c.set(0, x->dtype(), dims);
}

// --- quantization

void quantize_ms(InferContext& c) { set_same_shape(c, c.has_input(2) ? dtype_of(c, 2) : DType::kU8); }

void dequantize_ms(InferContext& c) { set_same_shape(c, dtype_of(c, 1)); }

// Tensor, scale and zero point of each operand.
void qlinear_binary(InferContext& c) {
  const Type *a = c.ranked(0), *b = c.ranked(3);
  if (a != nullptr && b != nullptr) c.set(0, a->dtype(), broadcast(c, a->dims(), b->dims()));
}

// The condition alone has no scale and zero point.
void qlinear_where(InferContext& c) {
  const Type *condition = c.ranked(0), *a = c.ranked(1), *b = c.ranked(4);
  if (condition == nullptr || a == nullptr || b == nullptr) return;
  c.set(0, a->dtype(), broadcast(c, broadcast(c, condition->dims(), a->dims()), b->dims()));
}

// The scale and zero point of the result come first.
void qlinear_concat(InferContext& c) {
  const Type* first = c.ranked(2);
  if (first == nullptr) return;
  const size_t axis = normal_axis(c, c.attr_int("axis", 1), first->rank());
  DimVec dims = dims_of(first);
  for (size_t i = 5; i < c.num_inputs(); i += 3) {
    const Type* t = c.ranked(i);
    if (t == nullptr || t->rank() != dims.size()) return;
    for (size_t k = 0; k < dims.size(); ++k) {
      if (k != axis) {
        dims[k] = same_dim(c, dims[k], t->dim(k), "the sizes of joined operands");
      } else {
        dims[k] = dims[k].is_unknown() || t->dim(k).is_unknown() ? Dim() : add(c, dims[k], t->dim(k));
      }
    }
  }
  c.set(0, first->dtype(), dims);
}

void qlinear_global_pool(InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr || x->rank() < 2) return;
  const size_t channels = c.attr_int("channels_last", 0) != 0 ? x->rank() - 1 : 1;
  DimVec dims(x->rank(), Dim::of(1));
  dims[0] = x->dim(0);
  dims[channels] = x->dim(channels);
  c.set(0, x->dtype(), dims);
}

void qlinear_pool(InferContext& c) {
  if (c.attr_int("channels_last", 0) == 0) pool(c);
}

void qlinear_conv_ms(InferContext& c) {
  if (c.attr_int("channels_last", 0) == 0) qlinear_conv(c);
}

void qlinear_reduce(InferContext& c) {
  const Type* x = c.ranked(0);
  const auto listed = c.attr_ints("axes");
  if (x == nullptr || !listed) return;
  const bool keep = c.attr_int("keepdims", 1) != 0;
  std::vector<bool> removed(x->rank());
  for (size_t axis : normal_axes(c, *listed, x->rank())) removed[axis] = true;
  DimVec dims;
  for (size_t i = 0; i < x->rank(); ++i) {
    if (!removed[i]) dims.push_back(x->dim(i));
    if (removed[i] && keep) dims.push_back(Dim::of(1));
  }
  c.set(0, x->dtype(), dims);
}

void qgemm(InferContext& c) {
  const Type *a = c.ranked(0), *b = c.ranked(3);
  if (a == nullptr || b == nullptr || a->rank() != 2 || b->rank() != 2) return;
  const DType dtype = c.has_input(8) ? dtype_of(c, 8) : DType::kF32;
  const size_t rows = c.attr_int("transA", 0) != 0 ? 1 : 0, columns = c.attr_int("transB", 0) != 0 ? 0 : 1;
  if (dtype != DType::kUndefined) c.set(0, dtype, DimVec{a->dim(rows), b->dim(columns)});
}

void matmul_f32(InferContext& c) { product(c, 0, 1, DType::kF32); }

void matmul_to_float(InferContext& c) { product(c, 0, 1, dtype_of(c, 2)); }

// Weights packed in blocks of few bits: only the attributes give their shape, [N,K].
void matmul_packed(InferContext& c) {
  const Type* a = c.ranked(0);
  const auto columns = c.attr_int("N");
  if (a == nullptr || a->rank() == 0 || !columns) return;
  DimVec dims = dims_of(a);
  dims.back() = Dim::of(*columns);
  c.set(0, a->dtype(), dims);
}

void gather_packed(InferContext& c) {
  const Type *data = c.ranked(0), *indices = c.ranked(1);
  const DType dtype = dtype_of(c, 2);
  if (data == nullptr || indices == nullptr || dtype == DType::kUndefined) return;
  DimVec dims = dims_of(data);
  const size_t axis = normal_axis(c, c.attr_int("gather_axis", 0), dims.size());
  const int64_t bits = c.attr_int("bits", 4);
  if (data->dtype() == DType::kU8 && bits > 0 && bits < 8) dims.back() = mul(c, dims.back(), 8 / bits);
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), indices->dims().begin(), indices->dims().end());
  c.set(0, dtype, dims);
}

// --- products

// Transposes the last two axes. With transBatch, first moves the first axis to before the last.
void fused_matmul(InferContext& c) {
  const Type *a = c.ranked(0), *b = c.ranked(1);
  if (a == nullptr || b == nullptr || a->rank() == 0 || b->rank() == 0) return;
  if (c.attr_int("transBatchA", 0) != 0 || c.attr_int("transBatchB", 0) != 0) return;
  DimVec l = dims_of(a), r = dims_of(b);
  if (l.size() > 1 && c.attr_int("transA", 0) != 0) std::swap(l[l.size() - 1], l[l.size() - 2]);
  if (r.size() > 1 && c.attr_int("transB", 0) != 0) std::swap(r[r.size() - 1], r[r.size() - 2]);
  product_of_dims(c, std::move(l), std::move(r), a->dtype());
}

// --- transformers

void embed(InferContext& c) {
  const Type *ids = c.ranked(0), *words = c.ranked(2);
  if (ids == nullptr || words == nullptr || ids->rank() != 2 || words->rank() != 2) return;
  const DimVec dims{ids->dim(0), ids->dim(1), words->dim(1)};
  c.set(0, words->dtype(), dims);
  c.set(1, DType::kI32, DimVec{ids->dim(0)});
  c.set(2, words->dtype(), dims);
}

// The weight holds the widths of Q, K and V side by side.
Dim width_of_v(InferContext& c, const Type* weight) {
  if (const auto sizes = c.attr_ints("qkv_hidden_sizes"); sizes && sizes->size() == 3) return Dim::of((*sizes)[2]);
  const Dim all = dim_or_unknown(weight, 1);
  return all.is_unknown() ? Dim() : floordiv(c, all, 3);
}

void packed_attention(InferContext& c, size_t past_at, DType dtype) {
  const Type *x = c.ranked(0), *weight = c.ranked(1);
  if (x == nullptr || x->rank() != 3 || dtype == DType::kUndefined) return;
  const Dim width = width_of_v(c, weight);
  c.set(0, dtype, DimVec{x->dim(0), x->dim(1), width});
  const auto heads = c.attr_int("num_heads");
  if (c.num_results() < 2 || !heads || *heads < 1) return;
  const bool has_past = c.has_input(past_at);
  const Type* past = has_past ? c.ranked(past_at) : nullptr;
  Dim total = has_past ? Dim() : x->dim(1);
  if (c.attr_int("past_present_share_buffer", 0) != 0) {
    total = dim_or_unknown(past, 3);
  } else if (past != nullptr && past->rank() == 5 && !past->dim(3).is_unknown() && !x->dim(1).is_unknown()) {
    total = add(c, past->dim(3), x->dim(1));
  }
  const Dim head = width.is_unknown() ? Dim() : floordiv(c, width, *heads);
  c.set(1, dtype, DimVec{Dim::of(2), x->dim(0), Dim::of(*heads), total, head});
}

void attention_ms(InferContext& c) { packed_attention(c, 4, dtype_of(c, 0)); }

// Operands and weights are integers; the scale has the result's type.
void qattention(InferContext& c) { packed_attention(c, 8, dtype_of(c, 3)); }

// Q is [B,S,D], or Q, K and V packed as [B,S,heads,3,size]. K and V are [B,L,D], [B,heads,L,size] from
// another attention, or packed as [B,L,heads,2,size].
void multi_head_attention(InferContext& c) {
  const Type* q = c.ranked(0);
  const Type* k = c.ranked(1);
  const Type* v = c.ranked(2);
  const auto heads = c.attr_int("num_heads");
  if (q == nullptr || !heads || *heads < 1) return;
  if (q->rank() == 5) return c.set(0, q->dtype(), DimVec{q->dim(0), q->dim(1), mul(c, q->dim(4), *heads)});
  if (q->rank() != 3) return;
  Dim width, length;
  if (v != nullptr && v->rank() == 3) {
    width = v->dim(2);
    length = v->dim(1);
  } else if (v != nullptr && v->rank() == 4) {
    width = mul(c, v->dim(3), *heads);
    length = v->dim(2);
  } else if (k != nullptr && k->rank() == 5) {
    width = q->dim(2);
    length = k->dim(1);
  }
  c.set(0, q->dtype(), DimVec{q->dim(0), q->dim(1), width});
  if (c.attr_int("past_present_share_buffer", 0) != 0) return;
  const bool has_past = c.has_input(6);
  const Type* past = has_past ? c.ranked(6) : nullptr;
  Dim total = length;
  if (has_past) {
    const Dim before = dim_or_unknown(past, 2);
    total = before.is_unknown() || length.is_unknown() ? Dim() : add(c, before, length);
  }
  const auto per_head = [&](Dim all) { return all.is_unknown() ? Dim() : floordiv(c, all, *heads); };
  c.set(1, q->dtype(), DimVec{q->dim(0), Dim::of(*heads), total, per_head(q->dim(2))});
  c.set(2, q->dtype(), DimVec{q->dim(0), Dim::of(*heads), total, per_head(width)});
}

// Without K and V, Q packs all three. The length of the resulting caches depends on data.
void group_query_attention(InferContext& c) {
  const Type* q = c.ranked(0);
  const auto heads = c.attr_int("num_heads"), groups = c.attr_int("kv_num_heads");
  if (q == nullptr || q->rank() != 3 || !heads || !groups || *heads < 1 || *groups < 1) return;
  const Dim all = q->dim(2);
  const int64_t parts = c.has_input(1) ? *heads : *heads + 2 * *groups;
  const Dim head = all.is_unknown() ? Dim() : floordiv(c, all, parts);
  c.set(0, q->dtype(), DimVec{q->dim(0), q->dim(1), c.has_input(1) ? all : mul(c, head, *heads)});
  for (size_t i = 1; i <= 2; ++i) {
    const DType dtype = c.has_input(i + 2) ? dtype_of(c, i + 2) : q->dtype();
    if (dtype == q->dtype()) c.set(i, dtype, DimVec{q->dim(0), Dim::of(*groups), Dim(), head});  // a cache may be packed
  }
}

void relative_position_bias(InferContext& c) {
  const Type* table = c.ranked(0);
  const auto queries = scalar_value(c, 1), keys = scalar_value(c, 2);
  if (table == nullptr || table->rank() != 2) return;
  c.set(0, table->dtype(), DimVec{Dim::of(1), table->dim(1), queries.value_or(Dim()), keys.value_or(Dim())});
}

// --- others

void distances(InferContext& c) {
  const Type *a = c.ranked(0), *b = c.ranked(1);
  if (a != nullptr && b != nullptr && a->rank() == 2 && b->rank() == 2) c.set(0, a->dtype(), DimVec{a->dim(0), b->dim(0)});
}

const std::unordered_map<std::string_view, TypeRule>& microsoft_rules() {
  static const std::unordered_map<std::string_view, TypeRule> kRules = {
      {"Attention", attention_ms},
      {"BiasAdd", same},
      {"BiasGelu", broadcasting},
      {"BiasSoftmax", same},
      {"BiasSplitGelu", bias_split_gelu},
      {"CDist", distances},
      {"DequantizeLinear", dequantize_ms},
      {"DynamicQuantizeLSTM", recurrent},
      {"DynamicQuantizeMatMul", matmul_f32},
      {"EmbedLayerNormalization", embed},
      {"FastGelu", same},
      {"FusedConv", conv},
      {"FusedGemm", gemm},
      {"FusedMatMul", fused_matmul},
      {"FusedMatMulActivation", fused_matmul},
      {"GatherBlockQuantized", gather_packed},
      {"Gelu", same},
      {"GemmFastGelu", matmul},
      {"GroupNorm", same},
      {"GroupQueryAttention", group_query_attention},
      {"Inverse", same},
      {"MatMulBnb4", matmul_packed},
      {"MatMulInteger16", matmul_integer},
      {"MatMulIntegerToFloat", matmul_to_float},
      {"MatMulNBits", matmul_packed},
      {"MoE", same},
      {"MultiHeadAttention", multi_head_attention},
      {"QAttention", qattention},
      {"QGemm", qgemm},
      {"QLinearAdd", qlinear_binary},
      {"QLinearAveragePool", qlinear_pool},
      {"QLinearConcat", qlinear_concat},
      {"QLinearConv", qlinear_conv_ms},
      {"QLinearGlobalAveragePool", qlinear_global_pool},
      {"QLinearLeakyRelu", same},
      {"QLinearMul", qlinear_binary},
      {"QLinearReduceMean", qlinear_reduce},
      {"QLinearSigmoid", same},
      {"QLinearSoftmax", same},
      {"QLinearWhere", qlinear_where},
      {"QMoE", same},
      {"QuantizeLinear", quantize_ms},
      {"QuickGelu", same},
      {"RelativePositionBias", relative_position_bias},
      {"RotaryEmbedding", same},
      {"SkipGroupNorm", same},
      {"SkipLayerNormalization", skip_norm},
      {"SkipSimplifiedLayerNormalization", skip_norm},
      {"TransposeMatMul", fused_matmul},
      {"Trilu", same},
  };
  return kRules;
}

}  // namespace
}  // namespace onnx::rules

TypeRule foreign_type_rule(std::string_view domain, std::string_view name) {
  using namespace onnx::rules;
  if (domain.empty() && (name == "SimplifiedLayerNormalization" || name == "LayerNormalization")) return layer_norm;
  if (domain != "com.microsoft") return nullptr;
  const auto found = microsoft_rules().find(name);
  return found != microsoft_rules().end() ? found->second : nullptr;
}

}  // namespace sardonyx
