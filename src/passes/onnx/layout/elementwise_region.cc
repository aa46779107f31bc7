#include "passes/onnx/layout/elementwise_region.h"

#include <algorithm>
#include <numeric>

namespace sardonyx::onnx {

std::vector<int64_t> inverse_of(std::span<const int64_t> perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

bool is_elementwise(const Node& n) {
  return n.has(Trait::kUnary) || n.has(Trait::kBroadcasts) || n.is("Clip") || n.is("CastLike");
}

bool is_one_element(const Value& v, size_t rank) {
  if (!v.ranked() || v.type()->rank() > rank) return false;
  const auto dims = v.type()->dims();
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is(1); });
}

bool shapes_result(const Use& operand) { return !operand.owner->is("CastLike") || operand.owner->operand_index(operand) == 0; }

bool RegionFinder::is_member(const Node* n) const {
  if (n == nullptr || n->unchecked() || !admits_(*n)) return false;
  const Value& v = *n->result();
  return v.ranked() && !is_one_element(v, v.type()->rank());
}

const Region* RegionFinder::around(Node& member) {
  if (number_[member] != 0) return nullptr;
  Region& region = region_;
  region.members.clear();
  region.entries.clear();
  region.exits.clear();
  number_[member] = ++regions_;
  region.members.push_back(&member);
  bool alone = true;  // else it touches an earlier region, which may have changed; the next round retries
  for (size_t i = 0; i < region.members.size(); ++i) {
    Node& n = *region.members[i];
    const auto join = [&](Node* other) {
      if (other == nullptr || other->graph() != n.graph() || !is_member(other)) return false;
      if (number_[*other] == 0) {
        number_[*other] = regions_;
        region.members.push_back(other);
      }
      alone &= number_[*other] == regions_;
      return true;
    };
    for (Use& u : n.operands()) {
      if (u.value != nullptr && shapes_result(u) && !join(u.value->def())) region.entries.push_back(&u);
    }
    for (Use& u : n.result()->uses()) {
      if (shapes_result(u) && !join(u.owner)) region.exits.push_back(&u);
    }
  }
  return alone ? &region : nullptr;
}

bool RegionFinder::holds(const Region& region, const Node* n) {
  return n != nullptr && number_[*n] == number_[*region.members.front()];
}

void unframe(const Region& region, std::string_view frame, PassContext& context,
             const std::function<std::vector<Dim>(const Type&)>& dims_of) {
  Types& types = context.model.types();
  std::vector<Node*> frames;
  for (Use* u : region.entries) {
    Node* def = u->value->def();
    if (def == nullptr || !def->is(frame)) continue;
    frames.push_back(def);
    u->owner->set_input(u->owner->operand_index(*u), def->input(0));
  }
  for (Node* n : region.members) {
    Value& v = *n->result();
    v.set_type(types.with_dims(v.type(), dims_of(*v.type())));
    context.facts.erase(v);
    if (auto info = n->graph()->value_info.find(&v); info != n->graph()->value_info.end()) {
      const Type* declared = info->second.declared;
      if (declared != nullptr && declared->ranked()) {
        n->graph()->edit_value_info(v).declared = types.with_dims(declared, dims_of(*declared));
      }
    }
  }
  for (Use* u : region.exits) {
    Node& after = *u->owner;
    Value& v = *u->value;
    Value& old = *after.result();
    if (const Type* both = types.meet(v.type(), old.type())) v.set_type(both);
    if (const SymbolicValue* known = context.facts.find(old)) context.facts.set(v, *known);
    after.graph()->replace_uses(old, v);
    after.graph()->erase(after);
  }
  for (Node* n : frames) {
    if (!n->alive() || n->any_result_used()) continue;
    n->graph()->erase(*n);
  }
}

}  // namespace sardonyx::onnx
