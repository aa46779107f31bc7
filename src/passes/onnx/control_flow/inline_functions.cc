//   y = own::f<alpha=2>(x)      f: r = Elu<alpha=@alpha>(a) ...      =>   y = Elu<alpha=2>(x) ...
//
// Replaces calls of model-local functions by the nodes of the functions, nested calls included, then removes
// functions without calls. On request only: a model with functions is smaller and shows its structure. Exact:
// the same nodes run. The model imports domains that so far only the function imported.
// What stops it: a function that imports a domain at another version than the model, if the operator differs
// between the two; an absent operand that the function returns; more than a million added nodes (nested
// functions may double the count at each level).
#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/graph/call.h"
#include "passes/onnx/control_flow/control_flow.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kMaxAdded = 1'000'000;
constexpr int kMaxDepth = 100;  // levels of nested calls

Function* called_by(const Node& n) { return n.unchecked() ? nullptr : called_function(n); }

class Inliner {
 public:
  explicit Inliner(PassContext& context) : context_(context), model_(context.model) {}

  bool run() {
    for (int depth = 0; depth < kMaxDepth; ++depth) {
      std::vector<Node*> calls;
      for (Graph* g : graphs_in(model_.graph())) {
        for (Node& n : g->nodes()) {
          if (called_by(n) != nullptr) calls.push_back(&n);
        }
      }
      size_t inlined = 0;
      for (Node* n : calls) {
        if (into(*n, *called_by(*n))) ++inlined;
      }
      if (inlined == 0) break;
      context_.log.count("calls", inlined);
      changed_ = true;
    }
    if (changed_) erase_uncalled();
    return changed_;
  }

 private:
  // Whether the nodes of `f` mean the same in the model.
  bool fits(const Node& call, Function& f) {
    if (auto known = fits_.find(&f); known != fits_.end()) return known->second;
    bool ok = true;
    for (Graph* g : graphs_in(f.graph())) {
      for (const Node& n : g->nodes()) {
        // Domains that the model does not import yet are imported later. Calls mean the same in every
        // version.
        const bool is_other = model_.opset_version(n.op().domain) && &model_.op(n.op().domain, n.op().name) != &n.op();
        if (n.unchecked() || (is_other && called_by(n) == nullptr)) ok = false;
      }
    }
    for (const Port& p : f.graph().outputs()) ok &= p.use->value != nullptr;
    if (!ok) context_.log.near_miss(call, "the function uses operators of other versions than the model");
    return fits_[&f] = ok;
  }

  bool into(Node& call, Function& f) {
    if (!fits(call, f) || added_ > kMaxAdded) return false;
    for (size_t i = 0; i < f.graph().inputs().size(); ++i) {
      if (call.input(i) == nullptr && is_graph_result(*f.graph().input(i))) return false;
    }
    added_ += f.graph().num_nodes();
    Graph& body = model_.new_graph();
    clone_graph(f.graph(), body);
    for (Graph* g : graphs_in(body)) {
      for (Node& n : g->nodes()) {
        bind_attrs(n, call, f);
        import(n.op().domain, f);
      }
    }
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      Value& in = *body.input(i);
      if (Value* given = call.input(i)) {
        body.replace_uses(in, *given);
        continue;
      }
      while (in.has_uses()) {
        Use& u = *in.uses().begin();
        u.owner->set_input(u.owner->operand_index(u), nullptr);
      }
    }
    std::vector<Node*> nodes;
    for (Node& n : body.nodes()) nodes.push_back(&n);
    std::vector<Value*> results;
    for (size_t i = 0; i < call.num_results(); ++i) results.push_back(body.output(i));
    body.clear_outputs();
    Rewriter b(*call.graph(), context_);
    b.set_provenance(call.provenance());
    splice(body, call, b);
    for (Node* n : nodes) {
      if (n->provenance() == 0) n->set_provenance(call.provenance());
      type(*n);
    }
    for (size_t i = 0; i < call.num_results(); ++i) {
      Value &old = *call.result(i), &made = *results[i];
      if (made.def() != nullptr && !old.name().empty() && std::find(nodes.begin(), nodes.end(), made.def()) != nodes.end())
        made.set_name(old.name());
      call.graph()->replace_uses(old, made);
    }
    call.graph()->erase(call);
    return true;
  }

  void import(std::string_view domain, const Function& f) {
    if (model_.opset_version(domain)) return;
    for (const OpsetImport& i : f.opset_imports) {
      if ((i.domain == "ai.onnx" ? "" : i.domain) != domain) continue;
      model_.set_opset_version(domain, i.version);
      fits_.clear();  // other functions may import another version of it
    }
  }

  // Replaces references to attributes of the function by their values in the call.
  void bind_attrs(Node& n, const Node& call, const Function& f) {
    AttrInit bound;
    bool any = false;
    for (const NamedAttr& a : n.attrs().items()) {
      const auto* ref = a.value.get<RefAttr>();
      if (ref == nullptr) {
        bound.push_back(a);
        continue;
      }
      any = true;
      const Attr* value = call.attr(ref->name);
      for (const NamedAttr& d : f.default_attributes) {
        if (value == nullptr && d.name == ref->name) value = &d.value;
      }
      if (value != nullptr) bound.emplace_back(a.name, *value).doc = a.doc;
    }
    if (any) n.set_attrs(model_.attrs(std::move(bound)));
  }

  // The body's types held for all calls. Infers them again for this one.
  void type(Node& n) {
    std::vector<const Type*> before;
    for (Value& v : n.results()) before.push_back(v.type());
    if (n.op().known && !n.has(Trait::kConstant)) {
      for (Value& v : n.results()) v.set_type(nullptr);
    }
    try {
      infer_node(n, context_.facts);
    } catch (const Error&) {
      for (size_t i = 0; i < before.size(); ++i) n.result(i)->set_type(before[i]);
      n.set_unchecked(true);
    }
  }

  void erase_uncalled() {
    for (;;) {
      std::set<const Function*> called{&model_.main()};
      for (const auto& f : model_.functions()) {
        for (Graph* g : graphs_in(f->graph())) {
          for (const Node& n : g->nodes()) called.insert(called_by(n));
        }
      }
      std::vector<Function*> uncalled;
      for (const auto& f : model_.functions()) {
        if (!called.contains(f.get())) uncalled.push_back(f.get());
      }
      for (Function* f : uncalled) model_.erase_function(*f);
      if (uncalled.empty()) return;
    }
  }

  PassContext& context_;
  Model& model_;
  std::unordered_map<const Function*, bool> fits_;
  size_t added_ = 0;
  bool changed_ = false;
};

}  // namespace

Pass inline_functions() {
  return Pass::on_model(Numerics::kExact, [](PassContext& context) { return Inliner(context).run(); });
}

}  // namespace sardonyx::onnx
