#include "convert/guards/kept_names.h"

#include <algorithm>
#include <vector>

namespace sardonyx {
namespace {

template <class F>
void for_each_value(Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    std::vector<Graph*> todo{&function->graph()};
    while (!todo.empty()) {
      Graph& g = *todo.back();
      todo.pop_back();
      for (Value* v : g.constants()) f(*v);
      for (Node& n : g.nodes()) {
        for (Value& v : n.results()) f(v);
        for (const Body& b : n.bodies()) todo.push_back(b.graph);
      }
    }
  }
}

}  // namespace

KeptNames::KeptNames(Model& m) {
  for_each_value(m, [&](Value& v) {
    if (!v.name().empty()) names_.emplace(v.name().view(), Meaning{v.constant(), v.type()});
  });
}

bool KeptNames::Meaning::holds_for(const Value& v) const {
  constexpr size_t kCompared = 1 << 20;  // bytes; larger constants that were made anew count as changed
  if (payload != nullptr && v.is_constant()) {
    const TensorPtr& now = v.constant();
    return payload == now || (!now->is_deferred() && now->byte_size() <= kCompared && payload->equals(*now));
  }
  if (payload != nullptr) return false;
  return type == nullptr || v.type() == nullptr || !type->is_tensor() || !v.type()->is_tensor() || !type->ranked() ||
         !v.type()->ranked() ||
         (type->dtype() == v.type()->dtype() && type->rank() == v.type()->rank() &&
          std::ranges::equal(type->dims(), v.type()->dims(),
                             [](Dim a, Dim b) { return a == b || !(a.is_int() && b.is_int()); }));
}

void KeptNames::drop_changed(Model& m) const {
  for_each_value(m, [&](Value& v) {
    const auto [first, last] = names_.equal_range(std::string(v.name().view()));
    if (first == last) return;
    if (std::none_of(first, last, [&](const auto& named) { return named.second.holds_for(v); })) v.set_name({});
  });
}

}  // namespace sardonyx
