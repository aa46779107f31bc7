// The interpreter. It makes a plan per function (nodes in order, values as numbered slots, what to free when)
// and runs the plan in one loop.
//
// A chain of nodes is a loop. Only nested bodies and nested calls recurse, up to EvalOptions::max_depth.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "eval/kernel.h"
#include "eval/watch.h"
#include "ir/graph/call.h"
#include "support/system/interrupt.h"

namespace sardonyx {
namespace eval {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

struct Step {
  const Node* node = nullptr;
  Kernel kernel = nullptr;
  const Function* callee = nullptr;
  uint32_t operands = 0, num_operands = 0;  // in Plan::places
  uint32_t results = 0;                     // in Plan::places, one per result
  uint32_t frees = 0, num_frees = 0;        // in Plan::places
  uint32_t first_block = 0;                 // of the node's bodies, in order
};

// The steps of one graph.
struct Block {
  const Graph* graph = nullptr;
  std::vector<Step> steps;
  std::vector<uint32_t> inputs, outputs;
  std::vector<uint32_t> leftovers;  // its own places still full at the end: results, and unused inputs
  std::vector<uint32_t> captures;   // places of outer values that it uses
};

// A function's graph with all nested graphs. Each place holds one value.
struct Plan {
  std::vector<Block> blocks;  // the function's own block first
  std::vector<uint32_t> places;
  std::vector<const Value*> constants;  // by place; null unless the value is a constant
};

class Planner {
 public:
  Planner(const Graph& graph, int max_depth) : max_depth_(max_depth), model_(graph.model()) {
    plan_.blocks.emplace_back();
    add_block(graph, 0, 0);
    if (!plan_.blocks[0].captures.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "a graph that reads values of an outer graph cannot be evaluated by itself");
    }
  }
  Plan take() { return std::move(plan_); }

 private:
  uint32_t define(const Value& v, uint32_t block) {
    const auto place = static_cast<uint32_t>(plan_.constants.size());
    plan_.constants.push_back(v.is_constant() ? &v : nullptr);
    owner_.push_back(block);
    seen_.push_back(false);
    places_[&v] = place;
    return place;
  }

  uint32_t place_of(const Value* v, uint32_t block) {
    if (v == nullptr) return kNowhere;
    if (auto at = places_.find(v); at != places_.end()) return at->second;
    if (!v->is_constant()) return define(*v, kNowhere);  // of a graph outside: the planner refuses it
    // A constant is freed in the graph that owns it, after its last use there.
    for (uint32_t b : nesting_) {
      if (plan_.blocks[b].graph == v->graph()) return define(*v, b);
    }
    return define(*v, block);
  }

  void add_block(const Graph& g, uint32_t index, int depth) {
    if (depth > max_depth_) {
      throw Error(ErrorCode::kLimit, fmt::format("graphs are nested more than {} deep", max_depth_));
    }
    nesting_.push_back(index);
    plan_.blocks[index].graph = &g;
    Block here;
    here.graph = &g;
    for (const Port& p : g.inputs()) here.inputs.push_back(define(*p.value, index));
    std::vector<uint32_t> operands;
    for (const Node& n : g.nodes()) {
      if (n.num_results() > 0 && n.result(0)->is_constant()) continue;
      Step s;
      s.node = &n;
      s.callee = callee(n);
      s.kernel = s.callee ? nullptr : find_kernel(n.op());
      operands.clear();
      for (const Use& u : n.operands()) operands.push_back(place_of(u.value, index));
      s.num_operands = static_cast<uint32_t>(operands.size());
      s.operands = append(operands);
      if (!n.bodies().empty()) {
        s.first_block = static_cast<uint32_t>(plan_.blocks.size());
        plan_.blocks.resize(plan_.blocks.size() + n.bodies().size());
        uint32_t b = s.first_block;
        for (const Body& body : n.bodies()) add_block(*body.graph, b++, depth + 1);
      }
      s.results = static_cast<uint32_t>(plan_.places.size());
      for (const Value& v : n.results()) plan_.places.push_back(v.has_uses() ? define(v, index) : kNowhere);
      here.steps.push_back(s);
    }
    for (const Port& p : g.outputs()) here.outputs.push_back(place_of(p.use->value, index));
    plan_last_uses(here, index);
    nesting_.pop_back();
    plan_.blocks[index] = std::move(here);
  }

  void plan_last_uses(Block& here, uint32_t index) {
    std::unordered_set<uint32_t> captured;
    std::vector<uint32_t> frees;
    auto read = [&](uint32_t place, std::vector<uint32_t>& last_uses) {
      if (place == kNowhere || seen_[place]) return;
      if (owner_[place] == index) {
        seen_[place] = true;
        last_uses.push_back(place);
      } else if (captured.insert(place).second) {
        here.captures.push_back(place);
      }
    };
    for (uint32_t place : here.outputs) read(place, here.leftovers);
    for (size_t i = here.steps.size(); i-- > 0;) {
      Step& s = here.steps[i];
      frees.clear();
      for (uint32_t k = 0; k < s.num_operands; ++k) read(plan_.places[s.operands + k], frees);
      for (size_t b = 0; b < s.node->bodies().size(); ++b) {
        for (uint32_t place : plan_.blocks[s.first_block + b].captures) read(place, frees);
      }
      s.num_frees = static_cast<uint32_t>(frees.size());
      s.frees = append(frees);
    }
    for (uint32_t place : here.inputs) read(place, here.leftovers);
  }

  uint32_t append(std::span<const uint32_t> list) {
    const auto at = static_cast<uint32_t>(plan_.places.size());
    plan_.places.insert(plan_.places.end(), list.begin(), list.end());
    return at;
  }

  const Function* callee(const Node& n) const {
    if (model_.functions().size() < 2 || model_.dialect() == DialectId::kMil) return nullptr;
    const Function* f = model_.find_function(n.op().domain, n.op().name, overload_of(n));
    return f == &model_.main() ? nullptr : f;
  }

  int max_depth_;
  const Model& model_;
  Plan plan_;
  std::unordered_map<const Value*, uint32_t> places_;
  std::vector<uint32_t> owner_;    // by place: its block
  std::vector<bool> seen_;         // by place: a later use is known
  std::vector<uint32_t> nesting_;  // the block being planned and its enclosing blocks
};

std::string name_of(const Node& n) {
  if (!n.name().view().empty()) return fmt::format("{} '{}'", n.op().name, n.name().view());
  if (n.num_results() > 0 && !n.result(0)->name().view().empty())
    return fmt::format("{} that makes '{}'", n.op().name, n.result(0)->name().view());
  return std::string(n.op().name);
}

class Interpreter {
 public:
  explicit Interpreter(const EvalOptions& options, const EvalWatcher* watcher = nullptr) : run_(options), watcher_(watcher) {}

  // Charges the full size of a view that repeats a few elements: its users will need all of them.
  void check_size(const Array& a) const {
    if (!a.is_dense() && !a.is_splat()) run_.account->check(a.size(), element_bytes(a.dtype()));
  }

  std::vector<EvalValue> call(const Graph& graph, std::vector<EvalValue> inputs, const CallSite* site) {
    auto& plan = plans_[&graph];
    if (plan == nullptr) plan = std::make_unique<Plan>(Planner(graph, run_.options.max_depth).take());
    Frame frame{*plan, std::vector<EvalValue>(plan->constants.size()), site};
    return block(frame, 0, std::move(inputs));
  }

 private:
  struct Frame {
    const Plan& plan;
    std::vector<EvalValue> values;  // by place
    const CallSite* site;
  };

  // The value at a place. Constants are loaded on first use.
  EvalValue& at(Frame& f, uint32_t place) const {
    EvalValue& v = f.values[place];
    if (v.absent() && f.plan.constants[place] != nullptr) v = EvalValue(f.plan.constants[place]->constant());
    return v;
  }

  std::vector<EvalValue> block(Frame& f, uint32_t index, std::vector<EvalValue> inputs) {
    if (++run_.depth > run_.options.max_depth) {
      throw Error(ErrorCode::kLimit, fmt::format("graphs and calls are nested more than {} deep", run_.options.max_depth));
    }
    const Block& b = f.plan.blocks[index];
    if (inputs.size() > b.inputs.size()) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the graph '{}' has {} inputs, {} are given", b.graph->name().view(),
                                                           b.inputs.size(), inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) f.values[b.inputs[i]] = std::move(inputs[i]);
    for (size_t i = 0; i < b.inputs.size(); ++i) {
      EvalValue& v = f.values[b.inputs[i]];
      if (v.absent() && b.graph->inputs()[i].default_value != nullptr) v = EvalValue(b.graph->inputs()[i].default_value);
    }
    for (const Step& s : b.steps) step(f, s);
    std::vector<EvalValue> out;
    out.reserve(b.outputs.size());
    for (uint32_t place : b.outputs) out.push_back(place == kNowhere ? EvalValue() : at(f, place));
    for (uint32_t place : b.leftovers) f.values[place] = {};
    --run_.depth;
    return out;
  }

  void step(Frame& f, const Step& s) {
    check_interrupt();
    if (++run_.steps > run_.options.max_steps) {
      throw Error(ErrorCode::kLimit, fmt::format("more than {} nodes ran", run_.options.max_steps));
    }
    const std::vector<uint32_t>& places = f.plan.places;
    std::vector<EvalValue> operands(s.num_operands);
    for (uint32_t i = 0; i < s.num_operands; ++i) {
      if (const uint32_t place = places[s.operands + i]; place != kNowhere) operands[i] = at(f, place);
    }
    // Values that bodies use must stay until the bodies have run. Everything else may go now, so that a
    // kernel that takes its operand owns it.
    auto free_places = [&] {
      for (uint32_t i = 0; i < s.num_frees; ++i) f.values[places[s.frees + i]] = {};
    };
    if (s.node->bodies().empty()) free_places();
    std::vector<EvalValue> results = results_of(f, s, operands);
    if (!s.node->bodies().empty()) free_places();
    if (watcher_ != nullptr) {
      for (size_t i = 0; i < results.size() && i < s.node->num_results(); ++i) (*watcher_)(*s.node->result(i), results[i]);
    }
    for (size_t i = 0; i < results.size() && i < s.node->num_results(); ++i) {
      if (const uint32_t place = places[s.results + i]; place != kNowhere) f.values[place] = std::move(results[i]);
    }
  }

  std::vector<EvalValue> results_of(Frame& f, const Step& s, std::vector<EvalValue>& operands) {
    if (s.callee != nullptr) {
      const CallSite site{s.node, s.callee, f.site};
      return call(s.callee->graph(), std::move(operands), &site);
    }
    if (s.kernel == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the evaluator cannot run {}{}{} (version {})", s.node->op().domain,
                              s.node->op().domain.empty() ? "" : ".", s.node->op().name, s.node->op().since_version));
    }
    BodyRunner bodies;
    if (!s.node->bodies().empty()) {
      bodies = [&](size_t i, std::vector<EvalValue> inputs) {
        return block(f, s.first_block + static_cast<uint32_t>(i), std::move(inputs));
      };
    }
    try {
      Call c(*s.node, operands, run_, f.site, &bodies);
      return apply(s.kernel, c);
    } catch (const Error& e) {
      // The innermost node has already named itself in an error from a body or call.
      if (!e.notes().empty() && e.notes().back().starts_with("in ")) throw;
      throw e.with_note("in " + name_of(*s.node));
    }
  }

  Run run_;
  const EvalWatcher* watcher_;
  std::unordered_map<const Graph*, std::unique_ptr<Plan>> plans_;
};

}  // namespace
}  // namespace eval

namespace {

// The inputs, with a fresh state for each input that is a state; `states` receives these.
std::vector<EvalValue> with_states(const Graph& graph, std::span<const EvalValue> inputs,
                                   std::vector<std::shared_ptr<EvalState>>& states) {
  std::vector<EvalValue> out(inputs.begin(), inputs.end());
  const std::span<const Port> ports = graph.inputs();
  for (size_t i = 0; i < ports.size(); ++i) {
    const Type* t = ports[i].declared != nullptr ? ports[i].declared : ports[i].value->type();
    if (t == nullptr || t->kind() != TypeKind::kState) continue;
    if (out.size() <= i) out.resize(i + 1);
    states.push_back(std::make_shared<EvalState>());
    if (const Array* begin = out[i].array()) {
      states.back()->content = *begin;
    } else {
      const Type* e = t->element();
      if (e == nullptr || !e->is_tensor() || !e->is_static() || !out[i].absent()) {
        throw Error(ErrorCode::kInvalidArgument, fmt::format("state '{}' must be given as a tensor", ports[i].name.view()));
      }
      std::vector<int64_t> shape;
      for (Dim d : e->dims()) shape.push_back(d.value());
      states.back()->content = Array::of(Tensor::full(e->dtype(), std::move(shape), 0));
    }
    out[i] = EvalValue(states.back());
  }
  return out;
}

}  // namespace

std::vector<EvalValue> evaluate(const Graph& graph, std::span<const EvalValue> inputs, const EvalOptions& options) {
  eval::Interpreter interpreter(options);
  std::vector<std::shared_ptr<EvalState>> states;
  std::vector<EvalValue> results = interpreter.call(graph, with_states(graph, inputs, states), nullptr);
  for (size_t i = 0; options.states_too && i < states.size(); ++i) results.emplace_back(states[i]->content);
  for (const EvalValue& v : results) {
    if (const Array* a = v.array()) interpreter.check_size(*a);
  }
  return results;
}

std::vector<EvalValue> evaluate_watched(const Graph& graph, std::span<const EvalValue> inputs, const EvalOptions& options,
                                        const EvalWatcher& watcher) {
  std::vector<std::shared_ptr<EvalState>> states;
  return eval::Interpreter(options, &watcher).call(graph, with_states(graph, inputs, states), nullptr);
}

std::vector<EvalValue> evaluate(const Function& function, std::span<const EvalValue> inputs, const EvalOptions& options) {
  return evaluate(function.graph(), inputs, options);
}

bool can_evaluate(const Op& op) { return eval::find_kernel(op) != nullptr; }

std::optional<std::vector<TensorPtr>> evaluate_node(const Node& node, std::span<const TensorPtr> inputs, uint64_t memory_cap) {
  const eval::Kernel kernel = eval::find_kernel(node.op());
  if (kernel == nullptr || node.has(Trait::kRandom) || !node.bodies().empty()) return std::nullopt;
  try {
    eval::Run run(EvalOptions{.memory_cap = memory_cap});
    run.folding = true;
    std::vector<EvalValue> operands;
    for (const TensorPtr& t : inputs) operands.push_back(t ? EvalValue(t) : EvalValue());
    eval::Call call(node, operands, run);
    std::vector<TensorPtr> out;
    for (const EvalValue& v : eval::apply(kernel, call)) {
      const Array* a = v.array();
      if (a == nullptr && !v.absent()) return std::nullopt;
      if (a != nullptr && !a->is_splat()) run.account->check(a->size(), element_bytes(a->dtype()));
      out.push_back(a ? a->to_tensor() : nullptr);
    }
    return out;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return std::nullopt;
  }
}

}  // namespace sardonyx
