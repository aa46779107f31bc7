#include "native/options.h"

#include <cstdint>
#include <string>

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

}  // namespace sardonyx::python
