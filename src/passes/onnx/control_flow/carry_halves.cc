//   Scan (key: i64[]) { k, s = halves of key ── ... ── pack ── key' }    =>    Scan (key: u32[2]) { ... }
//
// A number of 64 bits that a loop packs from two of 32, as a key of random numbers, is carried as these two,
// along a last axis: a loop variable, an operand that Scan takes row by row, or a stacked result. Within the
// loop and behind it the number is packed again, and unpack_halves takes the halves from there. Where only 32
// bits of an integer are held, as in Core ML, the key could not be taken apart. What stops it: a first value
// that is neither constant nor packed, a next value that is not packed. Exact: no number changes.
#include <algorithm>

#include "passes/onnx/simplify/halves.h"

namespace sardonyx::onnx {
namespace {

constexpr int64_t kMostNumbers = 1 << 20;

bool is_wide(const Value* v) { return v != nullptr && v->ranked() && (v->dtype() == DType::kI64 || v->dtype() == DType::kU64); }

// Whether v is such a number, packed or constant.
bool is_key(const Value* v) {
  if (!is_wide(v)) return false;
  return v->is_constant() ? v->constant()->to_ints(kMostNumbers).has_value() : has_halves(*v);
}

const Type* pairs_type(Types& types, const Type& wide) {
  std::vector<Dim> dims(wide.dims().begin(), wide.dims().end());
  dims.push_back(Dim::of(2));
  return types.tensor(DType::kU32, dims);
}

// Both halves of a key along a new last axis.
Value* pairs_of(Rewriter& b, Value* v) {
  if (v->is_constant()) {
    std::vector<uint32_t> halves;
    const std::vector<int64_t> list = v->constant()->to_ints(kMostNumbers).value();
    for (int64_t k : list) {
      halves.push_back(static_cast<uint32_t>(static_cast<uint64_t>(k) >> 32));
      halves.push_back(static_cast<uint32_t>(static_cast<uint64_t>(k) & kLowerHalf));
    }
    std::vector<int64_t> shape(v->constant()->shape().begin(), v->constant()->shape().end());
    shape.push_back(2);
    return b.constant(Tensor::of<uint32_t>(DType::kU32, std::move(shape), halves));
  }
  std::vector<Value*> halves;
  for (bool upper : {true, false}) {
    Value* half = b.Cast(half_of(b, v, upper), {.to = DType::kU32});
    halves.push_back(b.unsqueeze(half, std::vector<int64_t>{static_cast<int64_t>(v->type()->rank())}));
  }
  return b.Concat(halves, {.axis = -1});
}

// The number of type `wide` from its halves.
Value* packed(Rewriter& b, Value* pairs, DType wide) {
  const auto half = [&](int64_t i) {
    Value* one = b.Gather(pairs, b.constant(Tensor::full(DType::kI64, {}, static_cast<double>(i))), {.axis = -1});
    return b.Cast(one, {.to = DType::kU64});
  };
  Value* high = b.BitShift(half(0), b.constant(Tensor::full(DType::kU64, {}, 32)), {.direction = "LEFT"});
  Value* all = b.BitwiseOr(high, half(1));
  return wide == DType::kU64 ? all : b.Cast(all, {.to = wide});
}

// v becomes the pairs; its users now read the number that is packed from them before `at` (null: at the end).
void becomes_pairs(Graph& g, Value& v, Node* at, PassContext& context) {
  Rewriter b(g, context);
  b.set_insertion_point(at);
  if (v.def() != nullptr) b.set_provenance(v.def()->provenance());
  const Type* wide = v.type();
  Value& before = g.model().new_placeholder({}, wide);
  g.replace_uses(v, before);
  v.set_type(pairs_type(b.types(), *wide));
  g.replace_uses(before, *packed(b, &v, wide->dtype()));
}

// Whether something takes the upper half of v, behind casts and moves.
bool is_unpacked(const Value& v, int moves = 0) {  // NOLINT(misc-no-recursion): at most a few
  constexpr int kMostMoves = 5;
  return std::ranges::any_of(v.uses(), [&](const Use& u) {
    const Node& n = *u.owner;
    if (n.is("BitShift")) return is_shift_of_half(n, "RIGHT");
    const bool moves_on =
        n.is("Cast") || n.is("Reshape") || n.is("Squeeze") || n.is("Unsqueeze") || n.is("Slice") || n.is("Gather");
    return moves_on && moves < kMostMoves && is_unpacked(*n.result(), moves + 1);
  });
}

class Loops {
 public:
  Loops(Node& n, PassContext& context)
      : n_(n), g_(*n.graph()), body_(*n.body("body")), context_(context), is_scan_(n.is("Scan")) {}

  bool run() {
    bool changed = false;
    const size_t ahead = is_scan_ ? 0 : 2;  // count and condition; iteration and condition
    const size_t scanned = is_scan_ ? static_cast<size_t>(n_.attr_int("num_scan_inputs", 0)) : 0;
    if (n_.num_inputs() < ahead + scanned || body_.inputs().size() != n_.num_inputs()) return false;
    const size_t carried = n_.num_inputs() - ahead - scanned, condition = is_scan_ ? 0 : 1;
    if (body_.outputs().size() != n_.num_results() + condition || n_.num_results() < carried) return false;
    for (size_t i = 0; i < carried; ++i) changed |= carry(i, i + ahead, i + condition);
    if (n_.attr("scan_input_axes") != nullptr || n_.attr("scan_output_axes") != nullptr) return changed;
    for (size_t i = 0; i < scanned; ++i) changed |= take_rows(carried + i);
    for (size_t i = carried; i < n_.num_results(); ++i) changed |= stack(i, i + condition);
    return changed;
  }

 private:
  bool carry(size_t result, size_t in, size_t out) {
    Value *begin = n_.input(in), *next = body_.output(out);
    if (!is_key(begin) || !is_key(next) || next->is_constant() || !is_wide(body_.input(in))) return false;
    Value* last = pairs_in_body(next);
    set_operand(in, *pairs_before(begin));
    set_body_result(out, *last);
    becomes_pairs(g_, *n_.result(result), n_.next(), context_);
    return true;
  }

  bool take_rows(size_t in) {
    if (!is_key(n_.input(in)) || !is_wide(body_.input(in)) || !is_unpacked(*body_.input(in))) return false;
    set_operand(in, *pairs_before(n_.input(in)));
    return true;
  }

  bool stack(size_t result, size_t out) {
    Value* row = body_.output(out);
    if (!is_key(row) || !is_wide(n_.result(result)) || row->is_constant()) return false;
    set_body_result(out, *pairs_in_body(row));
    becomes_pairs(g_, *n_.result(result), n_.next(), context_);
    return true;
  }

  Value* pairs_before(Value* v) {
    Rewriter b(g_, context_);
    b.set_insertion_point(&n_);
    b.set_provenance(n_.provenance());
    return pairs_of(b, v);
  }
  Value* pairs_in_body(Value* v) {
    Rewriter b(body_, context_);
    b.set_provenance(n_.provenance());
    return pairs_of(b, v);
  }
  void set_operand(size_t in, Value& pairs) {
    n_.set_input(in, &pairs);
    becomes_pairs(body_, *body_.input(in), body_.first(), context_);
    body_.input_port(in).declared = nullptr;
  }
  void set_body_result(size_t out, Value& pairs) {
    body_.set_output(out, pairs);
    body_.output_port(out).declared = nullptr;
  }

  Node& n_;
  Graph &g_, &body_;
  PassContext& context_;
  bool is_scan_;
};

}  // namespace

Pass carry_halves() {
  return Pass::on_graph(Numerics::kExact, needs({"BitShift"}), [](Graph& top, PassContext& context) {
    bool changed = false;
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        const bool loops = n.is("Loop") || (n.is("Scan") && n.op().since_version >= 9);
        if (loops && !n.unchecked() && n.body("body") != nullptr) changed |= Loops(n, context).run();
      }
    }
    return changed;
  });
}

}  // namespace sardonyx::onnx
