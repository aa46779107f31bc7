// Inputs and results of the function main get names that Core ML takes everywhere: [a-zA-Z_][a-zA-Z0-9_]*.
//
// Other characters become "_"; a name that begins with a digit gets "var_" before it, a word of MIL's text form ("state", "fp16") "_workaround"
// behind it. A changed name that an interface has already, or that stays as it is further on, gets a number. Names inside are not touched. The one
// pass of the presets that renames what callers see: after coremltools' pass of this name, which would give two inputs one name.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/mil/interface_names.h"
#include "rewrite/pass.h"

namespace sardonyx::mil {
namespace {

class Names {
 public:
  // A name that stays, if it is a good one: nothing else is called so.
  void keep(std::string_view name) {
    if (is_interface_name(name)) kept_.emplace(name);
  }

  std::string clean(std::string_view name) {
    std::string text(name);
    for (char& c : text) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      // One "_" per character, not per byte.
      if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) {
        c = '\0';
      } else if (!letter) {
        c = '_';
      }
    }
    std::erase(text, '\0');
    if (!text.empty() && text[0] >= '0' && text[0] <= '9') text = "var_" + text;
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
  std::unordered_map<const Value*, std::string> inputs;  // what they were called
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    Value& v = *g.input(i);
    const std::string old(g.inputs()[i].name.view());
    const std::string name = names.clean(old);
    inputs.emplace(&v, old);
    if (name == old) continue;
    g.input_port(i).name = model.name(name);
    v.set_name(g.inputs()[i].name);
    ++renamed;
  }
  std::unordered_map<const Value*, std::vector<size_t>> ports;
  for (size_t i = 0; i < g.outputs().size(); ++i) ports[g.output(i)].push_back(i);
  const auto rename = [&](Value& v) {
    const auto at = ports.find(&v);
    if (at == ports.end()) return;
    const std::string old(g.outputs()[at->second.front()].name.view());
    const std::string name = names.clean(old);
    if (name == old) return;
    const Name made = model.name(name);
    for (size_t i : at->second) {
      if (g.outputs()[i].name.view() == old) g.output_port(i).name = made;
    }
    v.set_name(made);
    ++renamed;
  };
  for (Node& n : g.nodes()) {
    for (Value& v : n.results()) rename(v);
  }
  for (Value* v : g.constants()) rename(*v);
  // An input that is returned under its own name keeps doing that.
  for (const auto& [v, old] : inputs) {
    const auto at = ports.find(v);
    for (size_t i = 0; at != ports.end() && i < at->second.size(); ++i) {
      const size_t port = at->second[i];
      if (g.outputs()[port].name.view() == old && v->name().view() != old) g.output_port(port).name = v->name();
    }
  }
  return renamed;
}

}  // namespace

Pass sanitize_input_output_names() {
  return Pass::on_model(Numerics::kExact, [](PassContext& context) {
    size_t renamed = 0;
    if (Function* main = context.model.find_function("", "main")) renamed = sanitize(main->graph());
    context.count("renamed", renamed);
    return renamed > 0;
  });
}

}  // namespace sardonyx::mil
