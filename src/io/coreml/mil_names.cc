#include "io/coreml/mil_names.h"

#include <fmt/format.h>

#include "dialects/mil/ops.h"
#include "ir/graph/file_record.h"

namespace sardonyx::mil_file {

bool is_literal(const Node& n, size_t operand) {
  const Value* v = n.input(operand);
  if (v == nullptr || v->kind() != ValueKind::kConstant) return false;
  if (v->graph() != nullptr && v->graph()->model().file_record().literals.contains(v)) return true;
  const Op& op = n.op();
  if (!op.known) return false;
  if (op.name.starts_with("constexpr_")) return true;
  const Slot* slot = slot_of(op, operand, n.num_inputs());
  if (mil::is(op, mil::kFamily_classify)) return slot->name == "classes";
  if (mil::is(op, mil::kFamily_reshape_like))
    return slot->name == "begins" || slot->name == "ends" || slot->name == "end_masks";
  return false;
}

MilNames::MilNames(const Model& model) : made_(model), last_use_(model), names_(model) {
  for (const auto& f : model.functions()) name_function(*f);
}

std::string_view MilNames::of(const Value& v) const { return const_cast<ValueMap<std::string_view>&>(names_)[v]; }

std::optional<std::string_view> MilNames::of(const Node& n) const {
  if (!n.name().empty()) return n.name().view();
  if (n.name().data() != nullptr) return std::nullopt;
  return op_names_.at(&n);
}

// Records definitions and last uses of all values, and where const ops are needed.
void MilNames::scan(const Graph& g) {
  for (const Port& p : g.inputs()) made_[*p.value] = ++clock_;
  for (Node& n : g.nodes()) {
    ++clock_;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (!is_literal(n, i)) use(n.input(i), g, &n, i);
    }
    for (const Body& b : n.bodies()) scan(*b.graph);
    ++clock_;
    for (Value& v : n.results()) made_[v] = clock_;
  }
  ++clock_;
  for (const Port& p : g.outputs()) use(p.use->value, g, nullptr, 0);
}

void MilNames::use(const Value* v, const Graph& reader, const Node* n, size_t operand) {
  if (v == nullptr) return;
  if (v->kind() == ValueKind::kConstant && last_use_[*v] == 0) {
    // The first user: the op in the constant's own graph that uses it or contains its user.
    const Graph* at = &reader;
    const Node* before = n;
    while (at != v->graph()) {
      before = at->parent();
      at = before->graph();
    }
    consts_[{at, before}].push_back(v);
    made_[*v] = clock_;
    if (v->name().empty() && n != nullptr) {
      const Slot* slot = slot_of(n->op(), operand, n->num_inputs());
      const std::string_view base = n->name().empty() ? n->op().name : n->name().view();
      wanted_[v] = fmt::format("{}_{}_0", base, slot != nullptr ? slot->name : "operand");
    }
  }
  last_use_[*v] = clock_;
}

void MilNames::name_function(const Function& f) {
  const Graph& g = f.graph();
  taken_.clear();
  latest_.clear();
  counters_.clear();
  scan(g);
  ++clock_;
  // Names of the interface are reserved.
  for (const Port& p : g.inputs()) taken_.insert(p.name.view());
  std::vector<Output>& outputs = outputs_[&g];
  std::unordered_map<const Value*, std::string_view> returned;
  for (const Port& p : g.outputs()) {
    const Value* v = p.use->value;
    SX_CHECK(v != nullptr, "a result of a program has a value");
    std::string_view name = p.name.view();
    if (name.empty()) name = v->name().view();
    const bool own = (v->kind() == ValueKind::kResult || v->kind() == ValueKind::kConstant) && v->graph() == &g;
    const bool same = v->kind() == ValueKind::kInput && g.inputs()[v->index()].name.view() == name;
    const auto [at, first] = returned.try_emplace(v, name);
    Output out{name, false};
    if (!name.empty()) {
      out.identity = first ? !own && !same : at->second != name;
      if (own && first) {
        names_[*v] = name;
        last_use_[*v] = clock_;
      }
      taken_.insert(name);
    }
    outputs.push_back(out);
  }
  name_graph(g);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name.empty()) outputs[i].name = of(*g.output(i));
  }
}

void MilNames::name_graph(const Graph& g) {
  const size_t outer = latest_.mark();
  for (const Port& p : g.inputs())
    give(*p.value, g.function() != nullptr && !p.name.empty() ? p.name.view() : p.value->name().view());
  const auto constants = [&](const Node* n) {
    if (const auto* list = before(g, n)) {
      for (const Value* v : *list)
        give(*v, !of(*v).empty() ? of(*v) : v->name().empty() ? std::string_view(wanted_[v]) : v->name().view());
    }
  };
  for (Node& n : g.nodes()) {
    constants(&n);
    if (n.name().data() == nullptr) {
      // Like coremltools: "relu_0", and the result has the same name.
      op_names_[&n] = n.num_results() > 0 && !n.result()->name().empty() ? n.result()->name().view()
                                                                         : invent(fmt::format("{}_0", n.op().name));
    }
    for (const Body& b : n.bodies()) name_graph(*b.graph);
    for (Value& v : n.results()) {
      std::string base;
      if (v.name().empty() && of(v).empty()) {
        const auto own = of(n);
        base = own && !own->empty() ? std::string(*own) : std::string(n.op().name);
        if (n.num_results() > 1) base += fmt::format("_{}", v.index());
        if (own && *own == base && latest_.find(*own) == nullptr) {  // one invented name for both
          names_[v] = *own;
          define(*own, v);
          continue;
        }
      }
      give(v, !of(v).empty() ? of(v) : v.name().empty() ? std::string_view(base) : v.name().view());
    }
  }
  constants(nullptr);
  latest_.back_to(outer);
}

void MilNames::give(const Value& v, std::string_view wanted) {
  if (wanted.empty()) wanted = invent("input_0");
  const Value* present = latest_.find(wanted);
  const bool fixed = of(v) == wanted || v.kind() == ValueKind::kInput;
  // An interface name is exclusive, except if the file reused it and the value with that name has no later
  // uses.
  const bool generated = v.name().view() != wanted && !fixed;
  if ((present != nullptr && last_use_[*present] > made_[v]) || (generated && taken_.contains(wanted))) {
    wanted = invent(wanted);
  } else if (generated) {
    invented_.push_back(std::string(wanted));
    wanted = invented_.back();
  }
  names_[v] = wanted;
  define(wanted, v);
}

void MilNames::define(std::string_view name, const Value& v) {
  taken_.insert(name);
  latest_.define(name, &v);
}

std::string_view MilNames::invent(std::string_view base) {
  std::string stem(base);
  // Counts up "relu_0", and appends a number to other names.
  const size_t digits = stem.find_last_not_of("0123456789");
  if (digits != std::string::npos && digits + 1 < stem.size() && stem[digits] == '_') stem.resize(digits);
  uint32_t& next = counters_[stem];
  std::string name;
  do {
    name = fmt::format("{}_{}", stem, next++);
  } while (taken_.contains(name));
  invented_.push_back(std::move(name));
  taken_.insert(invented_.back());
  return invented_.back();
}

}  // namespace sardonyx::mil_file
