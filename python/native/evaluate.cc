#include "native/evaluate.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "native/ir/store.h"
#include "native/unlocked.h"
#include "sardonyx/eval.h"

namespace sardonyx::python {

// None is an absent value, a tensor a tensor, a list a sequence. Tuples are ("optional", value or None) and
// ("map", whether keys are integers, [(key, value), ...]).
EvalValue eval_value(nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<PyTensor>(h)) return EvalValue(nb::cast<const PyTensor&>(h).tensor);
  if (nb::isinstance<nb::list>(h)) {
    std::vector<EvalValue> items;
    for (nb::handle item : h) items.push_back(eval_value(item));
    return EvalValue::sequence(std::move(items));
  }
  const auto tuple = nb::cast<nb::tuple>(h);
  if (nb::cast<std::string>(tuple[0]) == "optional") {
    if (tuple[1].is_none()) return EvalOptional{};
    return EvalOptional{std::make_shared<const EvalValue>(eval_value(tuple[1]))};
  }
  auto map = std::make_shared<EvalMap>();
  map->key = nb::cast<bool>(tuple[1]) ? DType::kI64 : DType::kString;
  for (nb::handle entry : tuple[2]) {
    const auto pair = nb::cast<nb::tuple>(entry);
    EvalValue v = eval_value(pair[1]);
    if (map->key == DType::kI64) {
      map->entries.emplace_back(nb::cast<int64_t>(pair[0]), std::move(v));
    } else {
      map->entries.emplace_back(nb::cast<std::string>(pair[0]), std::move(v));
    }
  }
  return EvalValue(std::shared_ptr<const EvalMap>(std::move(map)));
}

nb::object eval_object(const EvalValue& v) {
  if (const Array* a = v.array()) return wrap_tensor(a->to_tensor());
  if (const auto* items = v.items()) {
    nb::list out;
    for (const EvalValue& item : *items) out.append(eval_object(item));
    return out;
  }
  if (const EvalOptional* o = v.optional()) return o->value ? eval_object(*o->value) : nb::object(nb::none());
  if (const EvalMap* map = v.map()) {
    nb::dict out;
    for (const auto& [key, value] : map->entries) {
      const nb::object k = std::visit([](const auto& x) { return nb::object(nb::cast(x)); }, key);
      out[k] = eval_object(value);
    }
    return out;
  }
  return nb::none();
}

void bind_evaluate(nb::module_& m) {
  m.def(
      "evaluate",
      [](PyModel& model, nb::list inputs, uint64_t seed, uint64_t memory_limit, uint64_t max_steps, bool fast) {
        const std::shared_ptr<Model> native = model.store->now()->model;
        std::vector<EvalValue> values;
        for (nb::handle h : inputs) values.push_back(eval_value(h));
        EvalOptions options{.seed = seed, .max_steps = max_steps, .fast_products = fast};
        if (memory_limit > 0) options.memory_cap = memory_limit;
        std::vector<EvalValue> results;
        {
          const Unlocked others_may_run;
          check_inputs(native->graph(), values);
          results = evaluate(native->graph(), values, options);
          values.clear();
        }
        nb::list out;
        for (const EvalValue& v : results) out.append(eval_object(v));
        return out;
      },
      nb::arg("model"), nb::arg("inputs"), nb::arg("seed"), nb::arg("memory_limit"), nb::arg("max_steps"), nb::arg("fast"),
      "Runs the model's main graph.");
  m.def(
      "can_evaluate",
      [](const std::string& domain, const std::string& name, int version) {
        const Op* op = dialect(DialectId::kOnnx).find(domain, name, version);
        return op != nullptr && can_evaluate(*op);
      },
      nb::arg("domain"), nb::arg("name"), nb::arg("version"), "Whether there is a kernel for the operator.");
}

}  // namespace sardonyx::python
