// Recognizes causal attention masks in all common forms:
//
//   condition   Range >= Range (also Less, Greater, Not), Trilu(upper=0) of ones, its comparison with 0,
//               a constant
//   additive    Where(condition, 0, fill), Where(not condition, fill, 0), Trilu(upper=1) of the fill from the
//               first diagonal on, a constant
//
// Looks through axes of size 1. The matrix must be square: with fewer queries than keys, some runtimes count
// positions from the start and others from the end.
// After torch.tril, torch.triu, torch.nn.Transformer.generate_square_subsequent_mask, jax.numpy.tril.
#include "passes/onnx/fuse/attention.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

constexpr int kSteps = 32;
constexpr double kFill = -1e4;  // anything lower vanishes in a softmax

// The elements along axis `from_end`, counted from the end, without views; null if another axis has more than
// one element.
const Value* positions(const Value* v, size_t from_end) {
  if (!v->ranked()) return nullptr;
  for (size_t a = 0; a < v->type()->rank(); ++a) {
    if (!v->type()->dim(a).is(1) && v->type()->rank() - 1 - a != from_end) return nullptr;
  }
  for (int i = 0; i < kSteps; ++i) {
    const Node* n = v->def();
    if (n == nullptr || !is_view(*n) || n->is("Transpose")) return v;
    v = n->input(0);
  }
  return nullptr;
}

// v without the axes of size 1 that views added or dropped, if [..., n, n] remains; else null.
Value* square_below(Value* v) {
  for (int i = 0; i < kSteps; ++i) {
    const Node* n = v->def();
    if (n == nullptr || !is_view(*n) || n->is("Transpose") || !v->ranked()) break;
    if (!labels_above(*n, Labels(v->type()->rank()))) return nullptr;
    v = n->input(0);
  }
  if (!v->ranked() || v->type()->rank() < 2) return nullptr;
  const size_t rank = v->type()->rank();
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!v->type()->dim(i).is(1)) return nullptr;
  }
  return v->type()->dim(rank - 1) == v->type()->dim(rank - 2) ? v : nullptr;
}

// Whether all elements of a square constant satisfy `lower` on and below the diagonal, and `upper` above it.
template <class Lower, class Upper>
bool is_triangle(const Tensor& t, const Lower& lower, const Upper& upper) {
  if (t.is_promise() || t.is_splat()) return false;
  const int64_t size = t.shape().back();
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      const double v = decode_element(t.dtype(), bytes.data(), i * size + j);
      if (!(i >= j ? lower(v) : upper(v))) return false;
    }
  }
  return true;
}

// The number that all elements equal, if known.
std::optional<double> number(const Value* v, PassContext& c) {
  const Node* n = v->def();
  if (n != nullptr && n->is("Expand")) return c.splat(n->input(0));
  if (n == nullptr || !n->is("ConstantOfShape")) return c.splat(v);
  const TensorPtr repeated = repeated_number(*n);
  return repeated != nullptr ? std::optional(repeated->as_double(0)) : std::nullopt;
}

// The repeated element if `n` is a Trilu that keeps this side of this diagonal of equal elements.
std::optional<double> triangle(const Node* n, bool upper, int64_t diagonal, PassContext& c) {
  if (n == nullptr || !n->is("Trilu") || n->unchecked() || int_attr(*n, "upper") != int64_t{upper}) return std::nullopt;
  const auto k = n->input(1) != nullptr ? c.ints(n->input(1)) : std::vector<int64_t>{0};
  return k == std::vector{diagonal} ? number(n->input(0), c) : std::nullopt;
}

// Whether the two values are positions of queries and of keys, in this order.
bool are_positions(const Value* queries, const Value* keys, PassContext& c) {
  const Value *query = positions(queries, 1), *key = positions(keys, 0);
  if (query == nullptr || query != key) return false;
  const Node* r = query->def();
  if (r != nullptr && r->is("Cast")) r = r->input(0)->def();
  if (r != nullptr && r->is("Range")) {
    const auto step = c.ints(r->input(2));
    return step && step->front() > 0;
  }
  const auto known = query->is_constant() ? c.ints(query) : std::nullopt;
  if (!known) return false;
  for (size_t i = 1; i < known->size(); ++i) {
    if ((*known)[i] <= (*known)[i - 1]) return false;
  }
  return true;
}

// Whether the condition, below views, is true exactly where a query may see a key (`seen`), or exactly where
// not.
bool tells_causes(const Value* v, bool seen, PassContext& c) {
  for (const Node* n = v->def(); n != nullptr && n->is("Not") && !n->unchecked(); n = v->def()) {
    v = n->input(0);
    seen = !seen;
  }
  if (v->is_constant()) {
    const auto is_true = [](double e) { return e != 0; };
    const auto is_false = [](double e) { return e == 0; };
    return seen ? is_triangle(*v->constant(), is_true, is_false) : is_triangle(*v->constant(), is_false, is_true);
  }
  const Node* n = v->def();
  if (n == nullptr || n->unchecked()) return false;
  if (n->is("GreaterOrEqual") || n->is("Less"))
    return seen == n->is("GreaterOrEqual") && are_positions(n->input(0), n->input(1), c);
  if (n->is("LessOrEqual") || n->is("Greater"))
    return seen == n->is("LessOrEqual") && are_positions(n->input(1), n->input(0), c);
  if (n->is("Equal")) {
    for (size_t side : {0, 1}) {
      const Node* t = n->input(side)->def();
      const auto kept = triangle(t, /*upper=*/false, 0, c);
      if (!seen && kept && *kept != 0 && c.splat(n->input(1 - side)) == 0.0) return true;
    }
    return false;
  }
  if (n->is("Cast")) n = n->input(0)->def();
  const auto kept = triangle(n, /*upper=*/!seen, seen ? 0 : 1, c);
  return kept && *kept != 0;
}

}  // namespace

bool is_causal(Value* condition, PassContext& c) {
  const Value* v = square_below(condition);
  return v != nullptr && tells_causes(v, /*seen=*/true, c);
}

const Value* causes_of(Value* mask, PassContext& c) {
  const Value* v = square_below(mask);
  if (v == nullptr) return nullptr;
  if (v->is_constant()) {
    if (!is_float(v->dtype())) return nullptr;
    return is_triangle(*v->constant(), [](double e) { return e == 0; }, [](double e) { return e <= kFill; }) ? v : nullptr;
  }
  const Node* n = v->def();
  if (n == nullptr || n->unchecked()) return nullptr;
  const auto is_fill = [](const std::optional<double>& e) { return e && *e <= kFill; };
  if (n->is("Where")) {
    const auto yes = c.splat(n->input(1)), no = c.splat(n->input(2));
    const Value* condition = square_below(n->input(0));
    if (condition == nullptr) return nullptr;
    if (yes == 0.0 && is_fill(no) && tells_causes(condition, /*seen=*/true, c)) return condition;
    if (no == 0.0 && is_fill(yes) && tells_causes(condition, /*seen=*/false, c)) return condition;
    return nullptr;
  }
  return is_fill(triangle(n, /*upper=*/true, 1, c)) ? v : nullptr;
}

}  // namespace sardonyx::onnx
