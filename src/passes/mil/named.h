// Names that coremltools' passes give to new ops.
#pragma once

#include <string_view>

#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

// Names v and the op that computes it, unless the name is empty.
inline Value* named(Rewriter& b, Value* v, std::string_view name) {
  if (name.empty()) return v;
  v->set_name(b.model().name(name));
  v->def()->set_name(v->name());
  return v;
}

}  // namespace sardonyx::mil
