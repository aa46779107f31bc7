// Gives inputs and results of the function main names that Core ML accepts everywhere:
// [a-zA-Z_][a-zA-Z0-9_]*.
//
// Other characters become "_". A name that begins with a digit gets "var_" before it, and a word of MIL's
// text form ("state", "fp16") gets "_workaround" after it. A new name that is already in use, or that a later
// port keeps, gets a number. Inner names stay. This is the only pass of the presets that renames inputs and
// results. After coremltools' pass of this name, which would give two inputs one name.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "dialects/mil/interface_names.h"
#include "rewrite/pass.h"

namespace sardonyx::mil {
namespace {

class Names {
 public:
  // A valid name that stays: nothing else may take it.
  void keep(std::string_view name) {
    if (is_interface_name(name)) kept_.emplace(name);
  }

  std::string clean(std::string_view name) {
    std::string text = plain_name(name);
    if (std::ranges::find(kWordsOfMil, text) != std::end(kWordsOfMil)) text += "_workaround";
    if (text != name) {
      for (int i = 0; seen_.contains(text) || kept_.contains(text); ++i) text += fmt::format("_{}", i);
    }
    seen_.insert(text);
    return text;
  }

 private:
  std::unordered_set<std::string> seen_, kept_;
};

size_t sanitize(Graph& g) {
  Model& model = g.model();
  Names names;
  size_t renamed = 0;
  for (const Port& p : g.inputs()) names.keep(p.name.view());
  for (const Port& p : g.outputs()) names.keep(p.name.view());
  const auto clean = [&](Name old) {
    const std::string name = names.clean(old.view());
    if (name == old.view()) return old;
    ++renamed;
    return model.name(name);
  };
  std::unordered_map<const Value*, std::vector<size_t>> ports;
  for (size_t i = 0; i < g.outputs().size(); ++i) ports[g.output(i)].push_back(i);
  // Renames v, a result; `made` maps its previous names to the new ones.
  using Made = std::vector<std::pair<Name, Name>>;
  const auto rename_results = [&](const Value& v, Made made) {
    for (size_t i : ports[&v]) {
      Port& p = g.output_port(i);
      auto at = std::ranges::find(made, p.name, &Made::value_type::first);
      if (at == made.end()) at = made.insert(at, {p.name, clean(p.name)});
      p.name = at->second;
    }
    return made;
  };
  // An input that is returned under its own name stays so.
  std::vector<Made> inputs;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Name old = g.inputs()[i].name, name = clean(old);
    inputs.push_back({{old, name}});
    if (name == old) continue;
    g.input_port(i).name = name;
    g.input(i)->set_name(name);
  }
  const auto rename = [&](Value& v) {
    if (!ports.contains(&v)) return;
    const Made made = rename_results(v, {});
    if (made.front().first != made.front().second) v.set_name(made.front().second);
  };
  for (Node& n : g.nodes()) {
    for (Value& v : n.results()) rename(v);
  }
  for (Value* v : g.constants()) rename(*v);
  for (size_t i = 0; i < inputs.size(); ++i) rename_results(*g.input(i), inputs[i]);
  return renamed;
}

}  // namespace

Pass sanitize_input_output_names() {
  return Pass::on_model(Numerics::kExact, [](PassContext& context) {
    Function* main = context.model.find_function("", "main");
    if (main == nullptr) return false;
    const size_t renamed = sanitize(main->graph());
    context.log.count("renamed", renamed);
    return renamed > 0;
  });
}

}  // namespace sardonyx::mil
