#include "sardonyx/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/call.h"
#include "ir/graph/file_record.h"
#include "sardonyx/error.h"
#include "support/system/interrupt.h"

namespace sardonyx {

// A call of a local function, which resolves references to attributes in its body.
struct CallFrame {
  const Node* call = nullptr;  // null: the body is typed independently of any call
  const Function* function = nullptr;
  const CallFrame* outer = nullptr;  // the frame that contains the call
  size_t depth = 0;
};

namespace {

constexpr size_t kMaxElements = 64;
constexpr size_t kMaxCallDepth = 200;

// Thrown by a rule that needs an attribute whose value only a call provides. Not an error: the results stay
// unknown.
struct UnknownAttribute {};

// The element type of a tensor, or of the contents of a sequence or optional, and the kind of wrapper.
struct Wrapped {
  enum Kind : uint8_t { kUnknown, kTensor, kSequence, kOptional, kOther } kind = kUnknown;
  DType dtype = DType::kUndefined;
  friend bool operator==(Wrapped, Wrapped) = default;
};

Wrapped wrapped(const Type* t) {
  if (t == nullptr) return {};
  switch (t->kind()) {
    case TypeKind::kTensor: return {Wrapped::kTensor, t->dtype()};
    case TypeKind::kSequence: {
      const Type* e = t->element();
      if (e == nullptr) return {Wrapped::kSequence, DType::kUndefined};
      return e->is_tensor() ? Wrapped{Wrapped::kSequence, e->dtype()} : Wrapped{Wrapped::kOther, DType::kUndefined};
    }
    case TypeKind::kOptional: {
      const Type* e = t->element();
      if (e != nullptr && e->kind() == TypeKind::kSequence) e = e->element();
      return {Wrapped::kOptional, e != nullptr && e->is_tensor() ? e->dtype() : DType::kUndefined};
    }
    default: return {Wrapped::kOther, DType::kUndefined};
  }
}

bool allowed(const TypeSet& set, Wrapped w) {
  uint64_t bits = 0;
  switch (w.kind) {
    case Wrapped::kUnknown: return true;
    case Wrapped::kTensor: bits = set.tensor; break;
    case Wrapped::kSequence: bits = set.sequence; break;
    case Wrapped::kOptional: bits = set.optional; break;
    case Wrapped::kOther: return set.any;
  }
  if (set.any) return true;
  if (w.dtype == DType::kUndefined) return bits != 0;
  return static_cast<int>(w.dtype) < 64 && (bits >> static_cast<int>(w.dtype) & 1) != 0;
}

std::string list_of(const TypeSet& set) {
  std::string text;
  const auto add = [&](uint64_t bits, std::string_view before, std::string_view after) {
    for (int i = 0; i < 64; ++i) {
      if ((bits >> i & 1) == 0 || to_string(static_cast<DType>(i)).empty()) continue;
      if (!text.empty()) text += ' ';
      text += fmt::format("{}{}{}", before, to_string(static_cast<DType>(i)), after);
    }
  };
  add(set.tensor, "", "");
  add(set.sequence, "seq(", ")");
  add(set.optional, "optional(", ")");
  return text;
}

const Slot& slot_at(std::span<const Slot> slots, size_t i) { return slots[std::min(i, slots.size() - 1)]; }

// The types bound to an operator's type variables at one node.
class Bindings {
 public:
  struct Entry {
    std::string_view variable;
    Wrapped what;
    size_t operand;
  };
  const Entry* find(std::string_view variable) const {
    for (size_t i = 0; i < count_; ++i) {
      if (entries_[i].variable == variable) return &entries_[i];
    }
    return nullptr;
  }
  void add(std::string_view variable, Wrapped what, size_t operand) {
    if (count_ < std::size(entries_)) entries_[count_++] = {variable, what, operand};
  }

 private:
  Entry entries_[16];
  size_t count_ = 0;
};

void check_counts(InferContext& c) {
  const Op& op = c.op();
  const Node& n = c.node();
  const auto outside = [](size_t count, int least, int most) {
    return count < static_cast<size_t>(least) || (most >= 0 && count > static_cast<size_t>(most));
  };
  const auto bounds = [](int least, int most) {
    if (most < 0) return fmt::format("at least {}", least);
    return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  };
  if (outside(n.num_inputs(), op.min_inputs, op.max_inputs)) {
    c.fail(fmt::format("takes {} operands, not {}", bounds(op.min_inputs, op.max_inputs), n.num_inputs()));
  }
  if (outside(n.num_results(), op.min_outputs, op.max_outputs)) {
    c.fail(fmt::format("has {} results, not {}", bounds(op.min_outputs, op.max_outputs), n.num_results()));
  }
}

bool kind_fits(const Attr& a, AttrKind kind) {
  if (a.get<RefAttr>() || a.get<OpaqueAttr>()) return true;
  // An empty list has no element that shows its kind.
  const auto empty_list = [&] {
    const auto* i = a.get<Attr::Ints>();
    const auto* f = a.get<Attr::Floats>();
    const auto* s = a.get<Attr::Strings>();
    return (i && i->empty()) || (f && f->empty()) || (s && s->empty());
  };
  switch (kind) {
    case AttrKind::kInt: return a.get<int64_t>() || a.get<bool>();
    case AttrKind::kFloat: return a.get<double>();
    case AttrKind::kString: return a.get<std::string>();
    case AttrKind::kTensor: return a.get<TensorPtr>();
    case AttrKind::kInts: return a.get<Attr::Ints>() || empty_list();
    case AttrKind::kFloats: return a.get<Attr::Floats>() || empty_list();
    case AttrKind::kStrings: return a.get<Attr::Strings>() || empty_list();
    default: return true;
  }
}

std::string_view describe(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return "an integer";
    case AttrKind::kFloat: return "a float";
    case AttrKind::kString: return "a string";
    case AttrKind::kTensor: return "a tensor";
    case AttrKind::kInts: return "a list of integers";
    case AttrKind::kFloats: return "a list of floats";
    case AttrKind::kStrings: return "a list of strings";
    default: return "of another kind";
  }
}

void check_attrs(InferContext& c) {
  const Node& n = c.node();
  if (n.has(Trait::kConstant) && n.num_results() == 1 && n.result()->is_constant())
    return;  // the payload replaces the attribute
  for (const AttrSpec& spec : c.op().attrs) {
    if (!spec.required && n.attrs().empty()) continue;
    const Attr* a = n.attr(spec.name);
    if (a == nullptr) {
      if (!spec.required) continue;
      const bool is_body = spec.kind == AttrKind::kGraph || spec.kind == AttrKind::kGraphs;
      if (is_body && n.body(spec.name) != nullptr) continue;
      c.fail(fmt::format("needs the attribute '{}'", spec.name));
    } else if (!kind_fits(*a, spec.kind)) {
      c.fail(fmt::format("attribute '{}' must be {}, not {}", spec.name, describe(spec.kind), to_string(*a, c.types())));
    }
  }
}

void check_operands(InferContext& c, Bindings& bindings) {
  const Op& op = c.op();
  const Node& n = c.node();
  if (op.inputs.empty()) return;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    const Slot& slot = slot_at(op.inputs, i);
    const Value* v = n.input(i);
    if (v == nullptr) {
      if (slot.arity == Arity::kSingle) c.fail(fmt::format("operand {} ({}) is required", i, slot.name));
      continue;
    }
    const Wrapped w = wrapped(v->type());
    if (w.kind == Wrapped::kUnknown) continue;
    if (!allowed(slot.types, w)) {
      c.fail(fmt::format("operand {} ({}) is {}", i, slot.name, c.show(v->type())),
             {"it must be one of: " + list_of(slot.types)});
    }
    if (slot.type_var.empty() || (slot.arity == Arity::kVariadic && !slot.homogeneous)) continue;
    if (const auto* bound = bindings.find(slot.type_var)) {
      const bool unsure = w.dtype == DType::kUndefined || bound->what.dtype == DType::kUndefined;
      if (!(bound->what == w) && !unsure && w.kind != Wrapped::kOther) {
        c.fail(fmt::format("operands {} ({}) and {} ({}) must have the same element type", bound->operand,
                           c.show(c.input(bound->operand)), i, c.show(v->type())));
      }
    } else {
      bindings.add(slot.type_var, w, i);
    }
  }
}

// Sets element types that follow from the slots, for results that the rule left untyped.
void complete_results(InferContext& c, const Bindings& bindings) {
  const Op& op = c.op();
  if (op.outputs.empty()) return;
  for (size_t i = 0; i < c.num_results(); ++i) {
    if (c.node().result(i)->type() != nullptr) continue;
    const Slot& slot = slot_at(op.outputs, i);
    if (slot.types.any || slot.types.sequence != 0 || slot.types.optional != 0) {
      // Identity and similar operators: the bound variable decides whether the result is a tensor.
      const auto* bound = slot.type_var.empty() ? nullptr : bindings.find(slot.type_var);
      if (bound != nullptr && bound->what.kind == Wrapped::kTensor) c.set_unranked(i, bound->what.dtype);
      continue;
    }
    if (slot.arity == Arity::kVariadic && !slot.homogeneous) continue;
    if (!slot.type_var.empty()) {
      if (const auto* bound = bindings.find(slot.type_var)) {
        if (bound->what.kind == Wrapped::kTensor) c.set_unranked(i, bound->what.dtype);
        continue;
      }
    }
    const uint64_t bits = slot.types.tensor;
    if (bits != 0 && (bits & (bits - 1)) == 0) {
      int number = 0;
      while ((bits >> number & 1) == 0) ++number;
      c.set_unranked(i, static_cast<DType>(number));
    }
  }
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Facts and contexts

const SymbolicValue* ValueFacts::find(const Value& v) const {
  const auto at = facts_.find(&v);
  return at == facts_.end() ? nullptr : &at->second;
}

void ValueFacts::set(const Value& v, SymbolicValue s) { facts_.insert_or_assign(&v, std::move(s)); }

void ValueFacts::erase(const Value& v) {
  if (!facts_.empty()) facts_.erase(&v);
}

std::optional<SymbolicValue> InferContext::value(size_t i) const {
  const Value* v = node_.input(i);
  if (v == nullptr) return std::nullopt;
  if (const TensorPtr& payload = v->constant()) {
    if (payload->rank() > 1 || payload->size() > static_cast<int64_t>(kMaxElements)) return std::nullopt;
    const auto ints = payload->to_ints(kMaxElements);
    if (!ints) return std::nullopt;
    SymbolicValue s;
    s.scalar = payload->rank() == 0;
    constexpr int64_t kBound = int64_t{1} << 60;
    for (int64_t x : *ints) s.elements.push_back(x > -kBound && x < kBound ? Dim::of(x) : dims().fresh_unknown());
    return s;
  }
  if (const SymbolicValue* s = facts_.find(*v)) return *s;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> InferContext::ints(size_t i) const {
  const Value* v = node_.input(i);
  if (v == nullptr) return std::nullopt;
  if (const TensorPtr& payload = v->constant()) return payload->to_ints();
  const SymbolicValue* s = facts_.find(*v);
  if (s == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (Dim d : s->elements) {
    if (!d.is_int()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

const Attr* InferContext::attr(std::string_view name) const {
  const Attr* a = node_.attr(name);
  for (const CallFrame* frame = facts_.frame_; a != nullptr;) {
    const RefAttr* ref = a->get<RefAttr>();
    if (ref == nullptr) return a;
    if (frame == nullptr || frame->call == nullptr) throw UnknownAttribute();
    a = frame->call->attr(ref->name);
    if (a == nullptr) {
      for (const NamedAttr& d : frame->function->default_attributes) {
        if (d.name == ref->name) return &d.value;
      }
    }
    frame = frame->outer;
  }
  return a;
}

namespace {

const AttrSpec* spec_with_default(const Op& op, std::string_view name) {
  for (const AttrSpec& s : op.attrs) {
    if (s.name == name) return s.has_default ? &s : nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<int64_t> InferContext::attr_int(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* i = a->get<int64_t>()) return *i;
    if (const auto* b = a->get<bool>()) return *b ? 1 : 0;
    fail(fmt::format("attribute '{}' must be an integer, not {}", name, to_string(*a, types())));
  }
  const AttrSpec* s = spec_with_default(op(), name);
  return s ? std::optional(s->default_int) : std::nullopt;
}

std::optional<double> InferContext::attr_float(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* f = a->get<double>()) return *f;
    fail(fmt::format("attribute '{}' must be a float, not {}", name, to_string(*a, types())));
  }
  const AttrSpec* s = spec_with_default(op(), name);
  return s ? std::optional(s->default_float) : std::nullopt;
}

std::optional<std::string> InferContext::attr_string(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* text = a->get<std::string>()) return *text;
    fail(fmt::format("attribute '{}' must be a string, not {}", name, to_string(*a, types())));
  }
  const AttrSpec* s = spec_with_default(op(), name);
  return s ? std::optional(std::string(s->default_string)) : std::nullopt;
}

std::optional<std::vector<int64_t>> InferContext::attr_ints(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* list = a->get<Attr::Ints>()) return *list;
    if (const auto* none = a->get<Attr::Floats>(); none && none->empty()) return std::vector<int64_t>();
    if (const auto* none = a->get<Attr::Strings>(); none && none->empty()) return std::vector<int64_t>();
    fail(fmt::format("attribute '{}' must be a list of integers, not {}", name, to_string(*a, types())));
  }
  const AttrSpec* s = spec_with_default(op(), name);
  return s ? std::optional(std::vector<int64_t>(s->default_ints.begin(), s->default_ints.end())) : std::nullopt;
}

void InferContext::set_value(size_t i, SymbolicValue v) {
  if (i >= num_results() || v.elements.size() > kMaxElements) return;
  facts_.set(*node_.result(i), std::move(v));
}

void InferContext::fail(std::string message, std::vector<std::string> notes) const {
  std::string operands;
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (i != 0) operands += ", ";
    operands += has_input(i) ? show(input(i)) : "_";
    if (i == 15 && num_inputs() > 17) {
      operands += fmt::format(", ... ({} in all)", num_inputs());
      break;
    }
  }
  notes.push_back(fmt::format("at {}-{} '{}' ({})", op().name, op().since_version, node_.name().view(), operands));
  throw Error(ErrorCode::kInvalidModel, fmt::format("{}: {}", op().name, message), std::move(notes));
}

// ---------------------------------------------------------------------------------------------------------------------
// Bodies, calls and models

// Caches result types: most nodes of a large graph resemble earlier ones. If the operator, attributes,
// operand types (without unknown sizes) and constants are the same, the single result has the same type and
// no rule runs. ONNX's rules read nothing else of a node.
class Alike {
 public:
  // The type of n's result; null if no similar node is cached.
  const Type* find(const Node& n, const ValueFacts& facts) {
    cacheable_ = describe(n);
    if (!cacheable_) return nullptr;
    const Entry& e = table_[slot_];
    if (e.result == nullptr || e.node != current_) return nullptr;
    const Type* has = n.result()->type();
    if ((has != nullptr && has != e.result) || knows_values(n, facts)) return nullptr;
    return e.result;
  }
  // Whether remember() may follow. Not for nodes whose rule examines other nodes.
  bool is_cacheable() const { return cacheable_; }
  // Call after find(n) failed and n's result, untyped then, got its type.
  void remember(const Node& n, const ValueFacts& facts) {
    const Type* t = n.result()->type();
    if (t == nullptr || !is_plain(*t) || facts.find(*n.result()) != nullptr || knows_values(n, facts)) return;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (n.input(i) != nullptr && !is_plain(*current_.types[i])) return;
    }
    table_[slot_] = {current_, t};
  }

 private:
  static constexpr size_t kOperands = 3;
  static constexpr int kBits = 8;
  struct Described {
    const Op* op = nullptr;
    const Attrs* attrs = nullptr;
    size_t operands = 0;
    std::array<const Type*, kOperands> types{};        // null: absent
    std::array<const Tensor*, kOperands> constants{};  // null: none
    bool operator==(const Described&) const = default;
  };
  struct Entry {
    Described node;
    const Type* result = nullptr;
  };

  static bool is_plain(const Type& t) { return t.is_tensor() && t.dtype() != DType::kUndefined && t.is_static(); }

  bool describe(const Node& n) {
    if (!n.op().known || n.op().dialect != DialectId::kOnnx || n.num_results() != 1 || n.num_inputs() == 0 ||
        n.num_inputs() > kOperands || n.has(Trait::kSubgraphs) || !n.bodies().empty())
      return false;
    current_ = {.op = &n.op(), .attrs = &n.attrs(), .operands = n.num_inputs(), .types = {}, .constants = {}};
    uint64_t hash = reinterpret_cast<uintptr_t>(current_.op) ^ reinterpret_cast<uintptr_t>(current_.attrs) << 8;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const Value* v = n.input(i);
      if (v == nullptr) continue;
      if (v->type() == nullptr) return false;
      current_.types[i] = v->type();
      if (v->is_constant()) current_.constants[i] = v->constant().get();
      hash = (hash ^ reinterpret_cast<uintptr_t>(current_.types[i]) ^ reinterpret_cast<uintptr_t>(current_.constants[i]) << 4) *
             0x9e3779b97f4a7c15;
    }
    slot_ = hash >> (64 - kBits);
    if (table_.empty()) table_.resize(size_t{1} << kBits);
    return true;
  }

  // Whether elements of an operand are known: then the result depends on more than types.
  static bool knows_values(const Node& n, const ValueFacts& facts) {
    for (const Use& u : n.operands()) {
      if (u.value != nullptr && facts.find(*u.value) != nullptr) return true;
    }
    return false;
  }

  std::vector<Entry> table_;  // by hash; a collision evicts the older entry
  Described current_;
  size_t slot_ = 0;
  bool cacheable_ = false;
};

// The state of typing many nodes: collects errors or rethrows them.
class InferRun {
 public:
  InferRun(ValueFacts& facts, bool tolerant) : facts_(facts), tolerant_(tolerant), outer_(facts.run_) { facts.run_ = this; }
  ~InferRun() { facts_.run_ = outer_; }
  InferRun(const InferRun&) = delete;
  InferRun& operator=(const InferRun&) = delete;

  static void body(Graph& g, std::span<const Type* const> inputs, ValueFacts& facts);
  static void call(Node& n, Function& f, ValueFacts& facts);
  static void forget(Graph& g, ValueFacts& facts);
  static void declare(Graph& g);
  void report(Node& n, const Error& e);
  // What the file says about a node and what was corrected.
  void note(Node& n, std::string_view text);
  static void graph(Graph& g, ValueFacts& facts, bool only_unchecked);

  std::vector<std::string> messages;
  std::vector<const Function*> typed_functions;
  // The names of sizes of the model's inputs.
  const std::unordered_set<std::string>& input_sizes(Model& m);

 private:
  ValueFacts& facts_;
  bool tolerant_;
  InferRun* outer_;
  std::unordered_set<const Node*> seen_;
  std::unordered_set<const Graph*> bodies_;
  Alike alike_;
  std::optional<std::unordered_set<std::string>> input_sizes_;
};

static std::unordered_set<std::string> names_of_input_sizes(Model& m) {
  std::unordered_set<std::string> names;
  for (const Port& p : m.graph().inputs()) {
    if (p.declared == nullptr || !p.declared->is_tensor() || !p.declared->ranked()) continue;
    for (Dim d : p.declared->dims()) {
      if (d.is_expr() && !m.dims().symbol_name(d).empty()) names.emplace(m.dims().symbol_name(d));
    }
  }
  return names;
}

const std::unordered_set<std::string>& InferRun::input_sizes(Model& m) {
  if (!input_sizes_) input_sizes_ = names_of_input_sizes(m);
  return *input_sizes_;
}

void InferRun::report(Node& n, const Error& e) {
  n.set_unchecked(true);
  if (!tolerant_) throw e;
  // bodies may be typed several times
  if (seen_.insert(&n).second) messages.push_back(e.what());
}

void InferRun::note(Node& n, std::string_view text) {
  if (!seen_.insert(&n).second) return;
  n.model().edit_file_record().model.repairs.push_back(
      fmt::format("{}: {}; the declaration is ignored\n  at {} '{}'", n.op().name, text, n.op().name, n.name().view()));
}

// Applies the types that the file declares: they may be more precise than inferred ones.
void InferRun::declare(Graph& g) {
  Types& types = g.model().types();
  const auto meet = [&](Value& v, const Type* declared) {
    if (declared == nullptr) return;
    if (v.type() == nullptr) {
      v.set_type(types.freshen(declared));
    } else if (v.type() != declared) {
      if (const Type* both = types.meet(v.type(), declared)) v.set_type(types.freshen(both));
    }
  };
  for (const Port& p : g.inputs()) meet(*p.value, p.declared);
  for (const Port& p : g.outputs()) {
    if (Value* v = p.use->value; v != nullptr && v->graph() == &g && v->kind() == ValueKind::kResult) meet(*v, p.declared);
  }
  for (const auto& [v, info] : g.value_info) meet(*const_cast<Value*>(v), info.declared);
}

// Drops inferred types: results of operators with a rule, in this graph and its nested graphs.
void InferRun::forget(Graph& g, ValueFacts& facts) {
  std::vector<Graph*> stack{&g};
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    for (Node& n : at.nodes()) {
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
      const bool derived = n.op().infer != nullptr && !n.has(Trait::kConstant);
      if (!derived && n.op().known) continue;
      if (!derived && called_function(n) == nullptr) continue;
      n.set_unchecked(true);
      for (Value& v : n.results()) {
        v.set_type(nullptr);
        facts.erase(v);
      }
    }
  }
}

void InferRun::graph(Graph& g, ValueFacts& facts, bool only_unchecked) {
  InferRun* run = facts.run_;
  for (Node& n : g.nodes()) {
    check_interrupt();
    if (only_unchecked && !n.unchecked()) continue;
    if (run == nullptr) {
      infer_node(n, facts);
      continue;
    }
    const bool plain = facts.frame_ == nullptr;  // a call may define attributes
    if (const Type* t = plain ? run->alike_.find(n, facts) : nullptr) {
      n.result()->set_type(t);
      n.set_unchecked(false);
      continue;
    }
    const bool is_new = plain && run->alike_.is_cacheable() && n.result()->type() == nullptr;
    try {
      infer_node(n, facts);
      if (is_new) run->alike_.remember(n, facts);
    } catch (const Error& e) {
      run->report(n, e);
    }
  }
}

namespace {

bool is_shape_only(const Type& a, const Type& b) { return a.is_tensor() && b.is_tensor() && a.dtype() == b.dtype(); }

// Replaces what the file declares for v by t if the shapes contradict each other. Returns whether it did.
// onnxruntime warns about such a file and goes on: the operands decide what a node computes.
bool correct_declared(Value& v, const Type* t) {
  Graph* g = v.graph();
  if (g == nullptr || g->model().dialect() != DialectId::kOnnx) return false;
  Types& types = g->model().types();
  bool found = false;
  const auto correct = [&](const Type*& declared) {
    if (declared == nullptr || !is_shape_only(*declared, *t) || types.meet(declared, t) != nullptr) return;
    declared = t;
    found = true;
  };
  if (g->value_info.contains(&v)) correct(g->edit_value_info(v).declared);
  for (const Use& u : v.uses()) {
    if (u.owner != &g->boundary()) continue;
    for (size_t k = 0; k < g->outputs().size(); ++k) {
      if (g->outputs()[k].use == &u) correct(g->output_port(k).declared);
    }
  }
  return found;
}

// `type`, with t's sizes where these follow from named sizes of the model's inputs and `type` has a name that
// no input has. Some exporters name each unknown size anew, so that such names tell nothing.
const Type* in_terms_of_inputs(Model& m, InferRun* run, const Type* type, const Type* t) {
  if (type == t || !type->is_tensor() || !type->ranked() || !t->is_tensor() || !t->ranked() || type->rank() != t->rank())
    return type;
  std::optional<std::unordered_set<std::string>> found_here;
  const auto is_given = [&](std::string_view symbol) {
    if (run != nullptr) return run->input_sizes(m).contains(std::string(symbol));
    if (!found_here) found_here = names_of_input_sizes(m);
    return found_here->contains(std::string(symbol));
  };
  std::vector<Dim> dims;
  for (size_t i = 0; i < t->rank(); ++i) {
    const Dim has = type->dim(i), found = t->dim(i);
    if (!has.is_expr() || !found.is_expr() || has == found) continue;
    const std::string_view name = m.dims().symbol_name(has);
    if (name.empty() || is_given(name) || !std::ranges::all_of(m.dims().symbols(found), is_given)) continue;
    if (dims.empty()) dims.assign(type->dims().begin(), type->dims().end());
    dims[i] = found;
  }
  return dims.empty() ? type : m.types().with_dims(type, dims);
}

}  // namespace

void InferContext::set(size_t i, const Type* t) {
  if (i >= num_results() || t == nullptr) return;
  Value& v = *node_.result(i);
  if (v.type() == t) return;
  for (Dim d : t->dims()) {
    if (d.is_int() && d.value() < 0) fail(fmt::format("result {} would be {}", i, show(t)));
  }
  if (v.type() == nullptr) {
    v.set_type(types().freshen(t));
    return;
  }
  const Type* both = types().meet(v.type(), t);
  if (both == nullptr) {
    const std::string text = fmt::format("result {} is {}, but was declared as {}", i, show(t), show(v.type()));
    const bool is_retyped = facts_.run_ == nullptr;  // by a pass: the operands are known better than before
    if (!is_shape_only(*v.type(), *t) || (!correct_declared(v, t) && !is_retyped)) fail(text);
    if (!is_retyped) facts_.run_->note(node_, text);
    both = t;
  }
  both = in_terms_of_inputs(node_.graph()->model(), facts_.run_, both, t);
  v.set_type(types().freshen(both));
}

void InferRun::body(Graph& g, std::span<const Type* const> inputs, ValueFacts& facts) {
  bool same = true;
  for (size_t i = 0; i < inputs.size() && i < g.inputs().size(); ++i) {
    Value& v = *g.input(i);
    if (inputs[i] == nullptr || v.type() == inputs[i]) continue;
    same = false;
    v.set_type(inputs[i]);
  }
  if (!same) forget(g, facts);
  declare(g);
  // Facts about values are not stored in the model, so the first time all nodes are visited.
  const bool first = facts.run_ != nullptr && facts.run_->bodies_.insert(&g).second;
  graph(g, facts, /*only_unchecked=*/!first);
}

void InferContext::infer_body(Graph& body, std::span<const Type* const> inputs) const { InferRun::body(body, inputs, facts_); }

// A local function has one body and any number of calls. The body is typed for this call and the result types
// are copied to the call. The body's values keep only what holds for every call.
void InferRun::call(Node& n, Function& f, ValueFacts& facts) {
  const size_t depth = facts.frame_ ? facts.frame_->depth + 1 : 0;
  if (depth > kMaxCallDepth)
    throw Error(ErrorCode::kInvalidModel, fmt::format("calls of function '{}' nest too deeply", f.name));
  Graph& g = f.graph();
  InferContext c(n, facts, 0);
  if (n.num_inputs() > g.inputs().size() || n.num_results() > g.outputs().size()) {
    c.fail(fmt::format("function '{}' has {} inputs and {} results", f.name, g.inputs().size(), g.outputs().size()));
  }
  for (const CallFrame* at = facts.frame_; at != nullptr; at = at->outer) {
    if (at->function == &f) c.fail(fmt::format("function '{}' calls itself", f.name));
  }

  bool again = false;
  std::vector<std::pair<Value*, const Type*>> before;
  std::unordered_map<const Value*, SymbolicValue> known_before;
  if (facts.run_ != nullptr) {
    auto& typed = facts.run_->typed_functions;
    again = std::find(typed.begin(), typed.end(), &f) != typed.end();
    if (!again) typed.push_back(&f);
  }
  std::vector<Graph*> stack{&g};
  while (again && !stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    const auto remember = [&](Value& v) {
      before.emplace_back(&v, v.type());
      if (const SymbolicValue* known = facts.find(v)) known_before.emplace(&v, *known);
    };
    for (const Port& p : at.inputs()) remember(*p.value);
    for (Node& inner : at.nodes()) {
      for (const Body& b : inner.bodies()) stack.push_back(b.graph);
      for (Value& v : inner.results()) remember(v);
    }
  }

  const CallFrame frame{&n, &f, facts.frame_, depth};
  struct Restore {
    ValueFacts& facts;
    const CallFrame*& slot;
    const CallFrame* old;
    ~Restore() { slot = old; }
  } restore{facts, facts.frame_, facts.frame_};
  facts.frame_ = &frame;
  forget(g, facts);
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    Value& v = *g.input(i);
    const Type* t = n.input(i) ? n.input(i)->type() : nullptr;
    v.set_type(t);
    facts.erase(v);
    restore.slot = restore.old;
    if (auto known = c.value(i)) facts.set(v, std::move(*known));
    restore.slot = &frame;
  }
  declare(g);
  graph(g, facts, /*only_unchecked=*/false);
  restore.slot = restore.old;
  for (size_t i = 0; i < n.num_results(); ++i) {
    const Value* out = g.output(i);
    if (out == nullptr) continue;
    c.set(i, out->type());
    if (const SymbolicValue* known = facts.find(*out)) c.set_value(i, *known);
  }
  Types& types = n.model().types();
  for (const auto& [v, old] : before) {
    v->set_type(types.join(v->type(), old));
    const SymbolicValue* known = facts.find(*v);
    if (known == nullptr) continue;
    const auto earlier = known_before.find(v);
    if (earlier == known_before.end() || earlier->second.scalar != known->scalar || earlier->second.elements != known->elements)
      facts.erase(*v);
  }
}

// Applies the rule of an operator outside the tables: its results are used, its errors ignored.
static void infer_foreign(InferContext& c) {
  try {
    c.op().infer(c);
  } catch (const UnknownAttribute&) {
  } catch (const Error&) {}
}

void infer_node(Node& n, ValueFacts& facts) {
  const Op& op = n.op();
  InferContext c(n, facts, op.since_version);
  if (!op.known) {
    if (Function* f = called_function(n)) {
      InferRun::call(n, *f, facts);
    } else if (op.infer != nullptr) {
      infer_foreign(c);
    }
    n.set_unchecked(false);
    return;
  }
  check_counts(c);
  check_attrs(c);
  Bindings bindings;
  check_operands(c, bindings);
  if (op.infer != nullptr) {
    try {
      op.infer(c);
    } catch (const UnknownAttribute&) {
      // Only a call would provide the attribute: the results stay unknown.
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      c.fail(e.message(), e.notes());  // overflow in sizes
    }
  }
  complete_results(c, bindings);
  n.set_unchecked(false);
}

std::vector<std::string> infer_model(Model& m, ValueFacts& facts, bool tolerant) {
  InferRun run(facts, tolerant);
  Graph& main = m.graph();
  InferRun::declare(main);
  InferRun::graph(main, facts, /*only_unchecked=*/false);
  for (const auto& f : m.functions()) {
    if (f.get() == &m.main()) continue;
    if (std::find(run.typed_functions.begin(), run.typed_functions.end(), f.get()) != run.typed_functions.end()) continue;
    InferRun::declare(f->graph());
    InferRun::graph(f->graph(), facts, /*only_unchecked=*/false);
  }
  return std::move(run.messages);
}

}  // namespace sardonyx
