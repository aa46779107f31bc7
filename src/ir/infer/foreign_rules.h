// Type rules for operators outside the dialects' tables.
#pragma once

#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx {

// The type rule of an operator of another project's domain, or null. Everything else still treats such an
// operator as unknown: no pass, kernel or verifier looks at it, and a rule that fails leaves the types
// unchanged. Defined in src/dialects/onnx/infer/infer_microsoft.cc.
TypeRule foreign_type_rule(std::string_view domain, std::string_view name);

}  // namespace sardonyx
