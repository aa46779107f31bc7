// grow(): makes a graph from a pattern.
#include "random/grow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "random/generator.h"

namespace sardonyx::fuzz {
namespace {

using Kind = Pattern::Kind;

GeneratorOptions options_for(const Rule& rule, Dice& dice) {
  static constexpr int kUsual[] = {11, 13, 17, 18, 21, 23, 24};
  const int newest = dialect(DialectId::kOnnx).latest_version("");
  const int least = std::max(rule.opset, 7);
  int opset = dice.one_in(4) ? newest : dice.one_of(kUsual);
  if (dice.one_in(6)) opset = static_cast<int>(dice.between(least, newest));
  GeneratorOptions o{.opset = std::max(opset, least), .growing = true};
  if (dice.one_in(8)) {
    o.dtype = dice.one_in(6) ? DType::kI32 : DType::kI64;
  } else {
    o.dtype = dice.one_of(kUsualFloats);
  }
  return o;
}

class Grower {
 public:
  Grower(const Rule& rule, Dice& dice)
      : rule_(rule), options_(options_for(rule, dice)), g_(static_cast<uint64_t>(dice.below(INT64_MAX)), options_) {
    g_.odd_numbers = dice.odd_numbers;
    g_.begin();
    find_definitions(rule.match);
  }

  std::unique_ptr<Model> model() {
    Node* root = value(rule_.match)->def();
    if (root == nullptr) return nullptr;
    Graph& g = g_.model().graph();
    const auto add_output = [&](Value& v) { g.add_output(v, "y" + std::to_string(g.outputs().size())); };
    for (Value& r : root->results()) add_output(r);
    for (Node& n : g.nodes()) {  // sometimes an inner value has another user
      if (&n != root && g_.one_in(30)) add_output(*n.result());
    }
    return g_.take_model();
  }

 private:
  // Finds the patterns at which variables are bound to results of nodes or to constants.
  void find_definitions(const Pattern& p) {
    const auto& d = p.data();
    if (!seen_.insert(&d).second) return;
    if (d.kind != Kind::kAny) {
      for (std::string_view v : d.vars) definitions_.try_emplace(v, &p);
    }
    for (const Pattern& c : d.children) find_definitions(c);
  }

  static bool is_leaf(const Pattern& p) {
    const Kind k = p.data().kind;
    return k == Kind::kAny || k == Kind::kConstant || k == Kind::kSplat;
  }

  // The value already bound to one of the pattern's variables; null if there is none.
  Value* bound(const Pattern& p) const {
    for (std::string_view var : p.data().vars) {
      if (const auto known = vars_.find(var); known != vars_.end()) return known->second;
    }
    return nullptr;
  }
  void bind(const Pattern& p, Value* v) {
    if (v == nullptr) return;
    for (std::string_view var : p.data().vars) vars_.try_emplace(var, v);
  }

  // The most specific pattern for an operand: one of its alternatives, or the pattern where its variable is
  // defined.
  const Pattern& resolved(const Pattern& p) {
    const auto& d = p.data();
    if (d.kind == Kind::kAnyOf && bound(p) == nullptr) return resolved(g_.one_of(d.children));
    if (d.kind == Kind::kAny) {
      for (std::string_view var : d.vars) {
        const auto at = definitions_.find(var);
        if (at != definitions_.end() && &at->second->data() != &d) return *at->second;
      }
    }
    return p;
  }

  // The value of a pattern that is bound or not a leaf.
  Value* value(const Pattern& p) {
    const auto& d = p.data();
    if (Value* v = bound(p)) return v;
    const auto made = made_.find(&d);
    if (made != made_.end() && !g_.one_in(6)) return made->second;
    Value* v = nullptr;
    if (d.kind == Kind::kAnyOf) v = value(g_.one_of(d.children));
    if (d.kind == Kind::kOp) v = node(d);
    if (d.kind == Kind::kTrait) v = trait(d);
    if (v == nullptr) throw DeadEnd{};
    bind(p, v);
    made_.try_emplace(&d, v);
    return v;
  }

  Value* add(Draft& d, size_t result) {
    Node* n = g_.add(d);
    if (n == nullptr) throw DeadEnd{};
    return n->result(result);
  }

  Value* trait(const Pattern::Data& d) {
    std::vector<const Op*> ops;
    for (const Op& op : dialect(DialectId::kOnnx).ops()) {
      if (op.has(d.trait) && op.domain.empty() && !op.deprecated && op.min_inputs >= 1 && op.min_inputs <= 2 &&
          g_.find(op.name) == &op)
        ops.push_back(&op);
    }
    if (ops.empty()) throw DeadEnd{};
    Draft draft{.op = g_.one_of(ops)};
    const auto at = static_cast<size_t>(g_.below(draft.op->min_inputs));
    const Pattern& operand = resolved(d.children.front());
    const bool open = is_leaf(operand) && bound(operand) == nullptr;
    if (!open) draft.settle(at, value(operand));
    if (!g_.complete(draft)) throw DeadEnd{};
    if (open) draft.in[at] = leaf(operand.data(), draft.in[at]);
    bind(operand, draft.in[at]);
    bind(d.children.front(), draft.in[at]);
    return add(draft, 0);
  }

  Value* node(const Pattern::Data& d) {
    const Op* op = d.domain.empty() ? g_.find(d.onnx) : nullptr;
    if (op == nullptr || op->since_version < d.since || op->deprecated || op->has(Trait::kSubgraphs)) throw DeadEnd{};
    const bool open = !d.children.empty() && d.children.back().data().kind == Kind::kRest;
    const size_t given = d.children.size() - (open ? 1 : 0);
    Draft draft{.op = op, .results = std::max<size_t>(static_cast<size_t>(std::max(op->min_outputs, 1)), d.result + 1)};
    for (const auto& [name, v] : d.attrs) draft.attrs.push_back(attr(name, v));
    std::vector<const Pattern*> operands;
    for (size_t i = 0; i < given; ++i) operands.push_back(&resolved(d.children[i]));
    // Settle bound values first, then nodes: they decide types and shapes. A node may bind the variable of a
    // leaf.
    const auto settle = [&](const auto& wanted) {
      for (size_t i = 0; i < given; ++i) {
        const Pattern& p = *operands[i];
        if (draft.is_settled(i) || !wanted(p)) continue;
        draft.settle(i, p.data().kind == Kind::kAbsent ? nullptr : value(p));
        bind(d.children[i], draft.in[i]);
      }
    };
    settle([&](const Pattern& p) { return bound(p) != nullptr || p.data().kind == Kind::kAbsent; });
    settle([&](const Pattern& p) { return !is_leaf(p); });
    settle([&](const Pattern& p) { return bound(p) != nullptr; });
    if (!g_.complete(draft)) throw DeadEnd{};
    draft.results = std::max<size_t>(draft.results, d.result + 1);
    if (!open || draft.in.size() < given) draft.in.resize(given, nullptr);
    for (size_t i = 0; i < given; ++i) {
      if (draft.is_settled(i)) continue;
      Value* known = bound(*operands[i]);
      draft.in[i] = known != nullptr ? known : leaf(operands[i]->data(), draft.in[i]);
      bind(*operands[i], draft.in[i]);
      bind(d.children[i], draft.in[i]);
    }
    if (open && op->max_inputs < 0 && draft.in.size() > std::max<size_t>(given, 1) && g_.one_in(2)) nest(draft);
    if (op->has(Trait::kCommutative) && draft.in.size() == 2 && g_.one_in(2)) std::swap(draft.in[0], draft.in[1]);
    return add(draft, d.result);
  }

  // Makes one operand of a variadic node the result of another node of the same operator.
  void nest(Draft& d) {
    Draft inner{.op = d.op, .attrs = d.attrs};
    inner.settle(0, d.in.back());
    if (g_.complete(inner)) d.in.back() = add(inner, 0);
  }

  // Turns the value drawn for an operand into one that the pattern accepts.
  Value* leaf(const Pattern::Data& d, Value* drawn) {
    if (d.kind == Kind::kAny) return drawn;
    const DType t = drawn != nullptr && drawn->type() != nullptr ? drawn->dtype() : *options_.dtype;
    std::vector<int64_t> dims;
    if (drawn != nullptr && drawn->ranked()) {
      for (Dim x : drawn->type()->dims()) dims.push_back(x.is_int() ? x.value() : 1);
    }
    if (d.kind == Kind::kConstant) return drawn != nullptr && drawn->is_constant() ? drawn : g_.constant(t, dims);
    if (g_.one_in(2)) dims.clear();
    const bool fits = is_float(t) || (d.number == std::floor(d.number) && std::abs(d.number) <= 100 &&
                                      (d.number >= 0 || !(is_unsigned(t) || t == DType::kBool)));
    if (!fits || bit_width(t) < 8) throw DeadEnd{};
    return g_.constant(Tensor::full(t, dims, d.number));
  }

  const Rule& rule_;
  GeneratorOptions options_;
  Generator g_;
  std::set<const Pattern::Data*> seen_;
  std::map<std::string_view, const Pattern*> definitions_;
  std::map<std::string_view, Value*> vars_;
  std::map<const Pattern::Data*, Value*> made_;
};

}  // namespace

std::unique_ptr<Model> grow(const Rule& rule, Dice& dice) {
  return model_or_null([&] { return Grower(rule, dice).model(); });
}

}  // namespace sardonyx::fuzz
