//   x ── LayerNormalization ── MatMul(w1) ── Gelu ── MatMul(w2) ── Add ── ... the same with w3, w4 ...
//     =>   x ── custom.block.1::block(w1, w2) ── custom.block.1::block(w3, w4)
//
// Replaces parts of a graph that occur several times by calls of one model-local function. Occurrences have
// the same operators with the same attributes on the same shapes, connected the same way. Values that differ,
// mostly weights, become operands; small constants that are equal everywhere move into the function. The part
// that saves the most nodes goes first, then the next, until none has `min_nodes` nodes.
// The function takes its name from the program: from the module path of the part, or from the function that
// made its last node; `part` if neither is known.
// On request only: runtimes inline functions when they load a model, which then runs as before. The inverse
// of inline_functions.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "passes/onnx/control_flow/repeated_parts.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kSharedBytes = 1024;   // equal constants up to this size move into the function
constexpr int64_t kFewestNodes = 4;     // smallest part worth a function
constexpr size_t kMostFunctions = 256;  // per run

// "layers_3", "layers[3]", "Block.3" -> "layers", "layers", "Block". Replaces characters that identifiers
// lack by '_'.
std::string as_identifier(std::string_view text) {
  while (!text.empty() && (std::isalnum(static_cast<unsigned char>(text.back())) == 0 ||
                           std::isdigit(static_cast<unsigned char>(text.back())) != 0))
    text.remove_suffix(1);
  while (!text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) == 0 && text.front() != '_')
    text.remove_prefix(1);
  std::string out(text);
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return out;
}

// The last component of a scope that is a name: "Net/transpose(jvp(eqx.nn.Linear))/vmap()" -> "Linear",
// "Net/blocks/0" -> "blocks". Empty if there is none, as in "Net/vmap(BNTS,BSNH->BTNH)", where the common
// prefix ends in a transformation.
std::string name_of_scope(std::string_view scope) {
  while (!scope.empty()) {
    const size_t slash = scope.rfind('/');
    std::string_view part = slash == std::string_view::npos ? scope : scope.substr(slash + 1);
    scope = slash == std::string_view::npos ? std::string_view() : scope.substr(0, slash);
    while (part.ends_with(')') && part.find('(') != std::string_view::npos) {
      part.remove_suffix(1);
      part.remove_prefix(part.find('(') + 1);
    }
    if (part.find_first_of(",->()<") != std::string_view::npos) return {};
    const size_t end = part.find_last_not_of("0123456789.[]_");
    const size_t dot = part.rfind('.', end);
    std::string name = as_identifier(dot == std::string_view::npos ? part : part.substr(dot + 1));
    if (!name.empty()) return name;
  }
  return {};
}

// "Net.<locals>.block", "Block.__call__" -> "block", "Block".
std::string name_of_function(std::string_view qualified) {
  while (!qualified.empty()) {
    const size_t dot = qualified.rfind('.');
    const std::string_view last = dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
    if (!last.starts_with("__") && !last.starts_with('<')) return as_identifier(last);
    qualified = dot == std::string_view::npos ? std::string_view() : qualified.substr(0, dot);
  }
  return {};
}

// The common prefix of all nodes' scopes: "Net/Block_3" for "Net/Block_3/Dense_0" and "Net/Block_3". Ignores
// nodes without a scope.
std::string common_scope(const Model& m, std::span<Node* const> nodes) {
  std::optional<std::string> common;
  for (const Node* n : nodes) {
    const Provenance& p = m.provenance(n->provenance());
    for (const Source& s : p.sources) {
      if (s.scope.empty()) continue;
      if (!common) common = s.scope;
      auto same = static_cast<size_t>(std::ranges::mismatch(*common, s.scope).in1 - common->begin());
      const bool whole = (same == common->size() || (*common)[same] == '/') && (same == s.scope.size() || s.scope[same] == '/');
      if (!whole) {
        const size_t slash = common->rfind('/', same == 0 ? 0 : same - 1);
        same = slash == std::string::npos ? 0 : slash;
      }
      common->resize(same);
    }
  }
  return common.value_or("");
}

// The common suffix of all names, cut at a word boundary: "mlp.kernel" for "blocks[0].mlp.kernel" and
// "blocks[11].mlp.kernel".
std::string common_end(const std::vector<Value*>& values) {
  std::string end(values.front()->name().view());
  for (const Value* v : values) {
    const std::string_view other = v->name().view();
    const auto ends = std::mismatch(end.rbegin(), end.rend(), other.rbegin(), other.rend()).first;
    end.erase(end.begin(), ends.base());
  }
  // Keep whole words only: cut after the first separator unless all names are equal.
  if (end.size() < values.front()->name().view().size()) {
    const size_t dot = end.find_first_of("./");
    end = dot == std::string::npos ? "" : end.substr(dot + 1);
  }
  return end;
}

class Outliner {
 public:
  Outliner(PassContext& context, size_t min_nodes) : context_(context), model_(context.model), min_nodes_(min_nodes) {}

  bool run() {
    const size_t before = model_.functions().size();
    for (Graph* g : graphs_in(model_.graph())) {
      while (model_.functions().size() - before < kMostFunctions) {
        Repeat repeat = best_repeat(*g, min_nodes_);
        if (repeat.occurrences.empty()) break;
        outline(*g, repeat);
      }
    }
    if (model_.functions().size() == before) return false;
    model_.ir_version = std::max<int64_t>(model_.ir_version, 8);
    return true;
  }

 private:
  struct Operand {
    std::vector<Value*> given;                     // by occurrence
    std::vector<std::pair<size_t, size_t>> reads;  // (node, operand) in the part
  };
  struct Result {
    size_t node, index;
  };

  void outline(Graph& g, const Repeat& repeat) {
    const size_t times = repeat.occurrences.size();
    std::vector<std::vector<std::vector<Use*>>> reads(times);  // by occurrence and node
    for (size_t k = 0; k < times; ++k) {
      for (Node* n : repeat.occurrences[k]) reads[k].push_back(reads_of(*n));
    }
    const std::vector<Operand> operands = operands_of(repeat, reads);
    const std::vector<Result> results = results_of(g, repeat);
    Function& f = add_function(repeat);

    std::vector<Node*> calls;
    for (size_t k = 0; k < times; ++k) {
      std::vector<Value*> given;
      for (const Operand& o : operands) {
        if (!stands_inside(o)) given.push_back(o.given[k]);
      }
      Node& call = model_.new_node(model_.op(f.domain, f.name), given, results.size());
      call.set_provenance(repeat.occurrences[k].back()->provenance());
      g.insert_before(*repeat.occurrences[k].front(), call);
      calls.push_back(&call);
    }
    for (size_t k = 0; k < times; ++k) {
      for (size_t i = 0; i < results.size(); ++i)
        hand_over(g, repeat.occurrences[k], *repeat.occurrences[k][results[i].node]->result(results[i].index),
                  *calls[k]->result(i));
    }
    fill(g, f, repeat, reads[0], operands, results);
    for (size_t k = 1; k < times; ++k) {
      // In the order of the first occurrence, users come after producers.
      for (Node* n : std::views::reverse(repeat.occurrences[k])) g.erase(*n);
    }
    g.sort();
    for (Node* call : calls) infer_node(*call, context_.facts);
    g.erase_unused_constants();
    erase_dead_nodes(g);
    import_domains(f);
    context_.log.count("functions");
    context_.log.count("calls", times);
  }

  // The values that the part uses from outside. Uses of the same value in every occurrence share an operand.
  // Weights come last.
  static std::vector<Operand> operands_of(const Repeat& repeat, const std::vector<std::vector<std::vector<Use*>>>& reads) {
    std::unordered_set<const Node*> inside(repeat.occurrences[0].begin(), repeat.occurrences[0].end());
    std::map<std::vector<Value*>, size_t> known;
    std::vector<Operand> operands;
    for (size_t n = 0; n < repeat.size(); ++n) {
      for (size_t r = 0; r < reads[0][n].size(); ++r) {
        const Value* first = reads[0][n][r]->value;
        if (first == nullptr || (first->def() != nullptr && inside.contains(first->def()))) continue;
        std::vector<Value*> given;
        for (const auto& occurrence : reads) given.push_back(occurrence[n][r]->value);
        const auto [at, is_new] = known.try_emplace(given, operands.size());
        if (is_new) operands.push_back({.given = std::move(given), .reads = {}});
        operands[at->second].reads.emplace_back(n, r);
      }
    }
    std::vector<Operand> ordered;
    for (const bool weights : {false, true}) {
      for (const Operand& o : operands) {
        if (o.given.front()->is_constant() == weights) ordered.push_back(o);
      }
    }
    return ordered;
  }

  // Results that have users outside of the part in any occurrence.
  static std::vector<Result> results_of(Graph& g, const Repeat& repeat) {
    std::set<std::pair<size_t, size_t>> read;
    for (const std::vector<Node*>& nodes : repeat.occurrences) {
      const std::unordered_set<const Node*> inside(nodes.begin(), nodes.end());
      for (size_t n = 0; n < nodes.size(); ++n) {
        for (const Value& v : nodes[n]->results()) {
          for (const Use& u : v.uses()) {
            if (!inside.contains(node_around(g, *u.owner))) read.emplace(n, v.index());
          }
        }
      }
    }
    std::vector<Result> results;
    for (const auto& [n, i] : read) results.push_back({n, i});
    return results;
  }

  static bool stands_inside(const Operand& o) {
    const TensorPtr& first = o.given.front()->constant();
    return first != nullptr && first->byte_size() <= kSharedBytes &&
           std::ranges::all_of(o.given, [&](const Value* v) { return v->constant()->equals(*first); });
  }

  // An empty function, named after the program.
  Function& add_function(const Repeat& repeat) {
    const std::vector<Node*>& nodes = repeat.occurrences.front();
    const std::string scope = common_scope(model_, nodes);
    const auto name_of_writer = [&](bool of_scope) {
      std::string name;
      for (auto n = nodes.rbegin(); n != nodes.rend() && name.empty(); ++n) {
        for (const Source& s : model_.provenance((*n)->provenance()).sources) {
          if (name.empty() && (!of_scope || s.scope == scope)) name = name_of_function(s.function);
        }
      }
      return name;
    };
    // A list position such as "Net/blocks/3" is a worse name than the function that wrote a node directly in
    // that module.
    std::string name;
    if (scope.find_first_not_of("0123456789", scope.rfind('/') + 1) == std::string::npos) name = name_of_writer(true);
    if (name.empty()) name = name_of_scope(scope);
    if (name.empty()) name = name_of_writer(false);
    if (name.empty()) name = "part";
    std::string domain;
    for (int n = 1; domain.empty(); ++n) {
      domain = fmt::format("custom.{}.{}", name, n);
      const bool taken =
          std::ranges::any_of(model_.functions(), [&](const std::unique_ptr<Function>& f) { return f->domain == domain; }) ||
          model_.opset_version(domain).has_value();
      if (taken) domain.clear();
    }
    Function& f = model_.add_function(name);
    f.domain = domain;
    model_.set_opset_version(domain, 1);
    return f;
  }

  // Makes users of `from` outside of the part use `to`, which takes over the name.
  void hand_over(Graph& g, const std::vector<Node*>& nodes, Value& from, Value& to) {
    const std::unordered_set<const Node*> inside(nodes.begin(), nodes.end());
    to.set_type(from.type());
    to.set_name(from.name());
    g.move_value_info(from, to, g);
    std::vector<Use*> outside;
    for (Use& u : from.uses()) {
      if (!inside.contains(node_around(g, *u.owner))) outside.push_back(&u);
    }
    for (Use* u : outside) read(*u, &to);
  }

  static void read(Use& u, Value* v) {
    if (!u.owner->is_boundary()) return u.owner->set_input(u.owner->operand_index(u), v);
    Graph& g = *u.owner->graph();
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      if (g.outputs()[i].use == &u) return g.set_output(i, *v);
    }
  }

  // Moves the nodes of the first occurrence into the function.
  void fill(Graph& g, Function& f, const Repeat& repeat, const std::vector<std::vector<Use*>>& reads,
            const std::vector<Operand>& operands, const std::vector<Result>& results) {
    Graph& to = f.graph();
    std::set<std::string, std::less<>> names;
    for (const Operand& o : operands) {
      Value* inner = nullptr;
      const Value& given = *o.given.front();
      if (stands_inside(o)) {
        inner = to.add_constant(given.constant());
      } else {
        std::string name = given.is_constant() ? common_end(o.given) : "";
        if (name.empty() || !names.insert(name).second)
          name = fmt::format("{}_{}", given.is_constant() ? "weight" : "input", to.inputs().size());
        inner = to.add_input(name, given.type());
        inner->set_type(given.type());
      }
      for (const auto& [n, r] : o.reads) read(*reads[n][r], inner);
    }
    for (Node* n : repeat.occurrences[0]) {
      for (Value& v : n->results()) {
        v.set_name({});
        g.erase_value_info(v);
      }
      n->set_name({});
      g.detach(*n);
      to.append(*n);
    }
    for (const Result& r : results)
      to.add_output(*repeat.occurrences[0][r.node]->result(r.index), fmt::format("output_{}", to.outputs().size()));
  }

  void import_domains(Function& f) {
    std::set<std::string> domains;
    for (Graph* g : graphs_in(f.graph())) {
      for (const Node& n : g->nodes()) domains.insert(n.op().domain == "ai.onnx" ? "" : std::string(n.op().domain));
    }
    for (const std::string& d : domains) f.opset_imports.push_back({d, model_.opset_version(d).value_or(1)});
  }

  PassContext& context_;
  Model& model_;
  size_t min_nodes_;
};

}  // namespace

Pass outline_functions() {
  return Pass::on_model(Numerics::kExact,
                        [](PassContext& context) {
                          const int64_t least = context.options().number("min_nodes", kFewestNodes);
                          return Outliner(context, static_cast<size_t>(std::max<int64_t>(least, 2))).run();
                        })
      .option("min_nodes", "the smallest number of nodes that becomes a function (default 4)");
}

}  // namespace sardonyx::onnx
