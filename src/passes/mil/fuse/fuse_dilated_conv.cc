//   x ── space_to_batch<b> ── conv ── batch_to_space<b> ── y    =>    x ── conv<dilations=b> ── y
//
// Two-dimensional convolutions only. Paddings, if any, must be those of `same`: half of the dilated kernel's
// reach, and at the end enough to fill the last block, which the crops remove again. A convolution with its
// own paddings, strides or dilations stays, since these act between blocks. Values in between must have no
// other users. After coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, conv{"conv"}, blocks{"blocks"};

bool all(const std::optional<std::vector<int64_t>>& v, int64_t wanted) {
  return v && std::ranges::all_of(*v, [=](int64_t e) { return e == wanted; });
}

bool is_plain(const Conv& layer) {
  const auto pad_type = layer.pad_type();
  if (pad_type != "valid" && (pad_type != "custom" || !all(layer.pad(), 0))) return false;
  return all(layer.strides(), 1) && all(layer.dilations(), 1);
}

// Whether paddings and crops are those of `same` for an axis of this size.
bool is_same(int64_t size, int64_t kernel, int64_t block, const int64_t* paddings, const int64_t* crops) {
  const int64_t reach = block * (kernel - 1), before = reach / 2, after = reach - before;
  const int64_t extra = (block - (size + reach) % block) % block;
  return paddings[0] == before && paddings[1] == after + extra && crops[0] == 0 && crops[1] == extra;
}

}  // namespace

Pass fuse_dilated_conv() {
  using namespace pattern;
  namespace m = pattern::mil;
  return Rule{
      .numerics = Numerics::kRounds,  // sums over the kernel may be taken in another order
      .match = m::batch_to_space(sole(m::conv(sole(m::space_to_batch(x)).as(blocks))).as(conv)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const SpaceToBatch there(found.node(blocks), b.facts());
        const BatchToSpace back(found.root(), b.facts());
        const Conv layer(found.node(conv), b.facts());
        const auto block = there.block_shape(), paddings = there.paddings(), crops = back.crops();
        const Value* weight = layer.weight();
        // space_to_batch takes rank 4 only.
        if (!block || block != back.block_shape() || !paddings || !crops || !is_plain(layer) || weight == nullptr ||
            !weight->ranked() || !found[x]->ranked())
          return nullptr;
        Rewriter::Text pad_type = layer.value_in("pad_type");
        if (!all(paddings, 0)) {
          for (size_t i = 0; i < 2; ++i) {
            const Dim size = found.type(x)->dim(i + 2), kernel = weight->type()->dim(i + 2);
            if (!size.is_int() || !kernel.is_int() ||
                !is_same(size.value(), kernel.value(), (*block)[i], &(*paddings)[2 * i], &(*crops)[2 * i]))
              return nullptr;
          }
          pad_type = "same";
        } else if (!all(crops, 0)) {
          return nullptr;
        }
        return b.like(found.node(conv), {{"x", found[x]}, {"dilations", *block}, {"pad_type", pad_type}});
      },
  };
}

}  // namespace sardonyx::mil
