// jnp.where(is_near, neighbours, n)   puts n, which is no index into n places, among valid indices
//
// The walk goes from the indices to the values that they are computed from, into and out of nested programs.
// It only looks at constants: a program always writes a sentinel down, as a literal or as the size of an
// axis.
#include "lower/onnx/sentinels.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace sardonyx {
namespace {

constexpr size_t kMostValues = 512;         // visited per walk; the rest is assumed to hold none
constexpr int64_t kMostElements = 1 << 20;  // searched per constant

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Ops whose results and operands correspond one to one to those of their body.
bool is_call(const Node& n) {
  return n.bodies().size() >= 1 &&
         is_any(n.op().name, {"jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2", "scan"});
}

class Walk {
 public:
  explicit Walk(Dim size) : size_(size) {}

  bool finds_sentinel(const Value& from) {
    push(&from);
    while (!todo_.empty() && seen_.size() < kMostValues) {
      const Value& v = *todo_.back();
      todo_.pop_back();
      if (is_sentinel(v)) return true;
      if (const Node* n = v.def()) {
        follow(*n, v.index());
      } else if (v.kind() == ValueKind::kInput && v.graph()->parent() != nullptr) {
        push(argument(*v.graph(), v.index()));
      }
    }
    return false;
  }

 private:
  void push(const Value* v) {
    if (v != nullptr && seen_.insert(v).second) todo_.push_back(v);
  }

  // The operand that a nested program gets as its input i.
  static const Value* argument(const Graph& body, size_t i) {
    const Node& n = *body.parent();
    if (is_call(n)) return n.input(i);
    if (n.is("cond")) return n.input(i + 1);
    if (n.is("while") && &body == n.body("body_jaxpr")) return n.input(i + static_cast<size_t>(n.attr_int("cond_nconsts", 0)));
    return nullptr;
  }

  bool is_sentinel(const Value& v) const {
    const Node* n = v.def();
    if (n != nullptr && n->is("dim_as_value")) return true;
    if (!size_.is_int()) return false;
    const int64_t size = size_.value();
    const auto outside = [&](int64_t x) { return x < -size || x >= size; };
    if (const std::optional<int64_t> all = number(v, 0)) return outside(*all);
    const TensorPtr& known = v.constant();
    const auto numbers = known != nullptr && is_integer(v.dtype()) ? known->to_ints(kMostElements) : std::nullopt;
    return numbers && std::ranges::any_of(*numbers, outside);
  }

  // The value of all elements of v, if they are equal: n * jnp.ones(..) gives n.
  static std::optional<int64_t> number(const Value& v, int depth) {
    if (depth > 4) return std::nullopt;
    if (const TensorPtr& known = v.constant(); known && known->size() == 1) {
      const auto numbers = known->to_ints(1);
      return numbers ? std::optional(numbers->front()) : std::nullopt;
    }
    const Node* n = v.def();
    if (n == nullptr) return std::nullopt;
    if (is_any(n->op().name, {"broadcast_in_dim", "convert_element_type", "reshape"})) return number(*n->input(0), depth + 1);
    if (!is_any(n->op().name, {"mul", "add", "sub"})) return std::nullopt;
    const auto a = number(*n->input(0), depth + 1), b = number(*n->input(1), depth + 1);
    if (!a || !b || std::max(std::abs(*a), std::abs(*b)) > int64_t{1} << 30) return std::nullopt;
    return n->is("mul") ? *a * *b : n->is("add") ? *a + *b : *a - *b;
  }

  // Follows the operands whose elements can become elements of result i.
  void follow(const Node& n, size_t i) {
    const std::string_view name = n.op().name;
    if (is_call(n)) {
      push(n.bodies()[0].graph->output(i));
      if (name == "scan") push(n.input(i + static_cast<size_t>(n.attr_int("num_consts", 0))));
    } else if (name == "cond") {
      for (const Body& b : n.bodies()) push(b.graph->output(i));
    } else if (name == "while") {
      push(n.body("body_jaxpr")->output(i));
      push(n.input(i + static_cast<size_t>(n.attr_int("cond_nconsts", 0) + n.attr_int("body_nconsts", 0))));
    } else if (name == "sort" || name == "optimization_barrier") {
      push(n.input(i));
    } else if (name == "scatter") {
      push(n.input(0));
      push(n.input(2));
    } else if (name == "dynamic_update_slice" || name == "pad") {
      push(n.input(0));
      push(n.input(1));
    } else if (name == "select_n") {
      for (size_t k = 1; k < n.num_inputs(); ++k) push(n.input(k));
    } else if (is_any(name, {"concatenate", "stack"})) {
      for (const Use& u : n.operands()) push(u.value);
    } else if (is_any(name, {"broadcast_in_dim", "compress", "convert_element_type", "copy", "dynamic_slice", "expand_dims",
                             "gather", "reshape", "rev", "slice", "split", "squeeze", "tile", "transpose", "unstack"})) {
      push(n.input(0));
    }
  }

  Dim size_;
  std::vector<const Value*> todo_;
  std::unordered_set<const Value*> seen_;
};

}  // namespace

bool may_hold_sentinels(const Value& index, Dim size) { return Walk(size).finds_sentinel(index); }

}  // namespace sardonyx
