#include "native/ir/store.h"

#include <fmt/format.h>

namespace sardonyx::python {

namespace {

// Values that nothing uses yet share models of this many values. A model per value would be slow to make, and
// one model for all would never be freed.
constexpr uint32_t kLobbyValues = 4096;

std::unordered_map<const Model*, std::weak_ptr<Store>>& stores_of_models() {
  static auto* table = new std::unordered_map<const Model*, std::weak_ptr<Store>>;
  return *table;
}

}  // namespace

void refuse_type(std::string_view message) {
  nb::object type = nb::module_::import_("sardonyx._error").attr("WrongType");
  PyErr_SetObject(type.ptr(), type(nb::str(message.data(), message.size())).ptr());
  throw nb::python_error();
}

StorePtr Store::make() {
  auto s = std::make_shared<Store>();
  s->model = std::make_shared<Model>(DialectId::kOnnx);
  // Operators are those of the newest opset until a graph imports another.
  if (int newest = dialect(DialectId::kOnnx).latest_version("")) s->model->set_opset_version("", newest);
  return s;
}

StorePtr Store::of(std::shared_ptr<Model> model) {
  std::weak_ptr<Store>& known = stores_of_models()[model.get()];
  if (StorePtr s = known.lock()) {
    if (s->model == model) return s;
  }
  auto s = std::make_shared<Store>();
  s->model = std::move(model);
  s->owned = true;
  known = s;
  return s;
}

Store::~Store() {
  auto known = stores_of_models().find(model.get());
  if (known != stores_of_models().end() && known->second.expired()) stores_of_models().erase(known);
}

StorePtr Store::now() {
  StorePtr s = shared_from_this();
  while (s->moved_to != nullptr) s = s->moved_to;
  return s;
}

StorePtr lobby() {
  // Never destroyed: it may hold Python objects, which must not be released after the interpreter has ended.
  static auto* current = new StorePtr;
  if (*current == nullptr || (*current)->model->value_id_limit() >= kLobbyValues) {
    *current = Store::make();
    (*current)->lobby = true;
  }
  return *current;
}

// ---------------------------------------------------------------------------------------------------------------------
// Handles

PythonClasses& python_classes() {
  static PythonClasses classes;
  return classes;
}

namespace {

template <class H, class T>
nb::object wrap_as(nb::handle type, const StorePtr& s, T* p) {
  if (p == nullptr) return nb::none();
  if (auto at = s->handles.find(p); at != s->handles.end()) {
    H& live_one = *static_cast<H*>(static_cast<Handle<T>*>(at->second));
    return nb::find(live_one);
  }
  nb::object o = nb::inst_alloc(type);
  new (nb::inst_ptr<H>(o)) H(s, p);
  nb::inst_mark_ready(o);
  return o;
}

}  // namespace

nb::object wrap(const StorePtr& s, Value* v) { return wrap_as<PyValue>(python_classes().value, s, v); }
nb::object wrap(const StorePtr& s, Node* n) { return wrap_as<PyNode>(python_classes().node, s, n); }
nb::object wrap(const StorePtr& s, Graph* g) { return wrap_as<PyGraph>(python_classes().graph, s, g); }
nb::object wrap_model(const StorePtr& s) { return wrap_as<PyModel>(python_classes().model, s, s->model.get()); }

nb::object wrap(const StorePtr& s, Function* f) {
  nb::object o = wrap_as<PyFunction>(python_classes().function, s, f);
  if (f != nullptr) {
    auto* h = nb::inst_ptr<PyFunction>(o);
    if (!h->graph.is_valid()) h->graph = wrap(s, &f->graph());
  }
  return o;
}

nb::object wrap_tensor(TensorPtr t, std::optional<std::string> name) {
  if (t == nullptr) return nb::none();
  nb::object o = nb::inst_alloc(python_classes().tensor);
  auto* h = new (nb::inst_ptr<PyTensor>(o)) PyTensor;
  h->tensor = std::move(t);
  h->name = std::move(name);
  nb::inst_mark_ready(o);
  return o;
}

Value& live(const PyValue& v) {
  if (v.ptr == nullptr) refuse("this value was never initialized", {"call Value.__init__ from your class"});
  if (v.ptr->kind() == ValueKind::kResult && !v.ptr->def()->alive()) {
    refuse(fmt::format("value '{}' is gone: its node was erased", v.ptr->name().view()),
           {"an optimization or another edit removed it; look it up in the graph again"});
  }
  return *v.ptr;
}

Node& live(const PyNode& n) {
  if (n.ptr == nullptr) refuse("this node was never initialized", {"call Node.__init__ from your class"});
  if (!n.ptr->alive()) {
    refuse(fmt::format("node '{}' ({}) is gone: it was erased", n.ptr->name().view(), n.ptr->op().name),
           {"an optimization or another edit removed it; look it up in the graph again"});
  }
  return *n.ptr;
}

Graph& live(const PyGraph& g) {
  if (g.ptr == nullptr) refuse("this graph was never initialized", {"call Graph.__init__ from your class"});
  return *g.ptr;
}

std::string describe(const Value& v) {
  std::string name = value_name(v);
  if (!name.empty()) return fmt::format("value '{}'", name);
  if (Node* n = v.def()) return fmt::format("result {} of {}", v.index(), describe(*n));
  return "an unnamed value";
}

std::string describe(const Node& n) {
  return n.name().empty() ? fmt::format("an unnamed {} node", n.op().name)
                          : fmt::format("node '{}' ({})", n.name().view(), n.op().name);
}

std::string describe(const Graph& g) {
  return g.name().empty() ? std::string("an unnamed graph") : fmt::format("graph '{}'", g.name().view());
}

}  // namespace sardonyx::python
