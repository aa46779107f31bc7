// lt(i, 0) ? i + n : i   is in 0 .. n-1 if i is in -n .. n-1
//
// Each rule gives the bounds of a node's result from those of its operands. Whatever may wrap around, or has
// no rule, gets the bounds of its element type. An index that is not proven to be in bounds costs a clamp,
// never a wrong element.
#include "lower/jax_to_onnx/arrays/index_bounds.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lower/jax_to_onnx/context.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int kMaxDepth = 48;
constexpr size_t kMostValues = 512;         // visited per question
constexpr int64_t kMostElements = 1 << 16;  // searched per constant

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Nodes with one body that run it on their operands and return its results.
bool is_call(const Node& n) {
  return n.bodies().size() == 1 &&
         is_any(n.op().name, {"jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2"});
}

class Analysis {
 public:
  explicit Analysis(const Lowering& ctx) : ctx_(ctx), dims_(ctx.b.dims()) {}

  const IndexBounds& of(const Value& v, int depth) {
    if (const auto known = seen_.find(&v); known != seen_.end()) return known->second;
    if (depth > kMaxDepth || seen_.size() > kMostValues) return nothing_;
    const IndexBounds by_type = of_type(v.dtype());
    seen_.emplace(&v, by_type);  // also ends the walk at a value that depends on itself
    IndexBounds found = computed(v, depth);
    if (found.low && found.high && !fits(found, by_type)) found = by_type;
    // Only operators that do not wrap around give one bound without the other.
    if (!found.low) found.low = by_type.low;
    if (!found.high) found.high = by_type.high;
    return seen_[&v] = found;
  }

  // v as start + step * position along its first axis, if all its other axes have size 1.
  std::optional<IndexSequence> sequence(const Value& v, int depth) {
    const Node* n = source(v).def();
    if (n == nullptr || depth > kMaxDepth || v.type()->rank() == 0) return std::nullopt;
    const auto of_operand = [&](size_t k) { return sequence(*n->input(k), depth + 1); };
    if (n->is("iota") && v.type()->rank() == 1) return IndexSequence{Dim::of(0), 1};
    if (n->is("copy") || (n->is("convert_element_type") && is_integer(n->input(0)->dtype()))) return of_operand(0);
    if (n->is("broadcast_in_dim") && n->input(0)->type()->rank() == 1 && v.type()->rank() == 2 && v.type()->dim(1).is(1) &&
        n->input(0)->type()->dim(0) == v.type()->dim(0))
      return of_operand(0);
    if (n->is("rev") && v.type()->rank() == 1) {
      auto found = of_operand(0);
      if (!found) return std::nullopt;
      const Dim last = dims_.sub(ctx_.context().import(v.type()->dim(0)), Dim::of(1));
      return IndexSequence{dims_.add(found->start, dims_.mul(Dim::of(found->step), last)), -found->step};
    }
    if (n->is("select_n") && n->num_inputs() == 3) {  // where(i < 0, i + n, i), with i never negative
      const Node* test = made_by(*n->input(0), "lt");
      if (test == nullptr || !is_same(*test->input(0), *n->input(1)) || !is_at_least(of(*n->input(1), depth + 1), 0))
        return std::nullopt;
      const auto zero = number(*test->input(1), depth);
      return zero && zero->is(0) ? of_operand(1) : std::nullopt;
    }
    if (!n->is("add") && !n->is("mul")) return std::nullopt;
    for (const size_t k : {0, 1}) {
      const auto by = number(*n->input(1 - k), depth);
      const auto found = by ? of_operand(k) : std::nullopt;
      if (!found) continue;
      if (n->is("add")) return IndexSequence{dims_.add(found->start, *by), found->step};
      if (by->is_int()) return IndexSequence{dims_.mul(found->start, *by), found->step * by->value()};
    }
    return std::nullopt;
  }

 private:
  // The range of an element type of less than 32 bits; of wider unsigned types, only the lower bound.
  static IndexBounds of_type(DType t) {
    if (t == DType::kBool) return {Dim::of(0), Dim::of(1)};
    if (!is_integer(t)) return {};
    if (bit_width(t) > 16) return {is_unsigned(t) ? std::optional(Dim::of(0)) : std::nullopt, std::nullopt};
    const int64_t half = int64_t{1} << (bit_width(t) - 1);
    return is_unsigned(t) ? IndexBounds{Dim::of(0), Dim::of(2 * half - 1)} : IndexBounds{Dim::of(-half), Dim::of(half - 1)};
  }

  // Whether the type represents all numbers in these bounds. Sizes are assumed to fit into 32 bits.
  bool fits(const IndexBounds& found, const IndexBounds& type) {
    const auto is_small = [](const std::optional<Dim>& d) { return !d->is_int() || std::abs(d->value()) < int64_t{1} << 31; };
    if (!found.low || !found.high || !is_small(found.low) || !is_small(found.high)) return false;
    return (!type.low || dims_.less_equal(*type.low, *found.low)) && (!type.high || dims_.less_equal(*found.high, *type.high));
  }

  std::optional<Dim> least(const std::optional<Dim>& a, const std::optional<Dim>& b) {
    return a && b ? std::optional(dims_.min(*a, *b)) : std::nullopt;
  }
  std::optional<Dim> most(const std::optional<Dim>& a, const std::optional<Dim>& b) {
    return a && b ? std::optional(dims_.max(*a, *b)) : std::nullopt;
  }
  IndexBounds either(const IndexBounds& a, const IndexBounds& b) { return {least(a.low, b.low), most(a.high, b.high)}; }
  IndexBounds larger(const IndexBounds& a, const IndexBounds& b) {
    return {a.low && b.low ? most(a.low, b.low) : a.low ? a.low : b.low, most(a.high, b.high)};
  }
  IndexBounds smaller(const IndexBounds& a, const IndexBounds& b) {
    return {least(a.low, b.low), a.high && b.high ? least(a.high, b.high) : a.high ? a.high : b.high};
  }
  bool is_at_least(const IndexBounds& a, int64_t limit) { return a.low && dims_.less_equal(Dim::of(limit), *a.low); }

  IndexBounds count(Dim size) { return {Dim::of(0), dims_.sub(ctx_.context().import(size), Dim::of(1))}; }

  // The number that all elements of v equal.
  std::optional<Dim> number(const Value& v, int depth) {
    const IndexBounds& found = of(v, depth + 1);
    return found.low && found.high && *found.low == *found.high ? found.low : std::nullopt;
  }

  IndexBounds computed(const Value& v, int depth) {
    if (const TensorPtr& known = v.constant()) return of_constant(v, *known);
    if (const Node* n = v.def()) return of_node(*n, v.index(), depth);
    if (v.kind() == ValueKind::kInput && v.graph()->parent() != nullptr) return of_argument(*v.graph(), v.index(), depth);
    return {};
  }

  static IndexBounds of_constant(const Value& v, const Tensor& known) {
    if (!is_integer(v.dtype()) && v.dtype() != DType::kBool) return {};
    if (known.is_splat() && known.size() > 0) return {Dim::of(known.as_int(0)), Dim::of(known.as_int(0))};
    const auto numbers = known.to_ints(kMostElements);
    if (!numbers || numbers->empty()) return {};
    const auto [low, high] = std::ranges::minmax(*numbers);
    if (std::max(std::abs(low), std::abs(high)) >= int64_t{1} << 60) return {};
    return {Dim::of(low), Dim::of(high)};
  }

  IndexBounds of_argument(const Graph& body, size_t i, int depth) {
    const Node& n = *body.parent();
    if (is_call(n)) return of(*n.input(i), depth + 1);
    if (n.is("cond")) return of(*n.input(i + 1), depth + 1);
    if (n.is("scan")) {
      const auto consts = static_cast<size_t>(n.attr_int("num_consts", 0)),
                 carries = static_cast<size_t>(n.attr_int("num_carry", 0));
      return i >= consts && i < consts + carries ? of_counter(body, i, i - consts, depth) : of(*n.input(i), depth + 1);
    }
    if (n.is("while") && &body == n.body("body_jaxpr") && i < static_cast<size_t>(n.attr_int("body_nconsts", 0)))
      return of(*n.input(i + static_cast<size_t>(n.attr_int("cond_nconsts", 0))), depth + 1);
    return {};
  }

  // A carried value that grows by a constant in each step: the counter of a loop.
  IndexBounds of_counter(const Graph& body, size_t input, size_t output, int depth) {
    const Node& loop = *body.parent();
    const Node* add = body.output(output)->def();
    const Attr* length = loop.attr("length");
    const int64_t* steps = length != nullptr ? length->get<int64_t>() : nullptr;
    if (add == nullptr || !add->is("add") || add->input(0) != body.input(input) || steps == nullptr || *steps < 1) return {};
    const auto by = number(*add->input(1), depth);
    const IndexBounds start = of(*loop.input(input), depth + 1);
    if (!by || !by->is_int() || by->value() < 0 || !start.low || !start.high) return {};
    return {start.low, dims_.add(*start.high, Dim::of(by->value() * (*steps - 1)))};
  }

  IndexBounds of_node(const Node& n, size_t i, int depth) {
    const std::string_view name = n.op().name;
    const auto operand = [&](size_t k) -> const IndexBounds& { return of(*n.input(k), depth + 1); };
    if (is_any(name,
               {"broadcast_in_dim", "compress", "copy", "dynamic_slice", "expand_dims", "reduce_max", "reduce_min", "cummax",
                "cummin", "reshape", "rev", "slice", "split", "squeeze", "stop_gradient", "tile", "transpose", "unstack"}))
      return operand(0);
    if (name == "convert_element_type") {
      const DType from = n.input(0)->dtype(), to = n.result()->dtype();
      if (!is_integer(from) && from != DType::kBool) return {};
      const IndexBounds found = operand(0);
      const bool keeps = is_signed(from) == is_signed(to) ? bit_width(from) <= bit_width(to)
                                                          : is_signed(to) && bit_width(from) < bit_width(to);
      return (found.low && found.high) || keeps ? found : IndexBounds{};
    }
    if (name == "sort" || name == "optimization_barrier") return operand(i);
    if (is_any(name, {"concatenate", "stack"})) {
      IndexBounds all = operand(0);
      for (size_t k = 1; k < n.num_inputs(); ++k) all = either(all, operand(k));
      return all;
    }
    if (is_any(name, {"pad", "dynamic_update_slice"})) return either(operand(0), operand(1));
    if (name == "select_n") return of_selection(n, depth);
    if (is_call(n)) return of(*n.bodies()[0].graph->output(i), depth + 1);
    if (name == "cond") {
      IndexBounds all = of(*n.bodies()[0].graph->output(i), depth + 1);
      for (const Body& b : n.bodies()) all = either(all, of(*b.graph->output(i), depth + 1));
      return all;
    }
    if (name == "scan") return of_scan(n, i, depth);
    if (name == "gather") {
      const Attr* mode = n.attr("mode");
      const auto* text = mode != nullptr ? mode->get<std::string>() : nullptr;
      return text != nullptr && text->find("FILL") == std::string::npos ? operand(0) : IndexBounds{};
    }
    if (const auto counted = of_indices(n, i)) return *counted;
    return of_arithmetic(n, depth);
  }

  // A stacked result of a scan holds what the body returns in each step.
  IndexBounds of_scan(const Node& n, size_t i, int depth) {
    const auto carries = static_cast<size_t>(n.attr_int("num_carry", 0));
    return i < carries ? IndexBounds{} : of(*n.bodies()[0].graph->output(i), depth + 1);
  }

  // Operators that return indices into an axis, or a size.
  std::optional<IndexBounds> of_indices(const Node& n, size_t i) {
    const auto along = [&](const Value& x, int64_t axis) {
      const auto rank = static_cast<int64_t>(x.type()->rank());
      return count(x.type()->dim(static_cast<size_t>(axis < 0 ? axis + rank : axis)));
    };
    if (n.is("iota"))
      return is_integer(n.result()->dtype()) ? std::optional(along(*n.result(), n.attr_int("dimension", 0))) : std::nullopt;
    if (n.is("dim_as_value")) {
      const Attr* size = n.attr("dim");
      const Dim* dim = size != nullptr ? size->get<Dim>() : nullptr;
      if (dim == nullptr) return std::nullopt;
      const Dim own = ctx_.context().import(*dim);
      return IndexBounds{own, own};
    }
    if (n.is("argmax") || n.is("argmin")) {
      const Attr* axes = n.attr("axes");
      const auto* list = axes != nullptr ? axes->get<Attr::Ints>() : nullptr;
      return list != nullptr && list->size() == 1 ? std::optional(along(*n.input(0), list->front())) : std::nullopt;
    }
    if (n.is("top_k") && i == 1) return along(*n.input(0), n.attr_int("axis", -1));
    return std::nullopt;
  }

  IndexBounds of_arithmetic(const Node& n, int depth) {
    const std::string_view name = n.op().name;
    if (name == "clamp") {
      const IndexBounds low = of(*n.input(0), depth + 1), x = of(*n.input(1), depth + 1), high = of(*n.input(2), depth + 1);
      return smaller(larger(x, low), high);
    }
    if (n.num_inputs() != 2) return {};
    const IndexBounds a = of(*n.input(0), depth + 1), b = of(*n.input(1), depth + 1);
    if (name == "max") return larger(a, b);
    if (name == "min") return smaller(a, b);
    const bool is_known = a.low && a.high && b.low && b.high;
    if (name == "add" && is_known) return {dims_.add(*a.low, *b.low), dims_.add(*a.high, *b.high)};
    if (name == "sub" && is_known) return {dims_.sub(*a.low, *b.high), dims_.sub(*a.high, *b.low)};
    const bool are_counts = is_at_least(a, 0) && is_at_least(b, 0);
    if (name == "mul" && is_known && are_counts) return {dims_.mul(*a.low, *b.low), dims_.mul(*a.high, *b.high)};
    for (const auto& [count, factor] : {std::pair(a, b), std::pair(b, a)}) {
      const bool is_number = factor.low && factor.low->is_int() && factor.low == factor.high;
      if (name == "mul" && is_number && factor.low->value() < 0 && count.low && count.high)
        return {dims_.mul(*count.high, *factor.low), dims_.mul(*count.low, *factor.low)};
    }
    if (name == "and" && (is_at_least(a, 0) || is_at_least(b, 0))) {
      return {Dim::of(0), are_counts && a.high && b.high ? least(a.high, b.high) : is_at_least(a, 0) ? a.high : b.high};
    }
    if (!is_at_least(b, 1)) return {};
    if (name == "div" && is_at_least(a, 0) && a.high) return {Dim::of(0), dims_.floordiv(*a.high, *b.low)};
    if (name == "rem" && b.high) {
      const Dim last = dims_.sub(*b.high, Dim::of(1));
      if (is_at_least(a, 0)) return {Dim::of(0), a.high ? dims_.min(*a.high, last) : last};
      return {dims_.sub(Dim::of(0), last), last};
    }
    return {};
  }

  // The operand of the call that v, an input of its body, stands for; v itself elsewhere.
  static const Value& source(const Value& v) {
    const Value* at = &v;
    while (at->def() == nullptr && at->kind() == ValueKind::kInput && at->graph()->parent() != nullptr &&
           is_call(*at->graph()->parent()))
      at = at->graph()->parent()->input(at->index());
    return *at;
  }
  static const Node* made_by(const Value& v, std::string_view name) {
    const Node* n = source(v).def();
    return n != nullptr && n->is(name) ? n : nullptr;
  }
  static bool is_same(const Value& a, const Value& b) { return &source(a) == &source(b); }

  IndexBounds of_selection(const Node& n, int depth) {
    if (n.num_inputs() != 3) return {};
    const Value &no = *n.input(1), &yes = *n.input(2);
    if (const auto found = of_wrapped(*n.input(0), no, yes, depth)) return *found;
    if (const auto found = of_modulo(*n.input(0), no, yes, depth)) return *found;
    if (const auto found = of_floor(no, yes, depth)) return *found;
    return either(where(*n.input(0), false, no, depth), where(*n.input(0), true, yes, depth));
  }

  // The bounds of v where `condition`, which may compare v with a number, is `truth`.
  IndexBounds where(const Value& condition, bool truth, const Value& v, int depth) {
    IndexBounds found = of(v, depth + 1);
    const Node* c = source(condition).def();
    if (c == nullptr || !is_any(c->op().name, {"lt", "le", "gt", "ge"}) || !is_same(*c->input(0), v)) return found;
    const IndexBounds other = of(*c->input(1), depth + 1);
    const bool is_less = c->is("lt") || c->is("le"), is_strict = (c->is("lt") || c->is("gt")) == truth;
    if (is_less == truth && other.high) {
      const Dim last = dims_.sub(*other.high, Dim::of(is_strict ? 1 : 0));
      found.high = found.high ? dims_.min(*found.high, last) : last;
    } else if (is_less != truth && other.low) {
      const Dim first = dims_.add(*other.low, Dim::of(is_strict ? 1 : 0));
      found.low = found.low ? dims_.max(*found.low, first) : first;
    }
    return found;
  }

  // where(i < 0, i + n, i)
  std::optional<IndexBounds> of_wrapped(const Value& condition, const Value& no, const Value& yes, int depth) {
    const Node *add = made_by(yes, "add"), *test = made_by(condition, "lt");
    if (add == nullptr || test == nullptr || !is_same(*add->input(0), no) || !is_same(*test->input(0), no)) return std::nullopt;
    const auto by = number(*add->input(1), depth), zero = number(*test->input(1), depth);
    if (!by || !zero || !zero->is(0)) return std::nullopt;
    const IndexBounds own = of(no, depth + 1);
    if (is_at_least(own, 0)) return own;
    if (!own.low || !own.high) return std::nullopt;
    return IndexBounds{dims_.min(dims_.add(*own.low, *by), Dim::of(0)), dims_.max(*own.high, dims_.sub(*by, Dim::of(1)))};
  }

  // x % n: where((r != 0) & ((r < 0) != (n < 0)), r + n, r), r = rem(x, n)
  std::optional<IndexBounds> of_modulo(const Value& condition, const Value& no, const Value& yes, int depth) {
    const Node *rem = made_by(no, "rem"), *add = made_by(yes, "add"), *both = made_by(condition, "and");
    if (rem == nullptr || add == nullptr || both == nullptr || !is_same(*add->input(0), no) ||
        !is_same(*add->input(1), *rem->input(1)))
      return std::nullopt;
    const auto tests = [&](const Value& v) {  // a part of the condition
      const Node* ne = made_by(v, "ne");
      const Node* sign = ne != nullptr ? made_by(*ne->input(0), "lt") : nullptr;
      return ne != nullptr && is_same(sign != nullptr ? *sign->input(0) : *ne->input(0), no);
    };
    if (!tests(*both->input(0)) || !tests(*both->input(1))) return std::nullopt;
    const IndexBounds by = of(*rem->input(1), depth + 1);
    if (!is_at_least(by, 1) || !by.high) return std::nullopt;
    return IndexBounds{Dim::of(0), dims_.sub(*by.high, Dim::of(1))};
  }

  // x // n: where(.., q - 1, q), q = div(x, n), with x >= 0 and n >= 1
  std::optional<IndexBounds> of_floor(const Value& no, const Value& yes, int depth) {
    const Node *div = made_by(no, "div"), *sub = made_by(yes, "sub");
    if (div == nullptr || sub == nullptr || !is_same(*sub->input(0), no)) return std::nullopt;
    if (!is_at_least(of(*div->input(0), depth + 1), 0) || !is_at_least(of(*div->input(1), depth + 1), 1)) return std::nullopt;
    return of(no, depth + 1);
  }

  const Lowering& ctx_;
  Dims& dims_;
  std::unordered_map<const Value*, IndexBounds> seen_;
  IndexBounds nothing_;
};

}  // namespace

IndexBounds index_bounds(const Lowering& ctx, const Value& v) { return Analysis(ctx).of(v, 0); }

std::optional<IndexSequence> index_sequence(const Lowering& ctx, const Value& v) { return Analysis(ctx).sequence(v, 0); }

bool is_in_bounds(const Lowering& ctx, size_t i, std::span<const Dim> limits) {
  const Value& indices = *ctx.node.input(i);
  Analysis analysis(ctx);
  Dims& dims = ctx.b.dims();
  const auto is_within = [&](const Value& v, Dim limit) {
    const IndexBounds found = analysis.of(v, 0);
    return found.low && found.high && dims.less_equal(Dim::of(0), *found.low) && dims.less_equal(*found.high, limit);
  };
  if (const TensorPtr& known = ctx.in(i)->constant(); known && known->size() <= kMostElements && !known->is_deferred()) {
    const size_t width = limits.size();
    for (int64_t at = 0; at < known->size() && width > 0; ++at) {
      const int64_t number = known->as_int(at);
      if (number < 0 || number >= int64_t{1} << 60) return false;
      if (!dims.less_equal(Dim::of(number), limits[static_cast<size_t>(at) % width])) return false;
    }
    return true;
  }
  // One value per component, if a concatenate joins them.
  const Node* n = indices.def();
  const bool joins = n != nullptr && n->is("concatenate") && n->num_inputs() == limits.size() &&
                     n->attr_int("dimension", -1) == static_cast<int64_t>(indices.type()->rank()) - 1;
  for (size_t k = 0; k < limits.size(); ++k) {
    if (!is_within(joins ? *n->input(k) : indices, limits[k])) return false;
  }
  return true;
}

}  // namespace sardonyx::jax_to_onnx
