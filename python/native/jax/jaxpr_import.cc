#include "native/jax/jaxpr_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "ir/dims/dim_facts.h"
#include "native/jax/source_lines.h"
#include "native/jax/values.h"
#include "native/python_api.h"
#include "native/unlocked.h"
#include "sardonyx/lower.h"

namespace sardonyx::python {
namespace {

// More equations than anybody traces. The limit stops shared jaxprs that would expand beyond it.
constexpr size_t kMaxEquations = 50'000'000;

// Maps names of primitives in older versions of JAX to current ones.
std::string_view modern_name(std::string_view name) {
  if (name == "pjit") return "jit";
  if (name == "checkpoint" || name == "remat") return "remat2";
  if (name == "custom_vjp_call_jaxpr") return "custom_vjp_call";
  return name;
}

class Importer {
 public:
  Importer(Model& model, const ImportOptions& options, ImportedJaxpr& out)
      : model_(model), options_(options), out_(out), values_(model), lines_(model, options.provenance) {}

  void run(nb::handle closed_jaxpr) {
    Graph& graph = model_.add_function(options_.name).graph();
    graph.set_name(model_.name(options_.name));
    read({&graph, nb::borrow(closed_jaxpr), 0, 0}, true);
    // Nested jaxprs wait in a queue: they are closed, and nesting depth uses no stack.
    while (!waiting_.empty()) {
      Task task = std::move(waiting_.front());
      waiting_.pop_front();
      read(task, false);
    }
  }

 private:
  struct Task {
    Graph* graph;
    nb::object jaxpr;  // ClosedJaxpr or Jaxpr
    uint32_t scope;    // of the equation that holds it
    uint32_t place;
  };

  void read(const Task& task, bool main) {
    const JaxClasses& c = JaxClasses::get();
    Graph& graph = *task.graph;
    vars_.clear();
    scalars_.clear();
    nb::object jaxpr = task.jaxpr;
    nb::object consts = nb::tuple();
    if (int closed = PyObject_IsInstance(jaxpr.ptr(), c.closed_jaxpr.ptr()); closed == 1) {
      consts = get_attr<"consts">(task.jaxpr);
      jaxpr = get_attr<"jaxpr">(task.jaxpr);
    } else if (PyObject_IsInstance(jaxpr.ptr(), c.jaxpr.ptr()) != 1) {
      PyErr_Clear();
      throw Error(ErrorCode::kInvalidArgument, fmt::format("a ClosedJaxpr was expected, found {}", class_name(jaxpr)));
    }

    nb::object constvars = get_attr<"constvars">(jaxpr), invars = get_attr<"invars">(jaxpr);
    const size_t num_consts = nb::len(consts);
    if (num_consts == 0) {  // an open jaxpr takes the values of its constvars first
      for (nb::handle var : constvars) vars_[var.ptr()] = add_input(graph, var, {});
    } else {
      SX_CHECK(num_consts == nb::len(constvars), "a ClosedJaxpr has one const per constvar");
      for (size_t i = 0; i < num_consts; ++i) {
        nb::object var = constvars[i], value = consts[i];
        vars_[var.ptr()] = add_const(graph, value, get_attr<"aval">(var), main ? name_at(options_.const_names, i) : "");
      }
    }
    size_t index = 0;
    for (nb::handle var : invars) {
      bool nchw = main && std::ranges::count(options_.nchw_inputs, index) != 0;
      vars_[var.ptr()] = add_input(graph, var, main ? name_at(options_.input_names, index) : "", nchw);
      ++index;
    }

    nb::object eqns = get_attr<"eqns">(jaxpr);
    nb::object list = nb::steal(PySequence_Fast(eqns.ptr(), "the equations of a jaxpr are not a sequence"));
    if (!list.is_valid()) throw nb::python_error();
    Py_ssize_t n = fast_size(list.ptr());
    vars_.reserve(vars_.size() + static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) equation(graph, fast_item(list.ptr(), i), task);

    index = 0;
    for (nb::handle var : get_attr<"outvars">(jaxpr)) {
      Value* v = operand(graph, var);
      const Type* type = values_.type(get_attr<"aval">(var));
      if (main && std::ranges::count(options_.nchw_outputs, index) != 0) {
        type = permuted("outputs_as_nchw", index, type, kToNchw);
        v = transpose(graph, v, type, kToNchw);
      }
      graph.add_output(*v, main ? name_at(options_.output_names, index) : "", type);
      ++index;
    }
  }

  static std::string_view name_at(const std::vector<std::string>& names, size_t i) {
    return i < names.size() ? std::string_view(names[i]) : std::string_view();
  }

  Value* add_input(Graph& graph, nb::handle var, std::string_view name, bool nchw = false) {
    const Type* type = values_.type(get_attr<"aval">(var));
    const Type* outside = nchw ? permuted("inputs_as_nchw", graph.inputs().size(), type, kToNchw) : type;
    Value* v = graph.add_input(name, outside);
    v->set_type(outside);
    return nchw ? transpose(graph, v, type, kToNhwc) : v;
  }

  static constexpr int64_t kToNchw[] = {0, 3, 1, 2};
  static constexpr int64_t kToNhwc[] = {0, 2, 3, 1};

  const Type* permuted(std::string_view option, size_t index, const Type* type, std::span<const int64_t> perm) {
    if (!type->is_tensor() || type->rank() != perm.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: position {} is {}, which is not of rank 4", option, index, model_.types().to_string(type)));
    }
    std::vector<Dim> dims;
    for (int64_t axis : perm) dims.push_back(type->dim(static_cast<size_t>(axis)));
    return model_.types().tensor(type->dtype(), dims);
  }

  Value* transpose(Graph& graph, Value* v, const Type* result, std::span<const int64_t> perm) {
    Value* operands[] = {v};
    Attr::Ints axes(perm.begin(), perm.end());
    return append(graph, "transpose", operands, {sardonyx::attr("permutation", Attr(std::move(axes)))}, result);
  }

  Value* append(Graph& graph, std::string_view op, std::span<Value* const> operands, AttrInit attrs, const Type* type) {
    Node& n = model_.new_node(model_.op("", op), operands, 1, model_.attrs(std::move(attrs)));
    n.set_unchecked(false);
    n.result()->set_type(type);
    graph.append(n);
    return n.result();
  }

  Value* add_const(Graph& graph, nb::handle value, nb::handle aval, std::string_view name = {}) {
    const Type* type = values_.type(aval);
    if (type->kind() != TypeKind::kTensor) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a constant of type {} is not supported", model_.types().to_string(type)));
    }
    if (is_key(type->dtype()) && values_.is_key_array(value)) {  // its words, wrapped
      Value* words = graph.add_constant(values_.tensor(get_attr<"_base_array">(value)), name);
      Value* operands[] = {words};
      return append(graph, "random_wrap", operands,
                    {sardonyx::attr("impl", Attr(text_of(get_attr<"tag">(get_attr<"_impl">(value)))))}, type);
    }
    TensorPtr payload = values_.literal(value, aval);
    Value* v = graph.add_constant(std::move(payload), name);
    v->set_type(type);
    return v;
  }

  // The value of a Var or a Literal.
  Value* operand(Graph& graph, nb::handle atom) {
    if (Py_TYPE(atom.ptr()) != reinterpret_cast<PyTypeObject*>(JaxClasses::get().literal.ptr())) {
      auto at = vars_.find(atom.ptr());
      if (at == vars_.end()) throw Error(ErrorCode::kInvalidModel, "a jaxpr reads a variable that nothing defines");
      return at->second;
    }
    nb::object aval = get_attr<"aval">(atom);
    nb::object value = get_attr<"val">(atom);
    const Type* type = values_.type(aval);
    if (type->is_tensor() && type->rank() == 0 && !is_key(type->dtype())) {
      // Equal scalars of one graph share one constant: even a program of 300,000 equations has few distinct
      // numbers.
      TensorPtr payload;
      std::string key(1, static_cast<char>(type->dtype()));
      if (!values_.append_scalar(value, aval, key)) {
        payload = values_.literal(value, aval);
        auto bytes = payload->stored_bytes();
        key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
      auto [at, fresh] = scalars_.try_emplace(std::move(key), nullptr);
      if (fresh) {
        at->second = graph.add_constant(payload != nullptr ? std::move(payload) : values_.literal(value, aval));
        at->second->set_type(type);
      }
      return at->second;
    }
    return add_const(graph, value, aval);
  }

  const Op& op(nb::handle primitive) {
    auto [at, fresh] = ops_.try_emplace(primitive.ptr());
    if (fresh) {
      std::string name = text_of(get_attr<"name">(primitive));
      const std::string_view known = modern_name(name);
      const bool kept = options_.keep_equations.contains(name);
      at->second = {.primitive = nb::borrow(primitive),
                    .op = &model_.op("", known),
                    .kept = kept,
                    .lowered = kept || LoweringRegistry::builtin().find(known) != nullptr};
    }
    known_ = &at->second;
    return *at->second.op;
  }

  void equation(Graph& graph, nb::handle eqn, const Task& around) {
    check_interrupt();
    if (++equations_ > kMaxEquations) {
      throw Error(ErrorCode::kLimit,
                  fmt::format("the program has more than {} equations, nested ones included", kMaxEquations));
    }
    operands_.clear();
    for_each(get_attr<"invars">(eqn), [&](nb::handle atom) { operands_.push_back(operand(graph, atom)); });
    const Op* o = &op(get_attr<"primitive">(eqn));
    nested_.clear();
    AttrInit attrs;
    const bool is_random = o->name.starts_with("random_");
    const bool other_generator = is_random && !known_->kept && JaxValues::has_other_generator(eqn);
    nb::object program = known_->lowered && !other_generator ? nb::none() : expansion(eqn);
    if (!program.is_none()) {
      attrs.push_back(sardonyx::attr("name", Attr(std::string(o->name))));
      nested_.push_back({"jaxpr", std::move(program)});
      o = &model_.op("", "jit");
    } else {
      if (other_generator) {  // the lowering would draw as JAX's default generator does
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("the program of '{}' for this kind of random keys cannot be read", o->name),
                    {"help: use jax.random.key(seed, impl=\"threefry2x32\"), JAX's default"});
      }
      attrs = values_.params(get_attr<"params">(eqn), nested_);
      if (is_random) {
        // How a key turns into bits is a JAX setting, recorded with each equation when it was traced.
        nb::object partitionable = get_attr<"threefry_partitionable">(get_attr<"ctx">(eqn));
        attrs.push_back(sardonyx::attr("threefry_partitionable", Attr(partitionable.ptr() == Py_True)));
      }
    }
    nb::object outvars = get_attr<"outvars">(eqn);
    size_t num_results = nb::len(outvars);
    Node& node =
        model_.new_node(*o, operands_, num_results, attrs.empty() ? model_.empty_attrs() : model_.attrs(std::move(attrs)));
    node.set_unchecked(false);
    nb::object source = get_attr<"source_info">(eqn);
    const uint32_t scope = lines_.scope(around.scope, source);
    const uint32_t place = lines_.place(around.place, source);
    node.set_provenance(lines_.provenance(place, scope, *o));
    graph.append(node);
    size_t i = 0;
    for_each(outvars, [&](nb::handle var) {
      Value* result = node.result(i++);
      result->set_type(values_.type(get_attr<"aval">(var)));
      vars_[var.ptr()] = result;
    });
    for (NestedJaxpr& n : nested_) {
      Graph& body = model_.new_graph();
      node.add_body(n.name, body);
      waiting_.push_back({&body, std::move(n.jaxpr), scope, place});
    }
    if (known_->kept) out_.equations.emplace(node.id(), nb::borrow(eqn));
  }

  template <class F>
  void for_each(const nb::object& sequence, F&& f) {
    nb::object items = nb::steal(PySequence_Fast(sequence.ptr(), "a list was expected"));
    if (!items.is_valid()) throw nb::python_error();
    Py_ssize_t n = fast_size(items.ptr());
    for (Py_ssize_t i = 0; i < n; ++i) f(nb::handle(fast_item(items.ptr(), i)));
  }

  struct KnownOp {
    nb::object primitive;
    const Op* op = nullptr;
    bool kept = false;
    bool lowered = false;  // natively or in Python
  };

  static nb::object expansion(nb::handle eqn) { return nb::module_::import_("sardonyx._trace.expand").attr("expansion")(eqn); }

  Model& model_;
  const ImportOptions& options_;
  ImportedJaxpr& out_;
  JaxValues values_;
  SourceLines lines_;
  std::unordered_map<PyObject*, Value*> vars_;       // of the jaxpr being read
  std::unordered_map<std::string, Value*> scalars_;  // literals of the graph being built, by dtype and bytes
  std::unordered_map<PyObject*, KnownOp> ops_;
  std::vector<Value*> operands_;
  std::vector<NestedJaxpr> nested_;
  std::deque<Task> waiting_;
  size_t equations_ = 0;
  const KnownOp* known_ = nullptr;  // of the equation being read
};

}  // namespace

ImportedJaxpr import_jaxpr(nb::handle closed_jaxpr, const ImportOptions& options) {
  ImportedJaxpr out;
  out.model = std::make_unique<Model>(DialectId::kJax);
  const Interruptible interruptible(python_wants_end);
  for (const std::string& fact : options.facts) assume(out.model->dims(), fact);
  for (const std::string& symbol : options.data_sizes) out.model->dims().set_range(symbol, {.min = 0, .max = {}});
  Importer(*out.model, options, out).run(closed_jaxpr);
  // JAX itself takes sizes with names as at least 1 while it traces.
  Dims& dims = out.model->dims();
  for (const Port& p : out.model->graph().inputs()) {
    const Type* t = p.value->type();
    if (t == nullptr || !t->is_tensor() || !t->ranked()) continue;
    for (Dim d : t->dims()) {
      for (const std::string& symbol : dims.symbols(d)) {
        if (!dims.has_range(symbol)) dims.set_range(symbol, {.min = 1, .max = {}});
      }
    }
  }
  return out;
}

}  // namespace sardonyx::python
