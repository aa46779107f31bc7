#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <unordered_map>

#include "dialects/mil/sample.h"
#include "native/coreml/imported_program.h"

namespace sardonyx::python {
namespace {

class Importer {
 public:
  Importer(ImportedProgram& program, const ImportHelpers& helpers)
      : p_(program), model_(*program.model), helpers_(helpers), payloads_(helpers.payload) {}

  void read(const nb::dict& functions) {
    for (const auto& [name, function] : functions) {
      Function& f = model_.add_function(utf8_of(name));
      f.mil_opset = std::string(utf8_of(nb::object(helpers_.opset(function))));
      for (const auto& [input_name, var] : nb::cast<nb::dict>(get(function, names().inputs))) {
        const Type* t = type(get(var, names().sym_type));
        Value* v = f.graph().add_input(utf8_of(input_name), t);
        define(v, var);
        v->set_type(t);
      }
      read_block(f.graph(), function);
    }
    p_.arrays = std::move(payloads_.arrays);
  }

 private:
  // Properties shared by all ops of one class.
  struct Kind {
    const Op* op = nullptr;
    std::string name;
    int version = 0;
    bool is_const = false;
  };
  struct KnownType {
    nb::object object;  // kept alive, so that its address stays unique
    const Type* type = nullptr;
    std::string text;  // of types with unknown sizes
  };

  void define(Value* v, nb::handle var) {
    v->set_name(model_.name(utf8_of(get(var, names().name))));
    numbers_.put(var.ptr(), static_cast<uint32_t>(p_.values.size()));
    p_.values.push_back(v);
    p_.value_names.push_back(v->name());
    p_.variables.push_back(nb::borrow(var));
  }

  const Type* type(const nb::object& t) {
    const auto known = types_.find(t.ptr());
    if (known != types_.end()) {
      // Each occurrence of an unknown size is a distinct symbol, so the type is parsed again.
      return known->second.type != nullptr || known->second.text.empty() ? known->second.type
                                                                         : model_.types().parse(known->second.text);
    }
    std::string text = spelled(t);
    const Type* parsed = text.empty() ? nullptr : model_.types().parse(text);
    const bool open = text.find('?') != std::string::npos || text.find("...") != std::string::npos;
    types_.emplace(t.ptr(), KnownType{t, open ? nullptr : parsed, open ? std::move(text) : std::string()});
    return parsed;
  }

  // The type as Python spells it. coremltools makes each type once and never changes it.
  std::string spelled(const nb::object& t) {
    struct Spelled {
      nb::object type;  // kept alive, so that its address stays unique
      std::string text;
    };
    constexpr size_t kMost = 4096;
    static auto& all = *new std::unordered_map<PyObject*, Spelled>;  // never destroyed: Python may be gone when statics are
    const auto known = all.find(t.ptr());
    if (known != all.end()) return known->second.text;
    if (all.size() >= kMost) all.clear();
    return all.emplace(t.ptr(), Spelled{t, std::string(utf8_of(nb::object(helpers_.type_text(t))))}).first->second.text;
  }

  const Kind& kind(nb::handle op) {
    PyTypeObject* c = Py_TYPE(op.ptr());
    const auto known = kinds_.find(c);
    if (known != kinds_.end()) return known->second;
    Kind k{.name = nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(c)).attr("__name__")),
           .version = nb::cast<int>(helpers_.version(op))};
    k.op = dialect(DialectId::kMil).find("", k.name, k.version);
    k.is_const = k.name == "const" || k.name == "_const_symbolic";
    p_.has_constexpr |= k.name.starts_with("constexpr_");
    return kinds_.emplace(c, std::move(k)).first->second;
  }

  void read_block(Graph& g, nb::handle block) {
    ImportedBlock read{.first = p_.ops.size()};
    each_op(block, [&](nb::handle op) { read_op(g, op); });
    read.last = p_.ops.size();
    for (const Port& p : g.inputs()) {
      read.inputs.emplace_back(p.name, p.value->type());
      p_.input_types[p.value] = p.value->type();
    }
    for (nb::handle var : get(block, names().outputs)) {
      Value* v = p_.values.at(number_of(var));
      g.add_output(*v, utf8_of(get(var, names().name)));
      read.outputs.emplace_back(g.outputs().back().name, v);
    }
    p_.blocks[&g] = std::move(read);
  }

  uint32_t number_of(nb::handle var) const {
    const uint32_t n = numbers_.find(var.ptr());
    if (n == NumberOf::kNone) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("variable '{}' is used before an op makes it", utf8_of(get(var, names().name))));
    }
    return n;
  }

  void read_op(Graph& g, nb::handle op) {
    const Kind& k = kind(op);
    const nb::object outputs = get(op, names().output_vars);
    const size_t num_results = outputs.is_none() ? 0 : nb::len(outputs);
    operand_values_.clear();
    bool placed = k.op != nullptr;
    if (!k.is_const) placed = read_operands(k, op);
    const Op& is = k.is_const ? model_.op("", "const") : placed ? *k.op : model_.opaque_op(k.name, k.version, operand_slots_);
    Node& n = model_.new_node(is, operand_values_, num_results);
    n.set_name(model_.name(utf8_of(get(op, names().name))));
    const size_t number = p_.ops.size();
    // New ops take their scopes from the ops that they replace, never from constants alone.
    if (!k.is_const)
      n.set_provenance(model_.add_provenance({.sources = {{.line = static_cast<int>(number) + 1}}, .source_count = 1}));
    g.append(n);
    p_.ops.push_back({.node = &n,
                      .graph = &g,
                      .object = nb::borrow(op),
                      .op = &n.op(),
                      .name = n.name(),
                      .first_operand = p_.operands.size(),
                      .first_result = p_.values.size()});
    for (const Use& u : n.operands()) p_.operands.push_back(u.value);
    if (num_results > 0) {
      size_t i = 0;
      for (nb::handle var : outputs) read_result(k, n, i++, var);
    }
    n.set_unchecked(false);
    // Weights with different keys are different, even if their values are equal.
    if (k.is_const || k.name.starts_with("constexpr_")) {
      const nb::object key = find(op, names().weight_key);
      if (!key.is_none()) n.set_attrs(model_.with_attr(n.attrs(), "weight_key", Attr(nb::str(key).c_str())));
    }
    if (!k.is_const) read_blocks(k, n, number, op, outputs);
  }

  // Reads result i of the op that was read last.
  void read_result(const Kind& k, Node& n, size_t i, nb::handle var) {
    Value* v = n.result(i);
    const auto number = static_cast<uint32_t>(p_.values.size());
    define(v, var);
    const nb::object value = get(var, names().sym_val);
    const Type* t = type(get(var, names().sym_type));
    if (k.is_const) {
      const PayloadReader::Payload payload = payloads_.read(var, value, t);
      if (payload.tensor != nullptr) {
        set_constant(n, *v, payload);
        if (k.name == "const" && p_.variable_of.emplace(payload.tensor.get(), number).second)
          p_.kept_payloads.push_back(payload.tensor);
      } else if (k.name != "const") {
        n.set_attrs(model_.attrs({attr("symbolic", true)}));  // its elements are symbols
      } else if (payload.contents) {
        n.set_attrs(model_.attrs({attr(mil::kContentsAttribute, *payload.contents)}));
      }
    } else if (!value.is_none()) {
      know(*v, get(value, names().val), t);
      // A value that coremltools has computed already: const_elimination need not compute it.
      if (n.num_results() == 1 && t != nullptr && t->is_tensor() && t->static_size().value_or(0) > 4096) {
        if (const TensorPtr computed = payloads_.read(var, value, t).tensor) {
          n.edit_extra().payload = computed;
          p_.ops.back().payload = computed.get();
          p_.variable_of.emplace(computed.get(), number);
        }
      }
    }
    v->set_type(t);
  }

  void set_constant(Node& n, Value& v, const PayloadReader::Payload& payload) {
    n.graph()->set_constant(v, payload.tensor);
    p_.ops.back().payload = payload.tensor.get();
    if (payload.tensor->is_deferred() && payload.sample)
      n.set_attrs(model_.attrs({attr(mil::kSampleAttribute, *payload.sample)}));
  }

  void read_blocks(const Kind& k, Node& n, size_t number, nb::handle op, const nb::object& outputs) {
    size_t i = 0;
    for (nb::handle block : get(op, names().blocks)) {
      Graph& body = model_.new_graph();
      n.add_body(body_name(k.name, i++), body);
      for (nb::handle var : get(block, names().inputs)) {
        const Type* t = type(get(var, names().sym_type));
        Value* v = body.add_input(utf8_of(get(var, names().name)), nullptr);
        define(v, var);
        v->set_type(t);
      }
      read_block(body, block);
      p_.blocks[&body].owner = static_cast<uint32_t>(number);
    }
    // In programs of the neural network backend, one variable is both a loop's result and the value its
    // blocks use. After the loop it stands for the result.
    if (i == 0) return;
    i = p_.ops[number].first_result;
    for (nb::handle var : outputs) numbers_.put(var.ptr(), static_cast<uint32_t>(i++));
  }

  static std::string_view body_name(std::string_view op, size_t i) {
    if (op == "cond") return i == 0 ? "true_fn" : "false_fn";
    if (op == "while_loop") return i == 0 ? "cond" : "body";
    return "block";
  }

  // Fills operand_values_ by slot if the op is known and the operands fit its slots, else in the order given.
  bool read_operands(const Kind& k, nb::handle op) {
    slot_values_.clear();
    operand_slots_.clear();
    each_operand(op,
                 [&](PyObject* slot, PyObject* var) { slot_values_.push_back({utf8_of(slot), p_.values[number_of(var)]}); });
    if (k.op != nullptr && place_operands(*k.op, slot_values_, operand_values_)) return true;
    operand_values_.clear();
    for (const auto& [slot, v] : slot_values_) {
      operand_slots_.push_back(slot);
      operand_values_.push_back(v);
    }
    return false;
  }

  // Records elements that coremltools knows of a value that is not a constant.
  void know(Value& v, const nb::object& value, const Type* t) {
    if (t == nullptr || !t->is_tensor() || !is_integer(t->dtype()) || !t->ranked() || t->rank() > 1) return;
    SymbolicValue known{.scalar = t->rank() == 0, .elements = {}};
    const auto add = [&](nb::handle e) {
      if (PyIndex_Check(e.ptr())) {
        known.elements.push_back(Dim::of(nb::cast<int64_t>(nb::steal(PyNumber_Long(e.ptr())))));
      } else {
        known.elements.push_back(model_.dims().parse(nb::cast<std::string>(nb::str(e))));
      }
    };
    try {
      if (t->rank() == 0) {
        add(value);
      } else {
        if (nb::len(value) > 64) return;
        for (nb::handle e : value) add(e);
      }
    } catch (const std::exception&) {
      return;  // not a value that holds sizes
    }
    p_.facts.set(v, std::move(known));
  }

  ImportedProgram& p_;
  Model& model_;
  const ImportHelpers& helpers_;
  PayloadReader payloads_;
  NumberOf numbers_;  // of variables
  std::unordered_map<PyObject*, KnownType> types_;
  std::unordered_map<PyTypeObject*, Kind> kinds_;

  // Scratch space while an op is read.
  std::vector<std::pair<std::string_view, Value*>> slot_values_;
  std::vector<std::string_view> operand_slots_;
  std::vector<Value*> operand_values_;
};

}  // namespace

ImportedProgram import_program(const nb::dict& functions, int64_t specification_version, const ImportHelpers& helpers) {
  ImportedProgram program{.model = std::make_unique<Model>(DialectId::kMil)};
  program.model->specification_version = specification_version;
  program.model->set_opset_version("", specification_version);
  Importer(program, helpers).read(functions);
  return program;
}

}  // namespace sardonyx::python
