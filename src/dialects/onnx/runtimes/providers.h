// The operators that onnxruntime's execution providers other than the CPU publish. What a provider does not
// run stays on the CPU, with copies between the two.
//
// The facts are in providers.gen.inc, which scripts/tables/gen_provider_ops.py makes of the providers' own
// pages. Pages state operators and versions; conditions on types and attributes are prose there and not known
// here.
#pragma once

#include <span>
#include <string_view>

#include "sardonyx/op.h"

namespace sardonyx::onnx {

struct ProviderOp {
  std::string_view domain, name;
  int first = 1, last = 0;  // versions; last = 0: no end
};

struct Provider {
  std::string_view name;    // "WebGPU"
  std::string_view source;  // "onnxruntime-web 1.30.0"
  std::span<const ProviderOp> ops;

  // Whether the page lists this version of the operator.
  bool lists(const Op& op) const;
};

std::span<const Provider> providers();

}  // namespace sardonyx::onnx
