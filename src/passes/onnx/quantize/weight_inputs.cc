#include "passes/onnx/quantize/weight_inputs.h"

#include <numeric>

#include "eval/onnx/window.h"
#include "passes/compress/groups.h"
#include "rewrite/values.h"

namespace sardonyx::onnx {
namespace {

std::vector<float> numbers_of(const Array& x) {
  const TensorPtr t = x.to_tensor();
  const compress::Floats floats(*t);
  std::vector<float> numbers;
  numbers.reserve(static_cast<size_t>(x.size()));
  for (int64_t i = 0; i < x.size(); ++i) numbers.push_back(floats[i]);
  return numbers;
}

// Adds what the window covers at each of its positions, image by image.
void add_patches(const Node& conv, const Array& x, compress::Moments& moments) {
  const auto kernel = conv.operands()[1].value->constant()->shape();
  eval::Run run(EvalOptions{});
  eval::Call call(conv, {}, run);
  const eval::Window w = eval::window_of(call, std::span(x.shape()).subspan(2), {kernel.begin() + 2, kernel.end()});
  const std::vector<int64_t> sources = eval::sources_of(w);
  const int64_t plane = eval::product(w.size), channels = x.dim(1), places = w.kernel_size(), positions = w.out_size();
  if (channels * places != moments.size()) return;
  const std::vector<float> all = numbers_of(x);
  for (int64_t image = 0; image < x.dim(0); ++image) {
    std::vector<float> patches;
    patches.reserve(static_cast<size_t>(positions * moments.size()));
    for (int64_t position = 0; position < positions; ++position) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const float* from = all.data() + (image * channels + channel) * plane;
        for (int64_t place = 0; place < places; ++place) {
          const int64_t at = sources[static_cast<size_t>(place * positions + position)];
          patches.push_back(at < 0 ? 0 : from[at]);
        }
      }
    }
    moments.add(patches);
  }
}

}  // namespace

std::optional<Vectors> vectors_of(const Use& reader) {
  using Are = Vectors::Are;
  const Node& n = *reader.owner;
  const bool is_left = &reader == n.operands().data();
  const Value* other = n.operands()[is_left ? 1 : 0].value;
  if (n.is("MatMul")) return Vectors{other, is_left ? Are::kColumns : Are::kRows};
  if (n.is("Gemm")) {
    const auto transposed = int_attr(n, "transA");
    if (!transposed) return std::nullopt;
    return Vectors{other, *transposed == 0 ? Are::kRows : Are::kColumns};
  }
  if (n.is("Conv") && int_attr(n, "group") == 1 && reader.value->is_constant()) return Vectors{other, Are::kPatches, &n};
  return std::nullopt;
}

void add_vectors(const Vectors& vectors, const Array& x, compress::Moments& moments) {
  if (x.size() == 0) return;
  if (vectors.are == Vectors::Are::kPatches) return add_patches(*vectors.windows, x, moments);
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  if (vectors.are == Vectors::Are::kColumns && x.rank() > 1) std::swap(perm[x.rank() - 1], perm[x.rank() - 2]);
  const Array rows = x.transposed(perm);
  if (rows.rank() > 0 && rows.dim(rows.rank() - 1) == moments.size()) moments.add(numbers_of(rows));
}

}  // namespace sardonyx::onnx
