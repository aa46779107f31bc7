//   x: bf16 ── Exp ── y     =>   x ── Cast<f32> ── Exp ── Cast<bf16> ── y      where the target computes no Exp of bf16
//
// Makes the graph run on a named runtime (dialects/onnx/runtimes.h). Operators that it lacks for an element type are computed in a wider one
// that holds every value of it, and the result is converted back: floats are rounded once, as before, integers keep their low bits. The
// model's IR version becomes one that the runtime loads.
//
// Kernels that ask for more than types get it where an axis is expanded or an attribute said (runtimes_conditions.cc).
//
// What neither helps is an error that lists every such node: a file that the target cannot load is never written. Before opset 13 nothing
// is written at all: either the target has all kernels, or the model is to be raised first.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "dialects/onnx/wrong_kernels.h"
#include "passes/onnx/attention.h"
#include "passes/onnx/widen.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

// onnxruntime writes Swish out as the standard defines it, in models of the opset that brought it and in no later one.
constexpr int kOpsetOfSwish = 24;

// The table of kernels starts with what this opset has: what would be written for an older one is not in it, or not in the standard yet.
constexpr int kOldestOpset = 13;

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
    is_old_ = imported && *imported < kOldestOpset;
    const bool lowers_ir = m.ir_version > runtime_.ir_version;
    if (lowers_ir) m.ir_version = runtime_.ir_version;
    for (const auto& f : m.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        widener_.clear();
        for (Node& n : g->nodes()) visit(*g, n);
      }
    }
    if (const size_t refused = problems_.size(); refused > 0) {
      if (is_old_) {
        problems_.push_back(
            fmt::format("help: kernels are known from opset {} on, and the model imports {}: raise it first (convert_opset)",
                        kOldestOpset, *imported));
      }
      throw Error(ErrorCode::kUnsupported, fmt::format("{} cannot run {} of the graph's nodes", runtime_.name, refused),
                  problems_);
    }
    return changed_ || lowers_ir;
  }

 private:
  // Of what If, Loop and Scan carry and return, where each value has a type of its own.
  static std::set<std::pair<std::string_view, DType>> own_types_of(const Node& n) {
    std::set<std::pair<std::string_view, DType>> types;
    const auto note = [&](const Slot* slot, const Value* v) {
      if (slot == nullptr || slot->type_var.empty() || slot->homogeneous || v == nullptr) return;
      if (v->type() != nullptr && v->type()->is_tensor()) types.emplace(slot->type_var, v->dtype());
    };
    for (size_t i = 0; i < n.num_inputs(); ++i) note(slot_of(n.op(), i, n.num_inputs()), n.input(i));
    for (size_t i = 0; i < n.num_results(); ++i) note(result_slot(n.op(), i), n.result(i));
    return types;
  }

  static bool takes(const Kernel& k, const auto& types) {
    return std::ranges::all_of(types, [&](const auto& t) { return (k.of(t.first) & bit(t.second)) != 0; });
  }

  void visit(Graph& g, Node& n) {
    const Op& op = n.op();
    // Calls of functions, and other domains, are nobody's kernels here; Constant nodes are no operators to a runtime.
    if (!op.domain.empty() || !op.known || op.has(Trait::kConstant)) return;
    const auto found = kernels(runtime_, op);
    const TypesByVariable types = types_by_variable(n, n.op());
    const auto own_types = own_types_of(n);
    if (breaks_when_fused(n)) return is_old_ ? refuse(n) : as_einsum(g, n);
    if (n.is("Swish") && context_.model.opset_version("") != kOpsetOfSwish) return compose(g, n);
    if (const KernelFit fit = fitted(g, n); fit.fit == Fit::kNo) return refuse(n, fit.asks);
    if (std::ranges::any_of(found, [&](const Kernel* k) { return takes(*k, types) && takes(*k, own_types); })) return;
    if (is_old_) return refuse(n);
    // Types that decide what an attribute says cannot be exchanged, nor those of bodies.
    const bool is_fixed = !n.bodies().empty() || n.is("Cast") || n.attr("dtype") != nullptr || n.attr("value") != nullptr;
    if (n.input(0) != nullptr && is_composed(op.name, n.input(0)->dtype())) return compose(g, n);
    if (is_ordered_by_low_words(n)) return reduce_low_words(g, n);
    // Narrow integers are added in i64 where the kernel of i32 saturates.
    const uint64_t avoided = is_wrong(op.name, DType::kI32, &runtime_) ? bit(DType::kI32) : 0;
    for (const Kernel* k : found) {
      if (is_fixed) break;
      const auto allowed = [&](std::string_view variable) {
        const uint64_t all = k->of(variable) & types_in_standard(op, variable);
        return (all & bit(DType::kI64)) != 0 ? all & ~avoided : all;
      };
      if (const auto wide = widened(op, types, allowed)) {
        widener_.replace(g, n, n.op(), types, *wide);
        changed_ = true;
        return;
      }
    }
    refuse(n);
  }

  // What the kernel asks for beyond types, after what helps: axes that the standard broadcasts are there, an attribute says what axes say.
  KernelFit fitted(Graph& g, Node& n) {
    const KernelFit fit = kernel_fit(runtime_, n);
    if (fit.fit == Fit::kYes || is_old_) return fit;
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    const Value* x = n.input(0);
    if (x == nullptr || !x->ranked() || n.unchecked()) return fit;
    const size_t rank = x->type()->rank();
    if (n.is("Attention") && (rank == 3 || rank == 4) && n.input(3)->ranked()) {
      Value* mask = n.input(3);
      const size_t axes = mask->type()->rank();
      if (axes < 2 || mask->type()->dim(axes - 2).is(1)) replace(n, 3, with_queries(b, mask, n.input(0)));
    } else if (n.is("RotaryEmbedding") && rank == 4 && x->type()->dim(1).is_int() && !int_attr(n, "num_heads").value_or(0)) {
      n.set_attrs(context_.model.with_attr(n.attrs(), "num_heads", x->type()->dim(1).value()));
      note_change(n);
    } else if ((n.is("LayerNormalization") || n.is("RMSNormalization")) && x->type()->is_static()) {
      const int64_t axis = int_attr(n, "axis").value_or(-1);
      const auto dims = x->type()->dims().subspan(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
      std::vector<int64_t> shape;
      for (Dim d : dims) shape.push_back(d.value());
      for (size_t i = 1; i < n.num_inputs(); ++i) {
        if (n.input(i) != nullptr && n.input(i)->ranked() && n.input(i)->type()->rank() <= shape.size())
          replace(n, i, b.Expand(n.input(i), b.i64s(shape)));
      }
    } else {
      return fit;
    }
    return kernel_fit(runtime_, n);
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

  // Comparisons of u64: signed ones, the highest bit flipped. Their quotients: of halves, which are not negative, and then one more where
  // the rest still holds the divisor; a divisor above 2^63 goes once or not at all. Cosines: 1 - 2 sin^2(x / 2), good to an ulp of 1. Swish: as the
  // standard defines it.
  void compose(Graph& g, Node& n) {
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    Value* result = nullptr;
    if (n.is("Cos")) {
      Value* sine = b.Sin(b.Mul(n.input(0), b.scalar(DType::kF64, 0.5)));
      result = b.Sub(b.scalar(DType::kF64, 1), b.Mul(b.Mul(sine, sine), b.scalar(DType::kF64, 2)));
    } else if (n.is("ReduceL2")) {
      result = b.Sqrt(b.op("ReduceSumSquare", operands_of(n), attrs_of(n)));
    } else if (n.is("Div")) {
      result = quotient(b, n.input(0), n.input(1));
    } else if (n.is("Swish")) {
      result = swish(b, n);
    } else {
      result = b.op(n.op().name, {ordered(b, n.input(0)), ordered(b, n.input(1))});
    }
    result->set_type(n.result()->type());
    g.replace_uses(*n.result(), *result);
    context_.log.count(fmt::format("{} of {}", n.op().name, to_string(types_by_variable(n, n.op()))));
    g.erase(n);
    changed_ = true;
  }

  Value* swish(Rewriter& b, const Node& n) {
    Value* x = n.input(0);
    const bool is_wide = x->dtype() != DType::kBF16;
    if (!is_wide) x = widener_.converted(b, *x, DType::kF32);
    const auto alpha = float_attr(n, "alpha");
    Value* y = b.Mul(x, b.Sigmoid(alpha && *alpha != 1 ? b.Mul(x, b.scalar(x->dtype(), *alpha)) : x));
    return is_wide ? y : b.op("Cast", {y}, {attr("to", static_cast<int64_t>(DType::kBF16))});
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

  // The largest of u32, computed in i64 by a kernel that looks at the low words only: 2^31 less, they are right.
  bool is_ordered_by_low_words(const Node& n) const {
    return (n.is("ReduceMax") || n.is("ReduceMin")) && n.input(0) != nullptr && n.input(0)->dtype() == DType::kU32 &&
           is_wrong(n.op().name, DType::kI64, &runtime_);
  }

  void reduce_low_words(Graph& g, Node& n) {
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    Value* half = b.i64(int64_t{1} << 31);
    std::vector<Value*> operands = operands_of(n);
    operands[0] = b.Sub(as_i64(b, operands[0]), half);
    Value* result = b.Add(b.op(n.op().name, operands, attrs_of(n)), half);
    result = b.op("Cast", {result}, {attr("to", static_cast<int64_t>(DType::kU32))});
    result->set_type(n.result()->type());
    g.replace_uses(*n.result(), *result);
    context_.log.count(fmt::format("{} of u32", n.op().name));
    g.erase(n);
    changed_ = true;
  }

  // Before 1.26 onnxruntime fuses a Transpose into the MatMul that reads it, in f64 too, and has no kernel for what comes out.
  bool breaks_when_fused(const Node& n) const {
    if (!n.is("MatMul") || runtime_.number >= runtime_named("ort-1.26").number || n.result()->dtype() != DType::kF64)
      return false;
    const auto is_matrix = [](const Value* v) { return v->ranked() && v->type()->rank() >= 2; };
    const auto is_transposed = [](const Value* v) { return v->def() != nullptr && v->def()->is("Transpose"); };
    return is_matrix(n.input(0)) && is_matrix(n.input(1)) && (is_transposed(n.input(0)) || is_transposed(n.input(1)));
  }

  void as_einsum(Graph& g, Node& n) {
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    // Both with as many axes: onnxruntime refuses points that stand for different numbers of them.
    std::vector<Value*> operands{n.input(0), n.input(1)};
    const size_t rank = std::max(operands[0]->type()->rank(), operands[1]->type()->rank());
    for (Value*& v : operands) {
      std::vector<int64_t> axes(rank - v->type()->rank());
      std::iota(axes.begin(), axes.end(), 0);
      if (!axes.empty()) v = b.Unsqueeze(v, b.i64s(axes));
    }
    Value* product = b.op("Einsum", operands, {attr("equation", std::string("...ij,...jk->...ik"))});
    product->set_type(n.result()->type());
    g.replace_uses(*n.result(), *product);
    context_.log.count("MatMul of f64 beside Transpose");
    g.erase(n);
    changed_ = true;
  }

  void refuse(const Node& n, std::string_view asks = {}) {
    std::string line = fmt::format("{}-{} of {}", n.op().name, n.op().since_version, to_string(types_by_variable(n, n.op())));
    const auto own = own_types_of(n);
    for (auto it = own.begin(); it != own.end(); ++it)
      line += fmt::format("{} {}", it == own.begin() ? " with" : ",", to_string(it->second));
    if (!asks.empty()) line += fmt::format(", whose kernel asks for {}", asks);
    const Provenance& p = context_.model.provenance(n.provenance());
    if (!p.sources.empty() && !p.sources.front().file.empty())
      line += fmt::format(", at {}:{}", p.sources.front().file, p.sources.front().line);
    problems_.push_back(std::move(line));
  }

  PassContext& context_;
  const Runtime& runtime_;
  bool changed_ = false;
  bool is_old_ = false;  // nothing is written then
  Widener widener_;      // of the graph that is being walked
  std::vector<std::string> problems_;
};

}  // namespace

Pass legalize() {
  return Pass::on_model(Numerics::kRounds,
                        [](PassContext& context) {
                          const std::string target = context.options().text("target", newest_runtime().name);
                          return Legalizer(context, runtime_named(target)).run();
                        })
      .option("target", "the runtime that must run the model, such as ort-1.17; the newest that is known if not given");
}

}  // namespace sardonyx::onnx
