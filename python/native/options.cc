#include "native/options.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "native/evaluate.h"

namespace sardonyx::python {

namespace nb = nanobind;

void decode(nb::handle given, std::vector<InputShape>& to) {
  for (const auto& [name, sizes] : nb::cast<nb::dict>(given)) {
    InputShape shape{.input = nb::cast<std::string>(name), .sizes = {}};
    for (nb::handle size : nb::cast<nb::sequence>(sizes)) {
      if (size.is_none() || (nb::isinstance<nb::int_>(size) && nb::cast<int64_t>(size) == -1)) {
        shape.sizes.emplace_back();
      } else if (nb::isinstance<nb::str>(size)) {
        shape.sizes.emplace_back(nb::cast<std::string>(size));
      } else {
        shape.sizes.emplace_back(nb::cast<int64_t>(size));
      }
    }
    to.push_back(std::move(shape));
  }
}

void decode(nb::handle given, std::vector<NamedTensors>& to) {
  for (nb::handle run : nb::cast<nb::list>(given)) {
    NamedTensors& inputs = to.emplace_back();
    for (const auto& [name, value] : nb::cast<nb::dict>(run)) {
      const EvalValue v = eval_value(value);
      if (v.array() == nullptr)
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the input '{}' of a run is no array", nb::cast<std::string>(name)));
      inputs.emplace_back(nb::cast<std::string>(name), v.array()->to_tensor());
    }
  }
}

}  // namespace sardonyx::python
