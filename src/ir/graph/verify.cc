// Checks the invariants of a model: ownership, use lists, order, scopes, signatures, calls, operand types.
//
// One pass over the nodes in order with a table of visible values by id checks order, scope and unique ids at
// once. Nested graphs wait on an explicit stack. Nothing is modified, not even type tables.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/dims/dim_facts.h"
#include "ir/graph/call.h"
#include "ir/graph/file_record.h"
#include "ir/text/spelling.h"
#include "sardonyx/infer.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

std::string call_name(std::string_view domain, std::string_view name) {
  return domain.empty() ? std::string(name) : fmt::format("{}::{}", domain, name);
}

std::string show(const Value& v) {
  if (!v.name().empty()) return fmt::format("'{}'", v.name().view());
  switch (v.kind()) {
    case ValueKind::kInput: return fmt::format("input {}", v.index());
    case ValueKind::kConstant: return "an unnamed constant";
    case ValueKind::kPlaceholder: return "an unnamed placeholder";
    case ValueKind::kResult: break;
  }
  return fmt::format("result {} of {}", v.index(), v.def() != nullptr ? v.def()->op().name : std::string_view("nothing"));
}

std::string show(const Graph& g) {
  const Graph* root = &g;
  std::string path;
  while (root->parent() != nullptr) {
    const Node& n = *root->parent();
    path += fmt::format(", inside {} '{}'", n.op().name, n.name().view());
    if (n.graph() == nullptr) break;
    root = n.graph();
  }
  std::string name = root->function() != nullptr ? root->function()->name : std::string(root->name().view());
  return fmt::format("in graph '{}'{}", name, path);
}

class Verifier {
 public:
  Verifier(const Model& m, const VerifyOptions& options)
      : m_(m), options_(options), visible_(m.value_id_limit(), nullptr), node_seen_(m.node_id_limit(), nullptr) {}

  void run() {
    functions();
    for (const auto& f : m_.functions()) {
      function_ = f.get();
      if (&f->graph().model() != &m_) fail(fmt::format("the graph of function '{}' belongs to another model", f->name));
      if (f->graph().function() != f.get() || f->graph().parent() != nullptr)
        fail(fmt::format("the graph of function '{}' says it is the body of something else", f->name));
      import_checked_.assign(m_.op_id_limit(), 0);
      signature(*f);
      graphs(f->graph());
    }
    calls();
    size_t linked = 0;
    for (size_t n : graph_sizes_) linked += n;
    if (linked != m_.num_nodes()) fail(fmt::format("the model counts {} nodes, its graphs have {}", m_.num_nodes(), linked));
  }

 private:
  [[noreturn]] void fail(std::string message, const Node* n = nullptr) const {
    std::vector<std::string> notes;
    if (n != nullptr && n->graph() != nullptr) {
      notes.push_back(fmt::format("at {}", n->is_boundary() ? "the graph's results" : print(*n)));
      notes.push_back(show(*n->graph()));
    } else if (graph_ != nullptr) {
      notes.push_back(show(*graph_));
    }
    throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
  }

  // --- functions

  static std::string key(std::string_view domain, std::string_view name, std::string_view overload) {
    return fmt::format("{}\n{}\n{}", domain == "ai.onnx" ? "" : domain, name, overload);
  }

  void functions() {
    for (const auto& f : m_.functions()) {
      if (!by_key_.emplace(key(f->domain, f->name, f->overload), f.get()).second)
        fail(fmt::format("two functions are called '{}'", call_name(f->domain, f->name)));
    }
    std::unordered_map<std::string_view, int64_t> versions;
    for (const OpsetImport& i : m_.opset_imports) {
      const auto [at, is_new] = versions.try_emplace(i.domain == "ai.onnx" ? "" : std::string_view(i.domain), i.version);
      if (is_new) continue;
      const std::string_view domain = at->first.empty() ? "ai.onnx" : at->first;
      fail(fmt::format("the opset of domain '{}' is imported twice, as {} and as {}", domain, at->second, i.version));
    }
  }

  void signature(const Function& f) {
    std::unordered_set<std::string_view> attributes;
    for (const std::string& a : f.attributes)
      if (!attributes.insert(a).second) fail(fmt::format("function '{}' declares attribute '{}' twice", f.name, a));
    for (const NamedAttr& a : f.default_attributes)
      if (!attributes.insert(a.name).second) fail(fmt::format("function '{}' declares attribute '{}' twice", f.name, a.name));
    auto unique = [&](std::span<const Port> ports, std::string_view what) {
      std::unordered_map<std::string_view, const Value*> names;
      for (const Port& p : ports) {
        const Value* v = p.use != nullptr ? p.use->value : p.value;
        auto [it, fresh] = names.try_emplace(p.name.view(), v);
        if (!fresh && !p.name.empty() && it->second != v)  // one value may be returned twice under its name
          fail(fmt::format("two {} of function '{}' are called '{}'", what, f.name, p.name.view()));
      }
    };
    unique(f.graph().inputs(), "inputs");
    unique(f.graph().outputs(), "results");
  }

  // Functions must not call each other in a cycle.
  void calls() {
    enum : uint8_t { kNew, kOpen, kDone };
    std::unordered_map<const Function*, uint8_t> state;
    struct Call {
      const Function* f;
      size_t next = 0;
    };
    for (const auto& root : m_.functions()) {
      if (state[root.get()] != kNew) continue;
      std::vector<Call> stack{{root.get()}};
      state[root.get()] = kOpen;
      while (!stack.empty()) {
        Call& top = stack.back();
        const auto& callees = callees_[top.f];
        if (top.next == callees.size()) {
          state[top.f] = kDone;
          stack.pop_back();
          continue;
        }
        const Function* callee = callees[top.next++];
        if (state[callee] == kDone) continue;
        if (state[callee] == kOpen) {
          std::string cycle;
          for (const Call& call : stack)
            if (call.f == callee || !cycle.empty()) cycle += call_name(call.f->domain, call.f->name) + " -> ";
          graph_ = nullptr;
          fail(fmt::format("functions call each other in a cycle: {}{}", cycle, call_name(callee->domain, callee->name)));
        }
        state[callee] = kOpen;
        stack.push_back({callee});
      }
    }
  }

  const Function* callee(const Node& n) {
    const Op& op = n.op();
    if (op.known || by_key_.size() <= 1) return nullptr;
    auto it = by_key_.find(key(op.domain, op.name, overload_of(n)));
    return it == by_key_.end() ? nullptr : it->second;
  }

  // --- graphs

  struct Frame {
    const Graph* graph;
    const Node* at;  // the node whose bodies are being visited
    size_t next_body = 0;
    size_t count = 0;
  };

  void graphs(const Graph& root) {
    std::vector<Frame> stack;
    enter(root);
    stack.push_back({&root, root.first()});
    while (!stack.empty()) {
      Frame& top = stack.back();
      graph_ = top.graph;
      if (top.at == nullptr) {
        leave(*top.graph, top.count);
        stack.pop_back();
        continue;
      }
      const Node& n = *top.at;
      if (top.next_body == 0) node(n, *top.graph);
      if (top.next_body < n.bodies().size()) {
        const Body& body = n.bodies()[top.next_body++];
        if (body.graph == nullptr) fail(fmt::format("nested graph '{}' is missing", body.name.view()), &n);
        if (body.graph->parent() != &n || body.graph->function() != nullptr || &body.graph->model() != &m_)
          fail(fmt::format("nested graph '{}' says it is the body of something else", body.name.view()), &n);
        enter(*body.graph);
        stack.push_back({body.graph, body.graph->first()});
        continue;
      }
      for (const Value& v : n.results()) define(v, &n);
      ++top.count;
      top.at = n.next();
      top.next_body = 0;
    }
  }

  void define(const Value& v, const Node* n) {
    if (v.id() >= visible_.size()) fail(fmt::format("the id of {} is beyond the model's limit", show(v)), n);
    if (visible_[v.id()] != nullptr)
      fail(visible_[v.id()] == &v ? fmt::format("{} is defined twice", show(v))
                                  : fmt::format("{} and {} have the same id", show(v), show(*visible_[v.id()])),
           n);
    visible_[v.id()] = &v;
    const Use* before = nullptr;
    for (const Use& u : v.uses()) {
      if (u.value != &v || u.link == nullptr || *u.link != &u || (before != nullptr && u.link != &before->next))
        fail(fmt::format("the use list of {} is broken", show(v)), n);
      before = &u;
      if (u.owner == nullptr) fail(fmt::format("a use of {} has no owner", show(v)), n);
      if (!u.owner->alive()) fail(fmt::format("an erased {} still uses {}", u.owner->op().name, show(v)), n);
      if (!u.owner->linked() && !u.owner->is_boundary()) continue;  // detached nodes keep their operands
      const Graph* home = v.graph();
      const Graph* at = u.owner->graph();
      while (at != nullptr && at != home) at = at->enclosing();
      if (at != nullptr) ++listed_uses_;  // else the owner is in a graph outside the model, which is not visited
    }
  }

  void enter(const Graph& g) {
    graph_ = &g;
    if (!g.boundary().is_boundary() || g.boundary().graph() != &g) fail("the graph's boundary node is broken");
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Port& p = g.inputs()[i];
      if (p.value == nullptr || p.value->kind() != ValueKind::kInput || p.value->index() != i || p.value->graph() != &g)
        fail(fmt::format("input {} ('{}') has no value of its own", i, p.name.view()));
      if (p.declared != nullptr && p.value->type() != nullptr && contradict(p.declared, p.value->type()))
        fail(fmt::format("input '{}' is declared {}, but its value is {}", p.name.view(), m_.types().to_string(p.declared),
                         m_.types().to_string(p.value->type())));
      define(*p.value, nullptr);
    }
    for (const Value* c : g.constants()) {
      if (c->kind() != ValueKind::kConstant || c->graph() != &g)
        fail(fmt::format("constant {} belongs to another graph", show(*c)));
      const TensorPtr& payload = c->constant();
      if (payload == nullptr) fail(fmt::format("constant {} has no payload", show(*c)));
      if (!payload_fits(*payload, c->type()))
        fail(fmt::format("constant {} is {}, but its payload is {}[{}]", show(*c), m_.types().to_string(c->type()),
                         to_string(payload->dtype()), fmt::join(payload->shape(), ",")));
      define(*c, nullptr);
    }
  }

  // The payload of a list, as of a classifier's labels, holds its elements along a first axis.
  static bool payload_fits(const Tensor& t, const Type* type) {
    if (type == nullptr) return true;
    const bool is_list = type->kind() == TypeKind::kList;
    const Type* element = is_list ? type->element() : type;
    if (element == nullptr || !element->is_tensor() || element->dtype() != t.dtype()) return false;
    std::vector<Dim> dims;
    if (is_list) dims.assign(type->dims().begin(), type->dims().end());
    if (!element->ranked()) return true;
    dims.insert(dims.end(), element->dims().begin(), element->dims().end());
    if (dims.size() != t.rank()) return false;
    for (size_t i = 0; i < t.rank(); ++i)
      if (dims[i].is_int() && dims[i].value() != t.shape()[i]) return false;
    return true;
  }

  void leave(const Graph& g, size_t count) {
    for (const Port& p : g.outputs()) {
      if (p.use == nullptr || p.use->owner != &g.boundary())
        fail(fmt::format("result '{}' is not a use of its graph", p.name.view()));
      if (p.use->value == nullptr) fail(fmt::format("result '{}' has no value", p.name.view()));
      read(*p.use, g.boundary());
      if (p.declared != nullptr && p.use->value->type() != nullptr && contradict(p.declared, p.use->value->type()))
        fail(fmt::format("result '{}' is declared {}, but its value is {}", p.name.view(), m_.types().to_string(p.declared),
                         m_.types().to_string(p.use->value->type())));
    }
    if (count != g.num_nodes()) fail(fmt::format("the graph counts {} nodes, its order has {}", g.num_nodes(), count));
    graph_sizes_.push_back(count);
    bool outermost = g.parent() == nullptr;
    if (outermost && listed_uses_ != read_uses_)
      fail(fmt::format("use lists hold {} uses, the nodes have {}", listed_uses_, read_uses_));
    // The values of this graph go out of scope.
    for (const Port& p : g.inputs()) visible_[p.value->id()] = nullptr;
    for (const Value* c : g.constants()) visible_[c->id()] = nullptr;
    for (const Node& n : g.nodes())
      for (const Value& v : n.results()) visible_[v.id()] = nullptr;
  }

  void read(const Use& u, const Node& n) {
    const Value& v = *u.value;
    ++read_uses_;
    if (v.kind() == ValueKind::kPlaceholder)
      fail(fmt::format("{} is used, but nothing defines it: a placeholder was never filled", show(v)), &n);
    if (v.id() >= visible_.size() || visible_[v.id()] != &v) not_visible(v, n);
    if (u.link == nullptr || *u.link != &u) fail(fmt::format("a use is missing from the use list of {}", show(v)), &n);
  }

  [[noreturn]] void not_visible(const Value& v, const Node& n) const {
    if (const Node* def = v.def(); def != nullptr && !def->alive())
      fail(fmt::format("{} is used, but the node that defines it was erased", show(v)), &n);
    const Graph* home = v.graph();
    if (home == nullptr) fail(fmt::format("{} is used, but the node that defines it is in no graph", show(v)), &n);
    for (const Graph* g = n.graph(); g != nullptr; g = g->enclosing())
      if (g == home) fail(fmt::format("{} is used before it is defined", show(v)), &n);
    fail(fmt::format("{} is used outside its scope: it belongs to another graph", show(v)), &n);
  }

  void node(const Node& n, const Graph& g) {
    if (!n.linked() || n.graph() != &g) fail("a node in the order belongs to another graph", &n);
    if (n.id() >= node_seen_.size()) fail("the id of a node is beyond the model's limit", &n);
    if (node_seen_[n.id()] != nullptr) fail("two nodes have the same id, or one stands in the order twice", &n);
    node_seen_[n.id()] = &n;
    for (size_t i = 0; i < n.num_results(); ++i) {
      const Value& v = *n.result(i);
      if (v.kind() != ValueKind::kResult || v.def() != &n || v.index() != i)
        fail(fmt::format("result {} belongs to another node", i), &n);
    }
    for (const Use& u : n.operands()) {
      if (u.owner != &n) fail("an operand slot belongs to another node", &n);
      if (u.value != nullptr) read(u, n);
    }
    imports(n);
    if (const Function* f = callee(n)) {
      if (n.num_inputs() > f->graph().inputs().size() || n.num_results() > f->graph().outputs().size())
        fail(fmt::format("{} has {} operands and {} results, its function has {} and {}", call_name(f->domain, f->name),
                         n.num_inputs(), n.num_results(), f->graph().inputs().size(), f->graph().outputs().size()),
             &n);
      auto& known = callees_[function_];
      if (std::find(known.begin(), known.end(), f) == known.end()) known.push_back(f);
    }
    if (n.unchecked()) {
      if (!options_.allow_unchecked) fail("the types of this node were not checked, or are wrong", &n);
    } else if (options_.types && n.op().known) {
      types(n);
    }
  }

  void imports(const Node& n) {
    const Op& op = n.op();
    if (m_.dialect() != DialectId::kOnnx || op.dialect != DialectId::kOnnx) return;
    uint8_t& checked = import_checked_[op.id];
    if (checked != 0) return;
    checked = 1;
    if (m_.opset_version(op.domain)) return;
    for (const OpsetImport& i : function_->opset_imports)
      if (i.domain == op.domain || (op.domain.empty() && i.domain == "ai.onnx")) return;
    if (callee(n) != nullptr) return;
    fail(fmt::format("the model imports no opset of domain '{}', which {} belongs to",
                     op.domain.empty() ? "ai.onnx" : op.domain, op.name),
         &n);
  }

  // --- types

  // Whether the types provably differ: a const version of Types::meet.
  bool contradict(const Type* a, const Type* b) const {
    if (a == b || a == nullptr || b == nullptr) return false;
    if (a->kind() != b->kind()) return true;
    if (a->dtype() != b->dtype() && a->dtype() != DType::kUndefined && b->dtype() != DType::kUndefined) return true;
    if (a->ranked() && b->ranked()) {
      if (a->rank() != b->rank()) return true;
      for (size_t i = 0; i < a->rank(); ++i)
        if (!a->dim(i).same(b->dim(i)) && sardonyx::contradict(m_.dims(), a->dim(i), b->dim(i))) return true;
    }
    for (size_t i = 0; i < std::min(a->elements().size(), b->elements().size()); ++i)
      if (contradict(a->elements()[i], b->elements()[i])) return true;
    return false;
  }

  static bool allowed(const TypeSet& set, const Type* t) {
    if (t == nullptr || set.any) return true;
    auto has = [](uint64_t bits, DType d) {
      return d == DType::kUndefined ? bits != 0 : static_cast<int>(d) < 64 && (bits >> static_cast<int>(d) & 1) != 0;
    };
    switch (t->kind()) {
      case TypeKind::kTensor: return has(set.tensor, t->dtype());
      case TypeKind::kSequence:
        return t->element() == nullptr || !t->element()->is_tensor() || has(set.sequence, t->element()->dtype());
      case TypeKind::kOptional: {
        const Type* e = t->element();
        if (e != nullptr && e->kind() == TypeKind::kSequence) e = e->element();
        return e == nullptr || !e->is_tensor() || has(set.optional, e->dtype());
      }
      default: return true;
    }
  }

  void types(const Node& n) {
    const Op& op = n.op();
    auto outside = [](size_t count, int least, int most) {
      return count < static_cast<size_t>(least) || (most >= 0 && count > static_cast<size_t>(most));
    };
    if (outside(n.num_inputs(), op.min_inputs, op.max_inputs) || outside(n.num_results(), op.min_outputs, op.max_outputs))
      fail(fmt::format("{} has {} operands and {} results, which its definition does not allow", op.name, n.num_inputs(),
                       n.num_results()),
           &n);
    // The dtype bound to each type variable; few per op.
    std::pair<std::string_view, DType> bound[8];
    size_t count = 0;
    auto check = [&](const Slot& slot, const Value& v, size_t i, std::string_view what) {
      const Type* t = v.type();
      if (t == nullptr) return;
      if (!allowed(slot.types, t))
        fail(fmt::format("{} {} of {} ('{}') cannot be {}", what, i, op.name, slot.name, m_.types().to_string(t)), &n);
      if (slot.type_var.empty() || !slot.homogeneous || !t->is_tensor() || t->dtype() == DType::kUndefined) return;
      for (size_t k = 0; k < count; ++k) {
        if (bound[k].first != slot.type_var) continue;
        if (bound[k].second != t->dtype())
          fail(fmt::format("{} {} of {} is {}, but others of type {} are {}", what, i, op.name, m_.types().to_string(t),
                           slot.type_var, to_string(bound[k].second)),
               &n);
        return;
      }
      if (count < std::size(bound)) bound[count++] = {slot.type_var, t->dtype()};
    };
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (op.inputs.empty()) break;
      const Slot& slot = op.inputs[std::min(i, op.inputs.size() - 1)];
      if (const Value* v = n.input(i)) {
        check(slot, *v, i, "operand");
      } else if (slot.arity == Arity::kSingle) {
        fail(fmt::format("operand {} of {} ('{}') is absent but required", i, op.name, slot.name), &n);
      }
    }
    for (size_t i = 0; i < n.num_results() && !op.outputs.empty(); ++i)
      check(op.outputs[std::min(i, op.outputs.size() - 1)], *n.result(i), i, "result");
  }

  const Model& m_;
  VerifyOptions options_;
  const Function* function_ = nullptr;
  const Graph* graph_ = nullptr;
  std::vector<const Value*> visible_;  // by id: the value while it is visible
  std::vector<const Node*> node_seen_;
  std::vector<uint8_t> import_checked_;  // by Op::id, in the current function
  std::vector<size_t> graph_sizes_;
  uint64_t listed_uses_ = 0, read_uses_ = 0;
  std::unordered_map<std::string, const Function*> by_key_;
  std::unordered_map<const Function*, std::vector<const Function*>> callees_;
};

// Infers types of a copy from scratch and compares them with the recorded ones.
void compare_shapes(const Model& m) {
  auto copy = clone_model(m);
  std::vector<std::pair<const Graph*, Graph*>> todo;
  std::vector<std::pair<const Node*, Node*>> nodes;
  for (size_t i = 0; i < m.functions().size(); ++i)
    todo.emplace_back(&m.functions()[i]->graph(), &copy->functions()[i]->graph());
  while (!todo.empty()) {
    auto [from, to] = todo.back();
    todo.pop_back();
    Node* made = to->first();
    for (const Node& n : from->nodes()) {
      for (size_t i = 0; i < n.bodies().size(); ++i) todo.emplace_back(n.bodies()[i].graph, made->bodies()[i].graph);
      if (!n.unchecked() && n.op().infer != nullptr && !(n.extra() && n.extra()->payload)) {
        for (Value& v : made->results()) v.set_type(nullptr);
        made->set_unchecked(true);
        nodes.emplace_back(&n, made);
      }
      made = made->next();
    }
  }
  ValueFacts facts;
  std::vector<std::string> messages = infer_model(*copy, facts, /*tolerant=*/true);
  for (auto [n, made] : nodes) {
    if (made->unchecked()) {
      throw Error(ErrorCode::kInvalidModel, "a node does not follow its type rule",
                  {fmt::format("at {}", print(*n)), messages.empty() ? "" : messages.front()});
    }
    for (size_t i = 0; i < n->num_results(); ++i) {
      const Type *recorded = copy->types().import(n->result(i)->type(), m.types()), *found = made->result(i)->type();
      if (recorded != nullptr && found != nullptr && copy->types().meet(recorded, found) == nullptr)
        throw Error(ErrorCode::kInvalidModel,
                    fmt::format("result {} is recorded as {}, its rule says {}", i, copy->types().to_string(recorded),
                                copy->types().to_string(found)),
                    {fmt::format("at {}", print(*n))});
    }
  }
}

}  // namespace

void verify(const Model& m, const VerifyOptions& options) {
  Verifier(m, options).run();
  if (options.shapes) compare_shapes(m);
}

std::vector<std::string> warnings(const Model& m) {
  constexpr size_t kMost = 100;
  std::vector<std::string> out;
  size_t more = 0;
  auto warn = [&](std::string text) {
    if (out.size() < kMost) {
      out.push_back(std::move(text));
    } else {
      ++more;
    }
  };
  for (const std::string& repair : m.file_record().model.repairs) warn(repair);
  std::vector<const Graph*> todo;
  for (const auto& f : m.functions()) todo.push_back(&f->graph());
  std::unordered_set<std::string> reported;
  for (size_t k = 0; k < todo.size(); ++k) {
    std::unordered_set<std::string_view> names;
    auto name = [&](const Value& v) {
      if (!v.name().empty() && !names.insert(v.name().view()).second)
        warn(fmt::format("two values are called '{}' {}: a writer renames one of them", v.name().view(), show(*todo[k])));
    };
    for (const Port& p : todo[k]->inputs()) name(*p.value);
    for (const Value* c : todo[k]->constants()) name(*c);
    for (const Node& n : todo[k]->nodes()) {
      for (const Value& v : n.results()) name(v);
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
      const Op& op = n.op();
      if (n.unchecked()) warn(fmt::format("not checked, or ill-typed: {}", print(n)));
      if (!op.known || op.dialect != DialectId::kOnnx) continue;
      for (const NamedAttr& a : n.attrs().items()) {
        const auto unknown = unknown_attr(op, a.name);
        if (!unknown) continue;
        std::string text = unknown->text;
        if (!unknown->meant.empty()) text += fmt::format(": did you mean '{}'?", unknown->meant);
        if (reported.insert(text).second) warn(text + fmt::format(" (first at {})", print(n)));
      }
      if (op.deprecated) {
        std::string text = fmt::format("{}-{} is deprecated", op.name, op.since_version);
        if (reported.insert(text).second) warn(text);
      }
    }
  }
  if (more > 0) out.push_back(fmt::format("... and {} more", more));
  return out;
}

}  // namespace sardonyx
