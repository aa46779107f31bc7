// Names that coremltools' passes give to what they make.
#pragma once

#include <string_view>

#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

// Calls the op that made v, and v, by a name; not where that would be nothing.
inline Value* named(Rewriter& b, Value* v, std::string_view name) {
  if (name.empty()) return v;
  v->set_name(b.model().name(name));
  v->def()->set_name(v->name());
  return v;
}

}  // namespace sardonyx::mil
