// Type rules of operators that are in no dialect's table.
#pragma once

#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx {

// What types the results of an operator of another project's domain; null: nothing is known. Such an operator stays unknown to
// everything else: no pass, kernel or verifier looks at it, and a rule that fails leaves the types that were there.
// Defined in src/dialects/onnx/infer_microsoft.cc.
TypeRule foreign_type_rule(std::string_view domain, std::string_view name);

}  // namespace sardonyx
