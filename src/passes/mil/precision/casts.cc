#include "passes/mil/precision/casts.h"

#include <fmt/format.h>

#include <map>

#include "dialects/mil/ops.h"

namespace sardonyx::mil {
namespace {

class Inserter {
 public:
  Inserter(PassContext& context, const Casting& casting) : context_(context), casting_(casting) {}

  size_t changed = 0;

  void block(Graph& g) {
    Rewriter b(g, context_);
    std::map<std::pair<const Value*, DType>, Value*> casts;
    for (Node& n : g.nodes()) {
      for (const Body& body : n.bodies()) block(*body.graph);
      if (n.op().known && !n.unchecked() && casting_.changes(n)) change(n, b, casts);
    }
  }

 private:
  using Casts = std::map<std::pair<const Value*, DType>, Value*>;

  Value* cast(Rewriter& b, Value* v, DType to, std::string_view name) {
    Value* made = b.cast(v, {.dtype = to});
    made->set_name(b.model().name(name));
    made->def()->set_name(made->name());
    return made;
  }

  static std::string with_suffix(std::string_view name, std::string_view between, DType d) {
    return name.empty() ? std::string() : fmt::format("{}{}{}", name, between, dtype_name(d));
  }

  void change(Node& n, Rewriter& b, Casts& casts) {
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    std::vector<Value*> operands;
    std::vector<Casts::iterator> fresh;
    bool any = false;
    Node* before = n.prev();
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      Value* v = n.input(i);
      operands.push_back(v);
      if (v == nullptr) continue;
      if (Value* other = casting_.parameter ? casting_.parameter(b, n, i) : nullptr) {
        operands.back() = other;
        any = true;
        continue;
      }
      if (v->dtype() != casting_.from) continue;
      const DType to = casting_.target(n, i);
      if (to == DType::kUndefined) continue;
      any = true;
      const auto [at, is_new] = casts.try_emplace({v, to}, nullptr);
      if (is_new) {
        Value* source = casting_.prepare ? casting_.prepare(b, *v, to) : nullptr;
        at->second = cast(b, source != nullptr ? source : v, to, with_suffix(v->name().view(), "_to_", to));
        fresh.push_back(at);
      }
      operands.back() = casting_.guard ? casting_.guard(b, n, i, at->second) : at->second;
    }
    if (!any) return;
    Node* made = nullptr;
    try {
      made = &b.make(n.op(), operands, n.num_results(), attrs_of(n));
    } catch (const Error& e) {
      // The op does not support that type: leave it as it is.
      for (const auto& at : fresh) casts.erase(at);
      for (Node* late = n.prev(); late != before; late = n.prev()) n.graph()->erase(*late);
      context_.log.near_miss(n, e.message());
      return;
    }
    const std::string name = with_suffix(n.name().view(), "_cast_", casting_.named());
    if (!name.empty()) made->set_name(b.model().name(name));
    for (size_t i = 0; i < n.num_results(); ++i) result(*n.result(i), *made->result(i), name, b);
    n.graph()->erase(n);
    ++changed;
  }

  // Replaces `old` by `made`, cast back if its type changed. It is named after the op, or after `old` if the
  // op has no name, as in models that came from ONNX.
  void result(Value& old, Value& made, std::string_view op_name, Rewriter& b) {
    const DType now = made.dtype() != DType::kUndefined ? made.dtype() : old.dtype();
    if (old.type() != nullptr) made.set_type(b.types().with_dtype(old.type(), now));  // keeps the symbols of its sizes
    const Node& n = *made.def();
    if (!op_name.empty()) {
      const bool several = n.num_results() > 1;
      made.set_name(several ? b.model().name(fmt::format("{}_{}", op_name, made.index())) : b.model().name(op_name));
    } else if (!old.name().empty()) {
      made.set_name(now == old.dtype() ? old.name()
                                       : b.model().name(with_suffix(old.name().view(), "_cast_", casting_.named())));
    }
    Value* replacement = &made;
    if (old.dtype() == casting_.from && now != casting_.from) {
      replacement = cast(b, &made, casting_.from, with_suffix(made.name().view(), "_to_", casting_.from));
      replacement->set_type(old.type());
    }
    if (const SymbolicValue* known = context_.facts.find(old)) context_.facts.set(*replacement, *known);
    if (is_function_result(old)) replacement->set_name(old.name());
    old.graph()->replace_uses(old, *replacement);
  }

  static bool is_function_result(const Value& v) {
    for (const Use& u : v.uses()) {
      if (u.owner->is_boundary() && u.owner->graph()->function() != nullptr) return true;
    }
    return false;
  }

  PassContext& context_;
  const Casting& casting_;
};

}  // namespace

bool takes(const Node& n, size_t i, DType dtype) {
  const Slot* slot = slot_of(n.op(), i, n.num_inputs());
  if (slot == nullptr) return false;
  return slot->types.any || (slot->types.tensor >> static_cast<int>(dtype) & 1) != 0;
}

bool takes(const Rewriter& b, std::string_view name, DType dtype) {
  const Op* op = b.find(name);
  return op != nullptr && (op->inputs[0].types.tensor >> static_cast<int>(dtype) & 1) != 0;
}

size_t insert_casts(Graph& top, PassContext& context, const Casting& casting) {
  Inserter inserter(context, casting);
  inserter.block(top);
  return inserter.changed;
}

}  // namespace sardonyx::mil
