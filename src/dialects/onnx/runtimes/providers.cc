#include "dialects/onnx/runtimes/providers.h"

#include <algorithm>

namespace sardonyx::onnx {
namespace {

#define SX_PROVIDER(name, source) constexpr ProviderOp k##name[] = {
#define SX_PROVIDER_OP(domain, name, first, last) {domain, name, first, last},
#define SX_PROVIDER_END \
  }                     \
  ;
#include "dialects/onnx/generated/providers.gen.inc"
#undef SX_PROVIDER
#undef SX_PROVIDER_OP
#undef SX_PROVIDER_END

}  // namespace

bool Provider::lists(const Op& op) const {
  return std::ranges::any_of(ops, [&](const ProviderOp& o) {
    return o.name == op.name && o.domain == op.domain && op.since_version >= o.first &&
           (o.last == 0 || op.since_version <= o.last);
  });
}

std::span<const Provider> providers() {
  static constexpr Provider kAll[] = {
#define SX_PROVIDER(name, source) {#name, source, k##name},
#define SX_PROVIDER_OP(domain, name, first, last)
#define SX_PROVIDER_END
#include "dialects/onnx/generated/providers.gen.inc"
#undef SX_PROVIDER
#undef SX_PROVIDER_OP
#undef SX_PROVIDER_END
  };
  return kAll;
}

}  // namespace sardonyx::onnx
