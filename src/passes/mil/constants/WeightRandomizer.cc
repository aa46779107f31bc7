//   const: w    =>    const: random numbers
//
// A model of the same structure, size and speed that reveals nothing of the training. Constants of ten or
// more elements that files store with the weights change: floats become numbers in [0, 1), 8-bit integers
// become zeros. The option `seed` asks for it; the same seed gives the same numbers on every machine. Without
// a seed the pass is a no-op. Relaxed: the values differ. After coremltools' pass of this name.
#include <algorithm>
#include <iterator>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr int64_t kWeight = 10;  // elements; smaller constants stay in the program
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// Element `index` of the random sequence `stream`, by splitmix64.
uint64_t random_at(uint64_t stream, uint64_t index) {
  uint64_t z = stream + (index + 1) * kGolden;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// A number in [0, 1) with as many bits as the type represents exactly.
double uniform(DType dtype, uint64_t bits) {
  return dtype == DType::kF16 ? static_cast<double>(bits >> 53) * 0x1p-11 : static_cast<double>(bits >> 40) * 0x1p-24;
}

TensorPtr random_like(const Tensor& t, uint64_t stream) {
  const DType dtype = t.dtype();
  const std::vector<int64_t> shape(t.shape().begin(), t.shape().end());
  if (!is_float(dtype)) return Tensor::full(dtype, shape, 0);
  const auto fill = [dtype, stream](int64_t first, std::span<std::byte> out) {
    const auto count = static_cast<int64_t>(out.size() / byte_size(dtype, 1));
    for (int64_t i = 0; i < count; ++i)
      encode_element(dtype, out.data(), i, uniform(dtype, random_at(stream, static_cast<uint64_t>(first + i))));
  };
  constexpr size_t kDeferBytes = 64 << 10;
  if (t.byte_size() > kDeferBytes) return Tensor::defer(dtype, shape, Tensor::Fill(fill));
  std::vector<std::byte> bytes(t.byte_size());
  fill(0, bytes);
  return Tensor::own(dtype, shape, std::move(bytes));
}

bool is_weight(const Value& v) {
  if (!v.is_constant() || v.constant()->size() < kWeight) return false;
  const DType d = v.dtype();
  return d == DType::kF16 || d == DType::kF32 || d == DType::kU8 || d == DType::kI8;
}

size_t randomize(Graph& top, uint64_t seed) {
  size_t changed = 0;
  uint64_t number = 0;
  for (Graph* g : graphs_in(top)) {
    std::vector<Value*> weights;
    std::ranges::copy_if(g->constants(), std::back_inserter(weights), [](Value* v) { return is_weight(*v); });
    for (Node& n : g->nodes()) {
      if (n.has(Trait::kConstant) && n.num_results() == 1 && is_weight(*n.result())) weights.push_back(n.result());
    }
    for (Value* v : weights) {
      const TensorPtr made = random_like(*v->constant(), random_at(seed, number++));
      if (!v->constant()->is_promise() && made->equals(*v->constant())) continue;
      Value* random = g->add_constant(made, v->name().view());
      g->replace_uses(*v, *random);
      if (v->def() != nullptr) {
        g->erase(*v->def());
      } else {
        g->erase_constant(*v);
      }
      ++changed;
    }
  }
  return changed;
}

}  // namespace

Pass WeightRandomizer() {
  return Pass::on_graph(Numerics::kRelaxed,
                        [](Graph& top, PassContext& context) {
                          const int64_t seed = context.options().number("seed", -1);
                          const size_t changed = seed < 0 ? 0 : randomize(top, static_cast<uint64_t>(seed));
                          context.log.count("weights", changed);
                          return changed > 0;
                        })
      .option("seed", "seed of the random numbers; without it nothing changes");
}

}  // namespace sardonyx::mil
