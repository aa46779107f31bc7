//   x ── pad ── transpose ── conv    =>    x ── transpose ── pad ── conv
//
// The pad and the convolution can then become one. Each user of the pad must be a transpose with a
// convolution as user; axes without padding stay so. After coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

bool feeds_convolution(const Value& v) {
  return std::ranges::any_of(v.uses(), [](const Use& u) { return u.owner->op().name.find("conv") != std::string_view::npos; });
}

}  // namespace

Pass fuse_pad_conv() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, padded{"padded"};
  return Rule{
      .match = m::transpose(m::pad(x).as(padded)),
      .when =
          [](const Match& found) {
            return std::ranges::all_of(found[padded]->uses(), [](const Use& u) {
              return u.owner->is("transpose") && feeds_convolution(*u.owner->result());
            });
          },
      .build = [](Rewriter& b, const Match& found) -> Value* {
        Node& pad = found.node(padded);
        const auto amounts = Pad(pad, b.facts()).pad();
        const auto perm = Transpose(found.root(), b.facts()).perm();
        if (!amounts || !perm || amounts->size() > 2 * perm->size()) return nullptr;
        const size_t rank = perm->size(), missing = 2 * rank - amounts->size();
        std::vector<int64_t> all(*amounts);
        all.insert(all.begin(), missing, 0);
        std::vector<int64_t> pads(all);
        for (size_t i = 0; i < rank; ++i) {
          const auto axis = static_cast<size_t>((*perm)[i]);
          pads[2 * i] = all[2 * axis];
          pads[2 * i + 1] = all[2 * axis + 1];
        }
        const auto tail = pads.begin() + static_cast<std::ptrdiff_t>(missing);
        if (std::any_of(pads.begin(), tail, [](int64_t p) { return p != 0; })) return nullptr;
        Value* transposed = b.like(found.root(), {{"x", found[x]}});
        return b.like(pad, {{"x", transposed}, {"pad", std::vector<int64_t>(tail, pads.end())}});
      },
  };
}

}  // namespace sardonyx::mil
