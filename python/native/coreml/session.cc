// Programs of coremltools in memory: read from its objects, op by op; passes run natively; what changed is told back.
#include "native/coreml/session.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "dialects/mil/interface_names.h"
#include "dialects/mil/sample.h"
#include "driver/program_passes.h"
#include "ir/tensor_view.h"
#include "native/coreml/objects.h"
#include "native/ir/store.h"
#include "native/optimize.h"
#include "native/unlocked.h"
#include "sardonyx/eval.h"
#include "sardonyx/infer.h"
#include "sardonyx/passes.h"

namespace sardonyx::python {
namespace {

// What coremltools' objects do not say by themselves: Python's side of it.
struct Helper {
  nb::object type_text, version, payload, opset;  // functions of a type, an op, a variable, a function
};

// A program on its way through the passes. Values and ops are numbers to Python, given in the order in which they are read.
class Bridge {
 public:
  explicit Bridge(int64_t specification_version) : model_(std::make_unique<Model>(DialectId::kMil)) {
    model_->mil.emplace();
    model_->mil->specification_version = specification_version;
    model_->set_opset_version("", specification_version);
  }

  // Reads the functions of a program.
  void tell(const nb::dict& functions, const nb::object& type_text, const nb::object& version, const nb::object& payload,
            const nb::object& opset) {
    helper_ = {type_text, version, payload, opset};
    for (const auto& [name, function] : functions) {
      Function& f = model_->add_function(text_of(name));
      f.mil_opset = std::string(text_of(nb::object(opset(function))));
      for (const auto& [input_name, var] : nb::cast<nb::dict>(get(function, names().inputs))) {
        const Type* t = type(get(var, names().sym_type));
        Value* v = f.graph().add_input(text_of(input_name), t);
        define(v, var);
        v->set_type(t);
      }
      tell_block(f.graph(), function);
    }
    helper_ = {};
  }

  // The op stays in single precision (keep_fp32), or in 32 bits (keep_int32), whatever add_fp16_cast and add_int16_cast do to the others.
  void keep(size_t op, const std::string& attribute) {
    Node& n = *ops_.at(op).node;
    n.set_attrs(model_->with_attr(n.attrs(), attribute, Attr(true)));
  }

  nb::dict run(const nb::dict& options) {
    const OptimizeOptions o = optimize_options(options);
    PipelineReport report;
    {
      const Unlocked others_may_run;
      types_before_.clear();
      for (const Value* v : values_) types_before_.push_back(v->type());
      report = run_program_passes(*model_, o.request, facts_);
    }
    return report_of(report);
  }

  nb::object op(size_t number) const { return ops_.at(number).object; }
  nb::list ops() const {
    nb::list all;
    for (const ToldOp& o : ops_) all.append(o.object);
    return all;
  }
  nb::object var(size_t number) const { return objects_.at(number); }
  void remember(size_t number, nb::object var) { objects_.at(number) = std::move(var); }
  bool has_constexpr() const { return has_constexpr_; }
  std::vector<std::string> new_functions() const {
    std::vector<std::string> all;
    for (const auto& f : model_->functions()) {
      if (!blocks_.contains(&f->graph())) all.push_back(f->name);
    }
    return all;
  }

  // What became of a function's graph, or None where nothing did: (edits, gone, results, order, inputs).
  //  - An edit is (number, type, name, [(slot, is a list, [value])], [value], [names], [block], [op that it came from], before,
  //    whether its results have other types now), in order.
  //    Numbers of ops that were told are known to op(); a new constant has its value as the type, see value_now(). `before` is the number of the op that stays
  //    in front of which a new one belongs, or None: the end. A block is what became of it; a block of a new op is told whole.
  //  - `gone` are the numbers of ops that are no more.
  //  - `results` are (name, value), or None if they are what they were.
  //  - `order` is all numbers in order, or None if nothing moved; -1 - i is what edit i makes.
  //  - `inputs` are what enters the block: (value, name, whether its type is another now).
  nb::object changes(const std::string& name) {
    Function* f = model_->find_function("", name);
    if (f == nullptr) throw Error(ErrorCode::kInternal, "the function is gone");
    return blocks_.contains(&f->graph()) ? changes_of(f->graph()) : nb::object(nb::none());
  }

  // A function that a pass made: (opset, [(name, type, value)], block).
  nb::tuple whole_function(const std::string& name) {
    Function* f = model_->find_function("", name);
    if (f == nullptr) throw Error(ErrorCode::kInternal, "the function is gone");
    nb::list inputs;
    for (const Port& p : f->graph().inputs())
      inputs.append(nb::make_tuple(p.name.view(), model_->types().to_string(p.value->type()), number(p.value)));
    return nb::make_tuple(f->mil_opset, inputs, whole_block(f->graph()));
  }

 private:
  // What is the same for all ops of one class.
  struct Kind {
    const Op* op = nullptr;
    std::string name;
    int version = 0;
    bool is_const = false;
  };
  struct ToldOp {
    Node* node = nullptr;
    const Graph* graph = nullptr;
    nb::object object;
    const Op* op = nullptr;
    Name name;
    const Tensor* payload = nullptr;
    size_t first_operand = 0;  // in operands_
    size_t first_result = 0;   // in values_
    bool rebuilt = false;
  };
  struct ToldBlock {
    size_t first = 0, last = 0;  // numbers of its ops, those of nested blocks among them
    uint32_t owner = 0;          // the op that holds it
    std::vector<std::pair<Name, Value*>> outputs;
    std::vector<std::pair<Name, const Type*>> inputs;
  };

  // --- reading

  void define(Value* v, nb::handle var) {
    v->set_name(model_->name(text_of(get(var, names().name))));
    numbers_.put(var.ptr(), static_cast<uint32_t>(values_.size()));
    values_.push_back(v);
    value_names_.push_back(v->name());
    objects_.push_back(nb::borrow(var));
  }

  const Type* type(const nb::object& t) {
    const auto known = types_.find(t.ptr());
    if (known != types_.end()) {
      // Each unknown size is one of its own.
      return known->second.type != nullptr || known->second.text.empty() ? known->second.type
                                                                         : model_->types().parse(known->second.text);
    }
    std::string text = spelled(t);
    const Type* parsed = text.empty() ? nullptr : model_->types().parse(text);
    const bool open = text.find('?') != std::string::npos || text.find("...") != std::string::npos;
    types_.emplace(t.ptr(), KnownType{t, open ? nullptr : parsed, open ? std::move(text) : std::string()});
    return parsed;
  }

  // As Python spells it. coremltools makes each type once, and never changes it.
  std::string spelled(const nb::object& t) {
    struct Spelled {
      nb::object type;  // its address stands for it
      std::string text;
    };
    constexpr size_t kMost = 4096;
    static auto& all = *new std::unordered_map<PyObject*, Spelled>;  // Python may be gone when statics go
    const auto known = all.find(t.ptr());
    if (known != all.end()) return known->second.text;
    if (all.size() >= kMost) all.clear();
    return all.emplace(t.ptr(), Spelled{t, std::string(text_of(nb::object(helper_.type_text(t))))}).first->second.text;
  }

  const Kind& kind(nb::handle op) {
    PyTypeObject* c = Py_TYPE(op.ptr());
    const auto known = kinds_.find(c);
    if (known != kinds_.end()) return known->second;
    Kind k{.name = nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(c)).attr("__name__")),
           .version = nb::cast<int>(helper_.version(op))};
    k.op = dialect(DialectId::kMil).find("", k.name, k.version);
    k.is_const = k.name == "const" || k.name == "_const_symbolic";
    has_constexpr_ |= k.name.starts_with("constexpr_");
    return kinds_.emplace(c, std::move(k)).first->second;
  }

  void tell_block(Graph& g, nb::handle block) {
    ToldBlock told{.first = ops_.size()};
    each_op(block, [&](nb::handle op) { tell_op(g, op); });
    told.last = ops_.size();
    for (const Port& p : g.inputs()) {
      told.inputs.emplace_back(p.name, p.value->type());
      input_types_[p.value] = p.value->type();
    }
    for (nb::handle var : get(block, names().outputs)) {
      Value* v = values_.at(number_of(var));
      g.add_output(*v, text_of(get(var, names().name)));
      told.outputs.emplace_back(g.outputs().back().name, v);
    }
    blocks_[&g] = std::move(told);
  }

  uint32_t number_of(nb::handle var) const {
    const uint32_t n = numbers_.find(var.ptr());
    if (n == NumberOf::kNone) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("variable '{}' is read and was not made before", text_of(get(var, names().name))));
    }
    return n;
  }

  void tell_op(Graph& g, nb::handle op) {
    const Kind& k = kind(op);
    const nb::object outputs = get(op, names().output_vars);
    const size_t num_results = outputs.is_none() ? 0 : nb::len(outputs);
    operand_values_.clear();
    bool placed = k.op != nullptr;
    if (!k.is_const) placed = read_operands(k, op);
    const Op& is = k.is_const ? model_->op("", "const") : placed ? *k.op : model_->opaque_op(k.name, k.version, operand_slots_);
    Node& n = model_->new_node(is, operand_values_, num_results);
    n.set_name(model_->name(text_of(get(op, names().name))));
    // New ops take their scopes from the ops that they stand for, never from constants alone.
    if (!k.is_const)
      n.set_provenance(model_->add_provenance({.sources = {{.line = static_cast<int>(ops_.size()) + 1}}, .source_count = 1}));
    g.append(n);
    const size_t number = ops_.size();
    ops_.push_back({.node = &n,
                    .graph = &g,
                    .object = nb::borrow(op),
                    .op = &n.op(),
                    .name = n.name(),
                    .first_operand = operands_.size(),
                    .first_result = values_.size()});
    for (const Use& u : n.operands()) operands_.push_back(u.value);
    size_t i = 0;
    if (num_results > 0) {
      for (nb::handle var : outputs) {
        Value* v = n.result(i++);
        define(v, var);
        const nb::object value = get(var, names().sym_val);
        const Type* t = type(get(var, names().sym_type));
        if (k.is_const) {
          if (const TensorPtr p = payload(var, value, t)) {
            g.set_constant(*v, p);
            ops_[number].payload = p.get();
            if (k.name == "const" && value_of_.emplace(p.get(), static_cast<uint32_t>(values_.size() - 1)).second)
              told_payloads_.push_back(p);
            if (p->is_deferred() && sample_) n.set_attrs(model_->attrs({attr(mil::kSampleAttribute, *sample_)}));
          } else if (k.name != "const") {
            n.set_attrs(model_->attrs({attr("symbolic", true)}));  // its elements are symbols
          } else if (unseen_) {
            n.set_attrs(model_->attrs({attr(mil::kContentsAttribute, *unseen_)}));
          }
        } else if (!value.is_none()) {
          know(*v, get(value, names().val), t);
          // What coremltools has computed already: const_elimination need not.
          if (num_results == 1 && t != nullptr && t->is_tensor() && t->static_size().value_or(0) > 4096) {
            if (const TensorPtr p = payload(var, value, t)) {
              n.edit_extra().payload = p;
              ops_[number].payload = p.get();
              value_of_.emplace(p.get(), static_cast<uint32_t>(values_.size() - 1));
            }
          }
        }
        v->set_type(t);
      }
    }
    n.set_unchecked(false);
    // Weights of another key are others, whatever their values are.
    if (k.is_const || k.name.starts_with("constexpr_")) {
      const nb::object key = find(op, names().weight_key);
      if (!key.is_none()) n.set_attrs(model_->with_attr(n.attrs(), "weight_key", Attr(nb::str(key).c_str())));
    }
    if (k.is_const) return;
    const nb::object blocks = get(op, names().blocks);
    i = 0;
    for (nb::handle block : blocks) {
      Graph& body = model_->new_graph();
      n.add_body(body_name(k.name, i++), body);
      for (nb::handle var : get(block, names().inputs)) {
        const Type* t = type(get(var, names().sym_type));
        Value* v = body.add_input(text_of(get(var, names().name)), nullptr);
        define(v, var);
        v->set_type(t);
      }
      tell_block(body, block);
      blocks_[&body].owner = static_cast<uint32_t>(number);
    }
    // Programs of the backend for neural networks have one variable for a loop's result and for what its blocks read: after it, the result.
    if (i == 0) return;
    i = ops_[number].first_result;
    for (nb::handle var : outputs) numbers_.put(var.ptr(), static_cast<uint32_t>(i++));
  }

  static std::string_view body_name(std::string_view op, size_t i) {
    if (op == "cond") return i == 0 ? "true_fn" : "false_fn";
    if (op == "while_loop") return i == 0 ? "cond" : "body";
    return "block";
  }

  // Fills operand_values_: by slot where the op is known (and says so), else as they come.
  bool read_operands(const Kind& k, nb::handle op) {
    slot_values_.clear();
    operand_slots_.clear();
    each_operand(op, [&](PyObject* slot, PyObject* var) { slot_values_.push_back({text_of(slot), values_[number_of(var)]}); });
    if (k.op != nullptr && place_operands(*k.op, slot_values_, operand_values_)) return true;
    operand_values_.clear();
    for (const auto& [slot, v] : slot_values_) {
      operand_slots_.push_back(slot);
      operand_values_.push_back(v);
    }
    return false;
  }

  // Elements that coremltools knows of a value that is no constant.
  void know(Value& v, const nb::object& value, const Type* t) {
    if (t == nullptr || !t->is_tensor() || !is_integer(t->dtype()) || !t->ranked() || t->rank() > 1) return;
    SymbolicValue known{.scalar = t->rank() == 0, .elements = {}};
    const auto add = [&](nb::handle e) {
      if (PyIndex_Check(e.ptr())) {
        known.elements.push_back(Dim::of(nb::cast<int64_t>(nb::steal(PyNumber_Long(e.ptr())))));
      } else {
        known.elements.push_back(model_->dims().parse(nb::cast<std::string>(nb::str(e))));
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
      return;  // not a value that sizes have
    }
    facts_.set(v, std::move(known));
  }

  static std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
    if (format == nullptr || format[0] == 0 || format[1] != 0) return std::nullopt;
    switch (format[0]) {
      case '?': return DType::kBool;
      case 'e': return DType::kF16;
      case 'f': return DType::kF32;
      case 'd': return DType::kF64;
      case 'b':
      case 'h':
      case 'i':
      case 'l':
      case 'q': return size == 1 ? DType::kI8 : size == 2 ? DType::kI16 : size == 4 ? DType::kI32 : DType::kI64;
      case 'B':
      case 'H':
      case 'I':
      case 'L':
      case 'Q': return size == 1 ? DType::kU8 : size == 2 ? DType::kU16 : size == 4 ? DType::kU32 : DType::kU64;
      default: return std::nullopt;
    }
  }

  // A constant's value, in the array's own memory if it is large; null where there is nothing to look at.
  TensorPtr payload(nb::handle var, const nb::object& sym_val, const Type* declared) {
    unseen_.reset();
    if (sym_val.is_none()) return nullptr;
    const nb::object value = get(sym_val, names().val);
    PyObject* p = value.ptr();
    if (PyUnicode_CheckExact(p)) {
      const std::string_view s = text_of(value);
      const auto known = texts_.find(s);
      if (known != texts_.end()) return known->second;
      return texts_.emplace(std::string(s), Tensor::strings({}, {std::string(s)})).first->second;
    }
    const DType wanted = declared != nullptr && declared->is_tensor() ? declared->dtype() : DType::kUndefined;
    if (PyBool_Check(p) || PyFloat_CheckExact(p) || PyLong_CheckExact(p)) {
      if (wanted == DType::kBool || wanted == DType::kI32 || wanted == DType::kF32 || wanted == DType::kF16)
        return Tensor::full(wanted, {},
                            PyFloat_CheckExact(p) ? PyFloat_AS_DOUBLE(p) : static_cast<double>(PyLong_AsLongLong(p)));
    } else if (wanted != DType::kUndefined && bit_width(wanted) >= 8 && PyObject_CheckBuffer(p)) {
      Py_buffer view;
      if (PyObject_GetBuffer(p, &view, PyBUF_FULL_RO) == 0) {
        const auto found = dtype_of_format(view.format, view.itemsize);
        if (found) return of_buffer(view, *found, value);
        PyBuffer_Release(&view);
      } else {
        PyErr_Clear();
      }
    }
    const auto [array, dtype] = nb::cast<std::pair<nb::object, int>>(helper_.payload(var));
    if (array.is_none()) return nullptr;
    if (dtype < 0) {
      unseen_ = nb::cast<int64_t>(array);
      return nullptr;
    }
    if (static_cast<DType>(dtype) == DType::kString) return Tensor::strings({}, {nb::cast<std::string>(array)});
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_FULL_RO) != 0) throw nb::python_error();
    return of_buffer(view, static_cast<DType>(dtype), array);
  }

  TensorPtr of_buffer(Py_buffer& view, DType dtype, const nb::object& array) {
    std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
    const auto* bytes = static_cast<const std::byte*>(view.buf);
    const auto size = static_cast<size_t>(view.len);
    const bool dense = PyBuffer_IsContiguous(&view, 'C') != 0;
    if (size <= 256) {
      std::vector<std::byte> copy(size);
      if (dense) {
        std::copy_n(bytes, size, copy.data());
      } else if (PyBuffer_ToContiguous(copy.data(), &view, view.len, 'C') != 0) {
        throw nb::python_error();
      }
      PyBuffer_Release(&view);
      return Tensor::own(dtype, std::move(shape), std::move(copy));
    }
    std::shared_ptr<Py_buffer> kept(new Py_buffer(view), [](Py_buffer* b) {
      if (Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyBuffer_Release(b);
        PyGILState_Release(state);
      }
      delete b;
    });
    if (dense) {
      arrays_[bytes] = {array, dtype, size};
      return Tensor::borrow(dtype, std::move(shape), {bytes, size}, std::move(kept));
    }
    if (TensorPtr t = view_of_buffer(kept, dtype, shape)) {
      arrays_.try_emplace(bytes, ToldArray{array, dtype, size});
      return t;
    }
    // Backwards, say: put in order by whoever reads it.
    sample_ = mil::sample(view.len / view.itemsize, static_cast<size_t>(view.itemsize), [&](int64_t i) {
      std::vector<Py_ssize_t> place(shape.size());
      for (size_t d = shape.size(); d-- > 0; i /= shape[d]) place[d] = i % shape[d];
      return static_cast<const std::byte*>(PyBuffer_GetPointer(&view, place.data()));
    });
    return Tensor::defer(dtype, std::move(shape), [kept, size] {
      std::vector<std::byte> copy(size);
      const PyGILState_STATE state = PyGILState_Ensure();
      const bool done = PyBuffer_ToContiguous(copy.data(), kept.get(), kept->len, 'C') == 0;
      if (!done) PyErr_Clear();
      PyGILState_Release(state);
      if (!done) throw Error(ErrorCode::kInternal, "an array could not be read");
      return copy;
    });
  }

  // A transposed array as a view of the same array in order; null where no order of the axes gives one.
  static TensorPtr view_of_buffer(const std::shared_ptr<Py_buffer>& array, DType dtype, const std::vector<int64_t>& shape) {
    if (array->suboffsets != nullptr) return nullptr;
    std::vector<size_t> axes;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) axes.push_back(d);
    }
    std::ranges::stable_sort(axes, std::greater(), [&](size_t d) { return array->strides[d]; });
    std::vector<int64_t> strides(shape.size(), 1), sizes(axes.size());
    int64_t step = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      if (array->strides[axes[i]] != step * array->itemsize) return nullptr;
      strides[axes[i]] = step;
      sizes[i] = shape[axes[i]];
      step *= sizes[i];
    }
    const std::span bytes(static_cast<const std::byte*>(array->buf), static_cast<size_t>(array->len));
    return make_view(Tensor::borrow(dtype, std::move(sizes), bytes, array), shape, std::move(strides));
  }

  // --- telling back

  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t number(Value* v) {
    if (value_number_.empty()) {
      for (size_t i = 0; i < values_.size(); ++i) value_number_.emplace(values_[i], static_cast<uint32_t>(i));
    }
    const auto [at, is_new] = value_number_.try_emplace(v, static_cast<uint32_t>(values_.size()));
    if (is_new) {
      values_.push_back(v);
      objects_.push_back(nb::none());
    }
    return at->second;
  }

  // The number of the op that n was told as; kNone when it is new, or not what it was. An op that took over the blocks of another, a loop
  // with fewer variables, is that op.
  uint32_t told(Node& n) {
    if (node_number_.empty()) {
      for (size_t i = 0; i < ops_.size(); ++i) node_number_.emplace(ops_[i].node, static_cast<uint32_t>(i));
    }
    if (!n.bodies().empty() && !node_number_.contains(&n)) {
      const auto block = blocks_.find(n.bodies()[0].graph);
      if (block != blocks_.end() && ops_[block->second.owner].op == &n.op()) {
        ToldOp& o = ops_[block->second.owner];
        o.node = &n;
        o.rebuilt = true;
        node_number_[&n] = block->second.owner;
      }
    }
    const auto at = node_number_.find(&n);
    return at != node_number_.end() && stays(ops_[at->second]) ? at->second : kNone;
  }

  static bool stays(const ToldOp& o) {
    const Node& n = *o.node;
    const Tensor* payload = n.extra() != nullptr ? n.extra()->payload.get() : nullptr;
    return n.alive() && n.graph() == o.graph && &n.op() == o.op && payload == o.payload;
  }

  bool reads_and_names_the_same(const ToldOp& o) const {
    const Node& n = *o.node;
    if (o.rebuilt || n.name() != o.name) return false;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (n.input(i) != operands_[o.first_operand + i]) return false;
    }
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (n.result(i)->name() != value_names_[o.first_result + i]) return false;
    }
    return true;
  }

  bool has_other_type(const Value& input) const {
    const auto told = input_types_.find(&input);
    return told != input_types_.end() && told->second != input.type();
  }

  bool has_other_results(Node& n) {
    for (Value& v : n.results()) {
      const uint32_t at = number(&v);
      if (at < types_before_.size() && types_before_[at] != v.type()) return true;
    }
    return false;
  }

  nb::object changes_of(Graph& g) {
    const auto block = blocks_.find(&g);
    if (block == blocks_.end()) throw Error(ErrorCode::kInternal, "a block is new");
    std::vector<std::pair<Node*, uint32_t>> now;
    bool moved = false, same = true;
    uint32_t last = 0;
    for (Node& n : g.nodes()) {
      const uint32_t number = told(n);
      if (number != kNone) {
        moved |= number < last;
        last = number;
      }
      now.emplace_back(&n, number);
    }
    Edits edits{.whole = false};
    std::vector<int64_t> order;
    std::vector<uint32_t> before(now.size() + 1, kNone);
    for (size_t i = now.size(); i-- > 0;) before[i] = now[i].second != kNone ? now[i].second : before[i + 1];
    for (size_t i = 0; i < now.size(); ++i) {
      const auto [n, number] = now[i];
      edits.before = moved ? kNone : before[i];
      const size_t first = nb::len(edits.list);
      if (number == kNone) {
        node_now(*n, kNone, nb::list(), edits);
      } else {
        nb::list blocks;
        bool inside = false;
        for (const Body& b : n->bodies()) {
          blocks.append(changes_of(*b.graph));
          inside |= !blocks[nb::len(blocks) - 1].is_none();
        }
        if (inside || !reads_and_names_the_same(ops_[number]) || has_other_results(*n)) node_now(*n, number, blocks, edits);
      }
      if (!moved) continue;
      for (size_t k = first; k < nb::len(edits.list); ++k) {
        if (nb::tuple(edits.list[k])[0].is_none()) order.push_back(-1 - static_cast<int64_t>(k));
      }
      if (number != kNone) order.push_back(number);
    }
    edits.before = kNone;
    nb::list gone;
    for (size_t i = block->second.first; i < block->second.last; ++i) {
      if (ops_[i].graph == &g && !stays(ops_[i])) gone.append(i);
    }
    const auto outputs = g.outputs();
    const auto& were = block->second.outputs;
    for (size_t i = 0; i < outputs.size(); ++i)
      same &= i < were.size() && outputs[i].name == were[i].first && outputs[i].use->value == were[i].second &&
              outputs[i].use->value->name() == outputs[i].name;
    same &= outputs.size() == were.size();
    bool same_inputs = g.inputs().size() == block->second.inputs.size();
    for (size_t i = 0; same_inputs && i < g.inputs().size(); ++i)
      same_inputs = g.inputs()[i].name == block->second.inputs[i].first && !has_other_type(*g.input(i));
    nb::object results = nb::none();
    if (!same) results = outputs_now(g, edits);
    if (nb::len(edits.list) == 0 && nb::len(gone) == 0 && same && same_inputs && !moved) return nb::none();
    nb::object places = nb::none();
    if (moved) {
      for (size_t k = 0; k < nb::len(edits.list); ++k) {
        // Constants that only the results read come last.
        const int64_t made = -1 - static_cast<int64_t>(k);
        if (nb::tuple(edits.list[k])[0].is_none() && std::find(order.begin(), order.end(), made) == order.end())
          order.push_back(made);
      }
      places = nb::cast(order);
    }
    nb::list inputs;
    for (const Port& p : g.inputs()) inputs.append(nb::make_tuple(number(p.value), p.name.view(), has_other_type(*p.value)));
    return nb::make_tuple(edits.list, gone, results, places, inputs);
  }

  struct Edits {
    bool whole = false;  // ops that were told are told again
    nb::list list;
    uint32_t before = kNone;
  };

  nb::list outputs_now(Graph& g, Edits& edits) {
    nb::list results;
    for (const Port& p : g.outputs()) {
      constant_now(p.use->value, g.boundary(), nullptr, edits);
      results.append(nb::make_tuple(p.name.view(), number(p.use->value)));
    }
    return results;
  }

  // (inputs, edits, results), all new.
  nb::tuple whole_block(Graph& g) {
    Edits edits{.whole = true};
    nb::list inputs;
    for (const Port& p : g.inputs()) inputs.append(nb::make_tuple(p.name.view(), number(p.value)));
    for (Node& n : g.nodes()) node_now(n, kNone, nb::list(), edits);
    nb::list results = outputs_now(g, edits);
    return nb::make_tuple(inputs, edits.list, results);
  }

  static nb::object number_or_none(uint32_t n) { return n == kNone ? nb::object(nb::none()) : nb::object(nb::int_(n)); }

  // The number of a variable that has this value, as coremltools has it; (array that was told, shape, strides in elements) for elements that
  // lie there; else the tensor.
  nb::object value_now(const TensorPtr& t) const {
    if (const auto has_it = value_of_.find(t.get()); has_it != value_of_.end()) return nb::int_(has_it->second);
    const TensorView* view = view_of(t);
    const Tensor& storage = view != nullptr ? *view->storage : *t;
    if (storage.is_deferred() || storage.is_splat()) return wrap_tensor(t);
    const auto told = arrays_.find(storage.stored_bytes().data());
    if (told == arrays_.end() || told->second.dtype != t->dtype() || told->second.size != storage.byte_size())
      return wrap_tensor(t);
    nb::list shape, strides;
    for (size_t d = 0; d < t->rank(); ++d) shape.append(t->shape()[d]);
    for (int64_t s : view != nullptr ? view->strides : dense_strides(t->shape())) strides.append(s);
    return nb::make_tuple(told->second.array, nb::tuple(shape), strides);
  }

  // Constants that passes made stand before the op that reads them first.
  void constant_now(Value* v, const Node& reader, const Slot* slot, Edits& edits) {
    if (v == nullptr || v->kind() != ValueKind::kConstant) return;
    const size_t known = values_.size();
    const uint32_t at = number(v);
    if (at < known) return;
    const std::string_view base = reader.name().empty() ? reader.op().name : reader.name().view();
    const std::string name = !v->name().empty() ? std::string(v->name().view())
                                                : fmt::format("{}_{}_0", base, slot != nullptr ? slot->name : "operand");
    nb::list results, result_names;
    results.append(at);
    result_names.append(name);
    edits.list.append(nb::make_tuple(nb::none(), value_now(v->constant()), name, nb::list(), results, result_names, nb::list(),
                                     sources(reader), number_or_none(edits.before), false));
  }

  nb::list sources(const Node& n) const {
    nb::list from;
    for (const Source& s : model_->provenance(n.provenance()).sources) {
      if (s.line > 0) from.append(s.line - 1);
    }
    return from;
  }

  void node_now(Node& n, uint32_t known, nb::list blocks, Edits& edits) {
    nb::list operands;
    for (size_t i = 0; i < n.num_inputs();) {
      const Slot* slot = slot_of(n.op(), i, n.num_inputs());
      const bool list = slot != nullptr && slot->arity == Arity::kVariadic;
      size_t end = i + 1;
      while (slot != nullptr && end < n.num_inputs()) {
        const Slot* next = slot_of(n.op(), end, n.num_inputs());
        if (list ? next != slot : n.op().known || next->name != slot->name) break;
        ++end;
      }
      if (n.input(i) != nullptr) {
        nb::list values;
        for (size_t k = i; k < end; ++k) {
          constant_now(n.input(k), n, slot, edits);
          values.append(number(n.input(k)));
        }
        operands.append(nb::make_tuple(slot != nullptr ? slot->name : std::string_view(), list, values));
      }
      i = end;
    }
    nb::list results, result_names;
    for (Value& v : n.results()) {
      results.append(number(&v));
      result_names.append(v.name().view());
    }
    if (known == kNone) {
      for (const Body& b : n.bodies()) blocks.append(whole_block(*b.graph));
    }
    nb::object type = nb::cast(n.op().name);
    if (known == kNone && n.has(Trait::kConstant) && n.result()->is_constant()) type = value_now(n.result()->constant());
    edits.list.append(nb::make_tuple(number_or_none(known), type, n.name().view(), operands, results, result_names, blocks,
                                     sources(n), number_or_none(edits.before), has_other_results(n)));
  }

  struct ToldArray {
    nb::object array;
    DType dtype = DType::kUndefined;
    size_t size = 0;  // bytes
  };

  struct KnownType {
    nb::object object;  // its address stands for it
    const Type* type = nullptr;
    std::string text;  // of types with unknown sizes
  };

  std::unique_ptr<Model> model_;
  ValueFacts facts_;
  Helper helper_;
  bool has_constexpr_ = false;
  std::unordered_map<PyObject*, KnownType> types_;
  std::unordered_map<PyTypeObject*, Kind> kinds_;
  std::map<std::string, TensorPtr, std::less<>> texts_;
  std::unordered_map<const std::byte*, ToldArray> arrays_;  // large ones, by their first element

  std::vector<Value*> values_;             // by number
  std::vector<const Type*> types_before_;  // of those that were told, when the passes began
  std::vector<nb::object> objects_;        // the variables
  std::vector<Name> value_names_;          // as they were told
  NumberOf numbers_;                       // of variables
  std::vector<ToldOp> ops_;                // by number
  std::vector<Value*> operands_;           // of the ops, as they were told
  std::unordered_map<const Graph*, ToldBlock> blocks_;
  // Constants, and values that coremltools knows, though no const makes them.
  std::unordered_map<const Tensor*, uint32_t> value_of_;
  std::vector<TensorPtr> told_payloads_;                       // what value_of_ points to is there as long as it is
  std::unordered_map<const Value*, const Type*> input_types_;  // as they were told
  std::unordered_map<const Value*, uint32_t> value_number_;    // filled when something changed
  std::unordered_map<const Node*, uint32_t> node_number_;

  // While an op is read.
  std::optional<int64_t> sample_;  // of its value, if that is not in order
  std::optional<int64_t> unseen_;  // what stands for the elements that the last payload did not show
  std::vector<std::pair<std::string_view, Value*>> slot_values_;
  std::vector<std::string_view> operand_slots_;
  std::vector<Value*> operand_values_;
};

}  // namespace

void bind_coreml_bridge(nb::module_& m) {
  nb::class_<Bridge>(m, "Bridge")
      .def(nb::init<int64_t>())
      .def("tell", &Bridge::tell)
      .def("keep", &Bridge::keep)
      .def("run", &Bridge::run)
      .def("op", &Bridge::op)
      .def("ops", &Bridge::ops)
      .def("var", &Bridge::var)
      .def("remember", &Bridge::remember)
      .def("has_constexpr", &Bridge::has_constexpr)
      .def("new_functions", &Bridge::new_functions)
      .def("whole_function", &Bridge::whole_function)
      .def("changes", &Bridge::changes);
}

}  // namespace sardonyx::python
