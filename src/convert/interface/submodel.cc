#include "convert/interface/submodel.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "sardonyx/infer.h"
#include "sardonyx/passes.h"
#include "support/nearest.h"

namespace sardonyx {
namespace {

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

class Cut {
 public:
  explicit Cut(Model& m) : m_(m), g_(m.graph()) {
    for (const Port& p : g_.inputs()) values_.emplace(p.name.view(), p.value);
    for (const Port& p : g_.outputs()) values_.emplace(p.name.view(), p.use->value);
    for (Value* v : g_.constants()) values_.emplace(v->name().view(), v);
    for (Node& n : g_.nodes()) {
      for (Value& v : n.results()) values_.emplace(v.name().view(), &v);
    }
    values_.erase("");
  }

  void end_at(const std::vector<std::string>& names) {
    std::vector<Value*> values;
    std::vector<const Type*> types;
    for (const std::string& name : names) {
      Value* v = named(name);
      const auto old = std::ranges::find(g_.outputs(), name, [](const Port& p) { return p.name.view(); });
      values.push_back(v);
      types.push_back(old != g_.outputs().end() && old->declared != nullptr ? old->declared : v->type());
    }
    g_.clear_outputs();
    for (size_t i = 0; i < names.size(); ++i) g_.add_output(*values[i], names[i], types[i]);
  }

  void begin_at(const std::vector<std::string>& names) {
    const size_t old = g_.inputs().size();
    std::vector<Value*> fresh;
    for (const std::string& name : names) {
      Value* v = named(name);
      const auto port = std::ranges::find(g_.inputs().first(old), v, [](const Port& p) { return p.value; });
      const bool is_input = port != g_.inputs().begin() + static_cast<ptrdiff_t>(old);
      const Type* type = is_input && port->declared != nullptr ? port->declared : v->type();
      if (type == nullptr)
        refuse(fmt::format("the type of '{}' is not known, so it cannot become an input", name),
               {"help: `sardonyx check` says which nodes have no types"});
      Value* input = g_.add_input(name, type);
      g_.replace_uses(*v, *input);
      if (!is_input) v->set_name({});
      fresh.push_back(input);
    }
    remove_dead();
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (!fresh[i]->has_uses()) refuse(fmt::format("no result of the part depends on '{}'", names[i]));
    }
    for (size_t i = old; i-- > 0;) {
      if (g_.input(i)->has_uses())
        refuse(fmt::format("the part also depends on the input '{}'", g_.inputs()[i].name.view()),
               {fmt::format("help: --inputs {},{}", fmt::join(names, ","), g_.inputs()[i].name.view())});
      g_.remove_input(i);
    }
  }

  // Of the model's own inputs, those that lost their users.
  void drop_unread(const std::set<const Value*>& read) {
    for (size_t i = g_.inputs().size(); i-- > 0;) {
      if (read.contains(g_.input(i)) && !g_.input(i)->has_uses()) g_.remove_input(i);
    }
  }

  void remove_dead() {
    run_passes(m_, {.passes = {"remove_dead_nodes"}, .strict = true});
    g_.erase_unused_constants();
  }

 private:
  Value* named(const std::string& name) {
    const auto at = values_.find(name);
    if (at != values_.end()) return at->second;
    std::vector<std::string_view> names;
    for (const auto& [known, v] : values_) names.push_back(known);
    std::ranges::sort(names);
    const std::string_view meant = nearest(name, names);
    refuse(fmt::format("the model has no value '{}'", name),
           {meant.empty() ? "help: `sardonyx view MODEL` shows the names of all values"
                          : fmt::format("did you mean '{}'?", meant)});
  }

  Model& m_;
  Graph& g_;
  std::unordered_map<std::string_view, Value*> values_;
};

void require_distinct(std::string_view option, const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) refuse(fmt::format("{} names '{}' twice", option, name));
  }
}

}  // namespace

void keep_between(Model& m, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  if (inputs.empty() && outputs.empty()) return;
  if (m.dialect() != DialectId::kOnnx) refuse("a part between tensors can be taken of ONNX models only");
  require_distinct("--inputs", inputs);
  require_distinct("--outputs", outputs);
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  std::set<const Value*> read;
  for (const Port& p : m.graph().inputs()) {
    if (p.value->has_uses()) read.insert(p.value);
  }
  Cut cut(m);
  if (!outputs.empty()) cut.end_at(outputs);
  if (!inputs.empty()) {
    cut.begin_at(inputs);
  } else {
    cut.remove_dead();
    cut.drop_unread(read);
  }
}

}  // namespace sardonyx
