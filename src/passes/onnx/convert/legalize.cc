//   x: bf16 ── Exp ── y     =>   x ── Cast<f32> ── Exp ── Cast<bf16> ── y     if the target has no Exp of bf16
//
// Makes the graph run on a named runtime (dialects/onnx/runtimes/runtimes.h). If the runtime lacks an
// operator for an element type, the pass computes it in a wider type that holds every value and converts the
// result back: floats round once, as before, and integers keep their low bits. The model's IR version becomes
// one that the runtime loads.
//
// Some kernels have conditions beyond types. The pass meets them by expanding an axis or writing out an
// attribute (runtimes_conditions.cc).
//
// If an operator still has no kernel, the pass writes it out as the standard defines it (standard_bodies.cc),
// provided that the parts have kernels.
//
// If nothing helps, the pass throws an error that lists every such node: it never writes a file that the
// target cannot load.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "dialects/onnx/readers.h"
#include "dialects/onnx/refusals.h"
#include "dialects/onnx/runtimes/wrong_kernels.h"
#include "passes/onnx/convert/standard_bodies.h"
#include "passes/onnx/convert/widen.h"
#include "passes/onnx/fuse/attention.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

uint64_t bit(DType t) { return static_cast<unsigned>(t) < 64 ? uint64_t{1} << static_cast<unsigned>(t) : 0; }

class Legalizer {
 public:
  Legalizer(PassContext& context, const Runtime& runtime) : context_(context), runtime_(runtime), widener_(context) {}

  bool run() {
    Model& m = context_.model;
    const auto imported = m.opset_version("");
    if (imported && *imported > runtime_.opset) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} loads opset {} at most, and the model imports {}", runtime_.name, runtime_.opset, *imported));
    }
    const bool lowers_ir = m.ir_version > runtime_.ir_version;
    if (lowers_ir) m.ir_version = runtime_.ir_version;
    for (const auto& f : m.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        widener_.clear();
        for (Node& n : g->nodes()) visit(*g, n);
      }
    }
    if (!problems_.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} cannot run {} of the graph's nodes", runtime_.name, problems_.size()), problems_);
    }
    return changed_ || lowers_ir;
  }

 private:
  void visit(Graph& g, Node& n) {
    auto refused = refusal(runtime_, n);
    if (refused && !refused->asks.empty() && fit(g, n)) refused = refusal(runtime_, n);
    if (!refused) return;
    Node* before = n.prev();
    try {
      if (compose(g, n) || (refused->asks.empty() && widen(g, n)) || write_out(g, n, before)) return;
    } catch (const Error& e) {
      // The model's opset lacks an operator of the rewritten form, or lacks it for these types.
      if (e.code() == ErrorCode::kInternal) throw;
      while (n.prev() != before) g.erase(*n.prev());
    }
    refuse(n, *refused);
  }

  // Replaces `n` by the same operator on wider types.
  bool widen(Graph& g, Node& n) {
    const Op& op = n.op();
    // An attribute of the node fixes one of its types, or bodies do: these types cannot be widened.
    if (!n.bodies().empty() || n.is("Cast") || n.attr("dtype") != nullptr || n.attr("value") != nullptr) return false;
    const TypesByVariable types = types_by_variable(n, op);
    // Sums of narrow integers must use i64 where the i32 kernel saturates. Products wrap in both.
    const bool wraps = n.is("ReduceProd") || n.is("ReduceSumSquare") || n.is("ReduceL1");
    const auto is_avoided = [&](DType t) {
      return is_wrong(op.name, t, &runtime_) && (t == DType::kI32 || (t == DType::kI64 && wraps));
    };
    for (const Kernel* k : kernels(runtime_, op, opset_of(n))) {
      const auto allowed = [&](std::string_view variable) {
        uint64_t all = k->of(variable) & types_in_standard(op, variable);
        if ((all & bit(DType::kI64)) != 0 && is_avoided(DType::kI32)) all &= ~bit(DType::kI32);
        return is_avoided(DType::kI64) ? all & ~bit(DType::kI64) : all;
      };
      if (const auto wide = widened(op, types, allowed)) {
        widener_.replace(g, n, op, types, *wide);
        return changed_ = true;
      }
    }
    return false;
  }

  // Replaces `n` by the body that the standard defines, then visits the new nodes.
  bool write_out(Graph& g, Node& n, const Node* before) {
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    const std::vector<Value*> results = write_body(b, n);
    if (results.empty()) return false;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == nullptr || !n.result(i)->has_uses()) continue;
      results[i]->set_type(n.result(i)->type());
      g.replace_uses(*n.result(i), *results[i]);
    }
    note_change(n);
    std::vector<Node*> made;
    for (Node* m = n.prev(); m != before; m = m->prev()) made.push_back(m);
    g.erase(n);
    for (auto m = made.rbegin(); m != made.rend(); ++m) visit(g, **m);
    return true;
  }

  // Meets the conditions that a kernel has beyond types: expands axes that the standard would broadcast, and
  // states in an attribute what the axes imply.
  bool fit(Graph& g, Node& n) {
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    const Value* x = n.input(0);
    if (x == nullptr || !x->ranked() || n.unchecked()) return false;
    const size_t rank = x->type()->rank();
    if (n.is("Attention") && (rank == 3 || rank == 4) && n.input(3) != nullptr && n.input(3)->ranked()) {
      Value* mask = n.input(3);
      const size_t axes = mask->type()->rank();
      if (axes < 2 || mask->type()->dim(axes - 2).is(1)) replace(n, 3, with_queries(b, mask, n.input(0)));
    } else if (n.is("RotaryEmbedding") && rank == 4 && x->type()->dim(1).is_int() && !int_attr(n, "num_heads").value_or(0)) {
      n.set_attrs(context_.model.with_attr(n.attrs(), "num_heads", x->type()->dim(1).value()));
      note_change(n);
    } else if (const auto norm = read::LayerNormalization::of(n); norm && norm->axis() && x->type()->is_static()) {
      std::vector<int64_t> shape;
      for (Dim d : x->type()->dims().subspan(*norm->axis())) shape.push_back(d.value());
      for (size_t i = 1; i < n.num_inputs(); ++i) {
        if (n.input(i) != nullptr && n.input(i)->ranked() && n.input(i)->type()->rank() <= shape.size())
          replace(n, i, b.Expand(n.input(i), b.i64s(shape)));
      }
    } else {
      return false;
    }
    return true;
  }

  void replace(Node& n, size_t i, Value* v) {
    if (v == n.input(i)) return;
    n.set_input(i, v);
    note_change(n);
  }
  void note_change(const Node& n) {
    context_.log.count(fmt::format("{} for its kernel", n.op().name));
    changed_ = true;
  }

  // Composes u64 operators from ones that have kernels:
  // - comparisons are signed comparisons with the highest bit flipped;
  // - quotients divide x / 2, which is not negative, double the result, and add one if the remainder still
  // holds the divisor; a divisor of 2^63 or more fits once or not at all;
  // - sums add the two 32-bit halves separately.
  // Also Cos of f64: 1 - 2 sin^2(x / 2), accurate to an ulp of 1; and products that a fusion would break.
  bool compose(Graph& g, Node& n) {
    const DType t = n.input(0) != nullptr ? n.input(0)->dtype() : DType::kUndefined;
    const bool is_product = n.is("MatMul"), is_extreme = is_ordered_by_low_words(n), is_sum = is_sum_of_u64(n);
    const bool is_gated = n.is("Mul") && !refusal(runtime_, n)->asks.empty();
    if (!is_product && !is_gated && !is_extreme && !is_sum && !is_composed(n.op().name, t)) return false;
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    Value* result = nullptr;
    std::string what = fmt::format("{} of {}", n.op().name, to_string(types_by_variable(n, n.op())));
    if (is_product) {
      if (t != DType::kF64 || refusal(runtime_, n)->asks.empty()) return false;
      what = "MatMul of f64 beside Transpose";
      result = as_einsum(b, n);
    } else if (is_gated) {
      what = "Mul of f64 by a Sigmoid";
      const Node* last = n.input(1)->def();
      const size_t gate = last != nullptr && last->is("Sigmoid") ? 1 : 0;
      result = b.Div(n.input(1 - gate), b.Reciprocal(n.input(gate)));
    } else if (is_extreme) {
      what = fmt::format("{} of u32", n.op().name);
      result = low_words_reduced(b, n);
    } else if (is_sum) {
      result = halves_summed(b, n);
    } else if (n.is("Cos")) {
      Value* sine = b.Sin(b.Mul(n.input(0), b.scalar(DType::kF64, 0.5)));
      result = b.Sub(b.scalar(DType::kF64, 1), b.Mul(b.Mul(sine, sine), b.scalar(DType::kF64, 2)));
    } else if (n.is("ReduceL2")) {
      result = b.Sqrt(b.op("ReduceSumSquare", operands_of(n), attrs_of(n)));
    } else if (n.is("Div")) {
      result = quotient(b, n.input(0), n.input(1));
    } else {
      result = b.op(n.op().name, {ordered(b, n.input(0)), ordered(b, n.input(1))});
    }
    result->set_type(n.result()->type());
    g.replace_uses(*n.result(), *result);
    context_.log.count(what);
    g.erase(n);
    return changed_ = true;
  }

  static Value* as_i64(Rewriter& b, Value* x) { return b.op("Cast", {x}, {attr("to", static_cast<int64_t>(DType::kI64))}); }

  static Value* ordered(Rewriter& b, Value* x) { return b.Add(as_i64(b, x), b.i64(std::numeric_limits<int64_t>::min())); }

  static Value* quotient(Rewriter& b, Value* x, Value* y) {
    Value *dividend = as_i64(b, x), *divisor = as_i64(b, y);
    Value* is_large = b.Less(divisor, b.i64(0));
    Value* half = as_i64(b, b.BitShift(x, b.scalar_int(DType::kU64, 1), {.direction = "RIGHT"}));
    Value* guess = b.Mul(b.Div(half, b.Where(is_large, b.i64(1), divisor)), b.i64(2));
    guess = b.Where(is_large, b.i64(0), guess);
    Value* rest = b.Sub(dividend, b.Mul(guess, divisor));
    Value* least = b.i64(std::numeric_limits<int64_t>::min());
    Value* once_more = as_i64(b, b.Not(b.Less(b.Add(rest, least), b.Add(divisor, least))));
    return b.op("Cast", {b.Add(guess, once_more)}, {attr("to", static_cast<int64_t>(DType::kU64))});
  }

  // ReduceMax and ReduceMin of u32 compute in i64, whose kernel compares only the low words. Subtracting 2^31
  // makes these comparisons correct.
  bool is_ordered_by_low_words(const Node& n) const {
    return (n.is("ReduceMax") || n.is("ReduceMin")) && n.input(0) != nullptr && n.input(0)->dtype() == DType::kU32 &&
           is_wrong(n.op().name, DType::kI64, &runtime_);
  }

  static Value* low_words_reduced(Rewriter& b, const Node& n) {
    Value* half = b.i64(int64_t{1} << 31);
    std::vector<Value*> operands = operands_of(n);
    operands[0] = b.Sub(as_i64(b, operands[0]), half);
    Value* result = b.Add(b.op(n.op().name, operands, attrs_of(n)), half);
    return b.op("Cast", {result}, {attr("to", static_cast<int64_t>(DType::kU32))});
  }

  // The i64 kernel adds in doubles, so sums of 32-bit halves are exact up to 2^21 elements.
  bool is_sum_of_u64(const Node& n) const {
    return n.is("ReduceSum") && n.input(0) != nullptr && n.input(0)->dtype() == DType::kU64 &&
           is_wrong("ReduceSum", DType::kI64, &runtime_);
  }

  static Value* halves_summed(Rewriter& b, const Node& n) {
    Value* unit = b.i64(int64_t{1} << 32);
    std::vector<Value*> operands = operands_of(n);
    Value* high = as_i64(b, b.BitShift(operands[0], b.scalar_int(DType::kU64, 32), {.direction = "RIGHT"}));
    Value* low = b.Sub(as_i64(b, operands[0]), b.Mul(high, unit));
    const auto sum = [&](Value* half) {
      operands[0] = half;
      return b.op("ReduceSum", operands, attrs_of(n));
    };
    Value* total = b.Add(b.Mul(sum(high), unit), sum(low));
    return b.op("Cast", {total}, {attr("to", static_cast<int64_t>(DType::kU64))});
  }

  static Value* as_einsum(Rewriter& b, const Node& n) {
    // Gives both operands the same rank: onnxruntime refuses an ellipsis that stands for different numbers of
    // axes.
    std::vector<Value*> operands{n.input(0), n.input(1)};
    const size_t rank = std::max(operands[0]->type()->rank(), operands[1]->type()->rank());
    for (Value*& v : operands) {
      std::vector<int64_t> axes(rank - v->type()->rank());
      std::iota(axes.begin(), axes.end(), 0);
      v = b.unsqueeze(v, axes);
    }
    return b.op("Einsum", operands, {attr("equation", std::string("...ij,...jk->...ik"))});
  }

  void refuse(const Node& n, const Refusal& refused) {
    std::string line = refused.node;
    if (!refused.asks.empty()) line += fmt::format(", whose kernel asks for {}", refused.asks);
    const Provenance& p = context_.model.provenance(n.provenance());
    if (!p.sources.empty() && !p.sources.front().file.empty())
      line += fmt::format(", at {}:{}", p.sources.front().file, p.sources.front().line);
    problems_.push_back(std::move(line));
  }

  PassContext& context_;
  const Runtime& runtime_;
  bool changed_ = false;
  Widener widener_;  // of the current graph
  std::vector<std::string> problems_;
};

}  // namespace

Pass legalize() {
  return Pass::on_model(Numerics::kRounds,
                        [](PassContext& context) {
                          const std::string target = context.options().text("target", newest_runtime().name);
                          return Legalizer(context, runtime_named(target)).run();
                        })
      .option("target", "the runtime that must run the model, such as ort-1.17 (default: the newest known)");
}

}  // namespace sardonyx::onnx
