//   Einsum<"bij,bjk->bik">(x, y)       =>   MatMul(x, y)
//   Einsum<"bij,bkj->bik">(x, y)       =>   MatMul(x, Transpose(y)) if y is constant; two axes: Gemm<transB>
//   Einsum<"abc->cab">(x)              =>   Transpose(x)
//   Einsum<"abc->ac">(x)               =>   ReduceSum(x)
//   Einsum(Softmax(Einsum(k, q)), v)   =>   MatMul(Softmax(MatMul(q, k)), v) with transposes
//   Einsum<"abc,cde->abde">(x, w) and Einsum<"abcd,cde->abe">(x, w) next to these
//                                      =>   Reshape and MatMul (Keras's projections to heads and back)
//
// Runtimes have their best kernels for the operators that the equation stands for. Except for attention, an
// einsum only becomes a single operator: one that would take several nodes stays.
// What stops it: an ellipsis; a label twice in one operand; no arrow; labels whose size differs between
// operands; sums of integers below 64 bits; batch axes that are not the first axes of all three values in one
// order.
// Rounds: the sum may run in another order.
#include "dialects/onnx/infer/einsum_terms.h"
#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/attention.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, soft{"soft"};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// The equation of a checked node, which has as many operands, of as many axes, as the equation says.
std::optional<Equation> parse(const Node& n) {
  const auto text = string_attr(n, "equation");
  if (!text) return std::nullopt;
  EinsumTerms terms = split_einsum(*text);
  if (!terms.result) return std::nullopt;
  Equation e{std::move(terms.operands), std::move(*terms.result)};
  const auto twice = [](std::string s) {  // including the dots of an ellipsis
    std::sort(s.begin(), s.end());
    return std::adjacent_find(s.begin(), s.end()) != s.end();
  };
  if (twice(e.result)) return std::nullopt;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const Value* v = n.input(i);
    if (twice(e.operands[i]) || v == nullptr || !v->ranked()) return std::nullopt;
  }
  return e;
}

bool has(const std::string& s, char c) { return s.find(c) != std::string::npos; }

Value* one_operand(Rewriter& b, const Match& m) {
  const auto e = parse(m.root());
  if (!e) return nullptr;
  const std::string& in = e->operands[0];
  std::vector<int64_t> perm, gone;
  std::string left;
  for (size_t i = 0; i < in.size(); ++i) {
    if (has(e->result, in[i]))
      left += in[i];
    else
      gone.push_back(static_cast<int64_t>(i));
  }
  const DType t = m[x]->dtype();
  // onnxruntime's ReduceSum of i32 saturates (since 1.27); its Einsum wraps.
  const bool sums = is_float(t) || t == DType::kI64 || t == DType::kU32 || t == DType::kU64;
  if (!gone.empty()) return sums && left == e->result ? b.reduce("ReduceSum", m[x], gone, false) : nullptr;
  for (char c : e->result) perm.push_back(static_cast<int64_t>(in.find(c)));
  return b.Transpose(m[x], {.perm = perm});
}

// Handles one row axis, one column axis and one summed axis; all axes before them are batch axes.
Value* two_operands(Rewriter& b, const Match& m) {
  const auto e = parse(m.root());
  if (!e) return nullptr;
  const DType t = m[x]->dtype();
  if (!is_float(t) || !has_kernel(m.model(), "MatMul", t)) return nullptr;
  const auto try_order = [&](const std::string& a, const std::string& c, Value* left, Value* right) -> Value* {
    const std::string& r = e->result;
    const size_t summed = a.find_first_not_of(r);
    if (r.size() < 2 || summed == std::string::npos) return nullptr;
    const std::string batch = r.substr(0, r.size() - 2), row = r.substr(r.size() - 2, 1), column = r.substr(r.size() - 1);
    const std::string k = a.substr(summed, 1);
    // MatMul also broadcasts: a right operand without batch axes serves all rows of the left one.
    const std::string right_batch = c.size() == 2 ? "" : batch;
    const bool turn_left = a == batch + k + row, turn_right = c == right_batch + column + k;
    if ((!turn_left && a != batch + row + k) || (!turn_right && c != right_batch + k + column)) return nullptr;
    // Einsum may broadcast a summed axis of size one; MatMul cannot.
    if (!(left->type()->dim(summed) == right->type()->dim(c.find(k)))) return nullptr;
    for (size_t i = 0; i < right_batch.size(); ++i) {
      if (!(left->type()->dim(i) == right->type()->dim(i))) return nullptr;
    }
    if (!turn_left && !turn_right) return b.MatMul(left, right);
    if (a.size() == 2) {
      AttrInit attrs;
      if (turn_left) attrs.push_back(attr("transA", 1));
      if (turn_right) attrs.push_back(attr("transB", 1));
      return b.op("Gemm", {left, right}, attrs);
    }
    if (turn_left || !right->is_constant() || !right->has_one_use()) return nullptr;
    std::vector<int64_t> perm(c.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return b.MatMul(left, b.Transpose(right, {.perm = perm}));
  };
  if (Value* made = try_order(e->operands[0], e->operands[1], m[x], m[y])) return made;
  return try_order(e->operands[1], e->operands[0], m[y], m[x]);
}

// --- attention as Keras writes it

// v with its axes in another order: from labels `from` to labels `to`.
Value* ordered(Rewriter& b, Value* v, const std::string& from, const std::string& to) {
  if (from == to) return v;
  std::vector<int64_t> perm;
  for (char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return b.Transpose(v, {.perm = perm});
}

bool same_labels(std::string a, std::string b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// The operand that has the label; nullopt if it is not exactly one.
std::optional<size_t> side_with(const Equation& e, char label) {
  const bool first = has(e.operands[0], label), second = has(e.operands[1], label);
  return first == second ? std::nullopt : std::optional<size_t>(first ? 0 : 1);
}

bool has_size(const Value* v, const std::string& labels, char label, Dim size) {
  return v->type()->dim(labels.find(label)) == size;
}

Value* attention(Rewriter& b, const Match& m) {
  const Node& root = m.root();
  const Node& softmax = m.node(soft);
  const DType t = root.result()->dtype();
  if (t != DType::kF32 && t != DType::kF16) return nullptr;
  if (int_attr(softmax, "axis") != -1 && int_attr(softmax, "axis") != 3) return nullptr;
  // The scores: [batch, head, query, key]. Between them and the softmax there may only be a scale and a mask.
  std::vector<Node*> between;
  const Value* at = softmax.input(0);
  Node* scores = made_by(at, root.graph(), "Einsum");
  while (scores == nullptr) {
    Node* n = made_by(at, root.graph(), "Add");
    for (const char* op : {"Mul", "Div"}) {
      if (n == nullptr) n = made_by(at, root.graph(), op);
    }
    if (n == nullptr || between.size() == 2 || (!n->is("Add") && !m.context().splat(n->input(1)))) return nullptr;
    between.push_back(n);
    at = n->input(0);
    scores = made_by(at, root.graph(), "Einsum");
  }
  if (scores->num_inputs() != 2) return nullptr;
  const auto above = parse(*scores), below = parse(root);
  if (!above || !below || above->result.size() != 4) return nullptr;
  const std::string& r = above->result;
  const auto q_side = side_with(*above, r[2]), k_side = side_with(*above, r[3]);
  if (!q_side || !k_side) return nullptr;
  const std::string &q_has = above->operands[*q_side], &k_has = above->operands[*k_side];
  char depth = 0;
  for (char c : q_has) {
    if (!has(r, c)) depth = c;
  }
  const std::string q_wants{r[0], r[1], r[2], depth}, k_wants{r[0], r[1], depth, r[3]};
  if (!same_labels(q_has, q_wants) || !same_labels(k_has, k_wants)) return nullptr;
  const size_t p_side = root.input(0) == softmax.result() ? 0 : 1;
  const std::string &p = below->operands[p_side], &v_has = below->operands[1 - p_side];
  if (p.size() != 4) return nullptr;  // an added operand has more axes than the scores
  char width = 0;
  for (char c : v_has) {
    if (!has(p, c)) width = c;
  }
  const std::string v_wants{p[0], p[1], p[3], width}, made{p[0], p[1], p[2], width};
  if (!same_labels(v_has, v_wants) || !same_labels(below->result, made)) return nullptr;
  Value *q = scores->input(*q_side), *k = scores->input(*k_side), *v = root.input(1 - p_side);
  for (size_t i : {size_t{0}, size_t{1}}) {  // no broadcasting
    const Dim size = q->type()->dim(q_has.find(r[i]));
    if (!has_size(k, k_has, r[i], size) || !has_size(v, v_has, p[i], size)) return nullptr;
  }
  if (!has_size(k, k_has, depth, q->type()->dim(q_has.find(depth))) ||
      !has_size(v, v_has, p[3], k->type()->dim(k_has.find(r[3]))))
    return nullptr;
  Value* y = b.MatMul(ordered(b, q, q_has, q_wants), ordered(b, k, k_has, k_wants));
  for (size_t i = between.size(); i-- > 0;) {
    Value* operands[] = {y, between[i]->input(1)};
    y = b.like(*between[i], operands);
  }
  Value* operands[] = {y};
  y = b.MatMul(b.like(softmax, operands), ordered(b, v, v_has, v_wants));
  return ordered(b, y, made, below->result);
}

// Whether v only goes through elementwise nodes with constants into the transpose of attention.
bool goes_to_heads(const Value* v) {
  for (int i = 0; i < 3; ++i) {
    if (!v->has_one_use()) return false;
    const Node& n = *v->uses().begin()->owner;
    if (n.unchecked()) return false;
    if (n.is("Transpose")) return true;
    if (!n.is("Add") && !n.is("Mul")) return false;
    if (!n.input(0)->is_constant() && !n.input(1)->is_constant()) return false;
    v = n.result();
  }
  return false;
}

// The constant weights as a matrix: the first `rows` axes by the others.
Value* as_matrix(Rewriter& b, const Value& w, size_t rows) {
  int64_t height = 1, wide = 1;
  const auto shape = w.constant()->shape();
  for (size_t i = 0; i < shape.size(); ++i) (i < rows ? height : wide) *= shape[i];
  return with_shape(b, w, {height, wide});
}

Value* projection(Rewriter& b, const Match& m) {
  const auto e = parse(m.root());
  if (!e || e->operands[1].size() != 3) return nullptr;
  const std::string &x_has = e->operands[0], &w_has = e->operands[1], rows = x_has.substr(0, 2);
  if (x_has != rows + w_has[0] || e->result != rows + w_has.substr(1) || !goes_to_heads(m.root().result())) return nullptr;
  if (!(m[x]->type()->dim(2) == m[y]->type()->dim(0))) return nullptr;
  const auto shape = m[y]->constant()->shape();
  return b.Reshape(b.MatMul(m[x], as_matrix(b, *m[y], 1)), b.i64s({0, 0, shape[1], shape[2]}));
}

Value* projection_back(Rewriter& b, const Match& m) {
  const auto e = parse(m.root());
  if (!e || e->operands[1].size() != 3) return nullptr;
  const std::string &x_has = e->operands[0], &w_has = e->operands[1], rows = x_has.substr(0, 2);
  if (x_has != rows + w_has.substr(0, 2) || e->result != rows + w_has[2]) return nullptr;
  const Node* from = m[x]->def()->input(0)->def();  // attention, fused or not
  if (from == nullptr || !(from->is("MatMul") || from->is("Attention"))) return nullptr;
  const auto shape = m[y]->constant()->shape();
  if (!m[x]->type()->dim(2).is(shape[0]) || !m[x]->type()->dim(3).is(shape[1])) return nullptr;
  return b.MatMul(b.Reshape(m[x], b.i64s({0, 0, shape[0] * shape[1]})), as_matrix(b, *m[y], 2));
}

bool is_one_of_floats(const Match& m) { return is_float(m[x]->dtype()) && m[y]->has_one_use(); }

}  // namespace

Pass expand_einsum() {
  std::vector<Rule> rules;
  rules.push_back({.name = "one", .numerics = Numerics::kRounds, .match = Einsum(x), .build = one_operand, .opset = 13});
  rules.push_back(
      {.name = "product", .numerics = Numerics::kRounds, .match = Einsum(x, y), .build = two_operands, .opset = 13});
  const Pattern probabilities = sole(Softmax(x).as(soft));
  rules.push_back({.name = "attention",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Einsum(probabilities, y), Einsum(y, probabilities)),
                   .build = attention,
                   .opset = 23});
  rules.push_back({.name = "projection",
                   .numerics = Numerics::kRounds,
                   .match = Einsum(x, constant.as(y)),
                   .when = is_one_of_floats,
                   .build = projection,
                   .opset = 23});
  rules.push_back({.name = "projection_back",
                   .numerics = Numerics::kRounds,
                   .match = Einsum(sole(Transpose(any)).as(x), constant.as(y)),
                   .when = is_one_of_floats,
                   .build = projection_back,
                   .opset = 23});
  return rules;
}

}  // namespace sardonyx::onnx
