//   gather(E), matmul(x, W)    =>    gather(E), matmul<transpose_y = !transpose_y>(x, E)      if W is E transposed
//
// Language models use their embedding as last layer, and exporters store it twice, the second time
// transposed. W and E are constant matrices of one block with at least `threshold` elements (100). Only
// products use W; E may have any users, but if only products use both matrices, the first one stays. A
// product with W that fuse_matmul_weight_bias will fuse into a linear layer keeps W: a layer's weight is
// transposed anyway, and const_deduplication merges it with E. Weights with different keys (weight_key) stay
// apart.
//
// This gives what coremltools writes for a tied embedding of PyTorch, which it sees as one tensor.
#include <algorithm>
#include <unordered_map>

#include "ir/tensor/tensor_transform.h"
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr int64_t kSampled = 16;

// A hash of the first elements of the first row, or of the first column.
uint64_t sample(const Tensor& t, bool column) {
  const auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
  const int64_t count = std::min(t.shape()[column ? 0 : 1], kSampled);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * width);
  for (int64_t i = 0; i < count; ++i)
    t.read(column ? i * t.shape()[1] : i, std::span(bytes).subspan(static_cast<size_t>(i) * width, width));
  return Tensor::own(t.dtype(), {count}, std::move(bytes))->hash();
}

bool becomes_layer(const Node& product) {
  const Value& z = *product.result();
  if (!z.has_one_use()) return false;
  const Node* user = z.uses().begin()->owner;
  if (!user->is("add") && !user->is("sub")) return false;
  return std::ranges::any_of(user->operands(), [](const Use& u) { return u.value != nullptr && u.value->is_constant(); });
}

bool only_products(const Value& w) {
  return std::ranges::all_of(w.uses(), [](const Use& u) {
    return !u.owner->is_boundary() && u.owner->is("matmul") && !u.owner->unchecked() && !becomes_layer(*u.owner);
  });
}

class Share {
 public:
  Share(Graph& g, PassContext& context, int64_t threshold) : g_(g), context_(context), threshold_(threshold) {}

  size_t run() {
    size_t shared = 0;
    for (Value* v : matrices()) {
      Value* first = only_products(*v) ? transposed_of(*v) : nullptr;
      if (first == nullptr) {
        seen_.emplace(sample(*v->constant(), /*column=*/false), v);
        continue;
      }
      // Products with v may come before the other's const.
      if (Node* def = first->def(); def != nullptr && def != g_.first()) {
        g_.detach(*def);
        g_.insert_before(*g_.first(), *def);
      }
      while (v->has_uses()) flip(*v->uses().begin()->owner, *v, *first);
      if (Node* def = v->def()) g_.erase(*def);
      ++shared;
    }
    return shared;
  }

 private:
  // Matrices that stay in any case come first.
  std::vector<Value*> matrices() const {
    std::vector<Value*> all = constants_of(g_);
    std::erase_if(all, [&](const Value* v) {
      const Tensor& t = *v->constant();
      return !v->has_uses() || t.rank() != 2 || t.size() < threshold_ || t.is_splat() || t.is_promise() || !t.reads_in_pieces();
    });
    std::ranges::stable_partition(all, [](const Value* v) { return !only_products(*v); });
    return all;
  }

  Value* transposed_of(const Value& w) const {
    const TensorPtr& t = w.constant();
    const auto [begin, end] = seen_.equal_range(sample(*t, /*column=*/true));
    if (begin == end) return nullptr;
    const TensorPtr transpose = transposed(t, {1, 0});
    for (auto at = begin; at != end; ++at) {
      if (weight_key(*at->second) == weight_key(w) && at->second->constant()->equals(*transpose)) return at->second;
    }
    return nullptr;
  }

  void flip(Node& product, Value& w, Value& e) {
    Rewriter b(*product.graph(), context_);
    b.set_insertion_point(&product);
    b.set_provenance(product.provenance());
    const Matmul old_product(product, context_.facts);
    Value *x = old_product.x(), *y = old_product.y();
    Value* z = b.matmul(
        x == &w ? &e : x, y == &w ? &e : y,
        {.transpose_x = old_product.transpose_x() != (x == &w), .transpose_y = old_product.transpose_y() != (y == &w)});
    Value& old = *product.result();
    z->set_name(old.name());
    z->def()->set_name(product.name());
    old.graph()->replace_uses(old, *z);
    product.graph()->erase(product);
  }

  Graph& g_;
  PassContext& context_;
  int64_t threshold_;
  std::unordered_multimap<uint64_t, Value*> seen_;
};

}  // namespace

Pass share_transposed_weights() {
  return Pass::on_graph(Numerics::kExact,
                        [](Graph& top, PassContext& context) {
                          const int64_t threshold = context.options().number("threshold", 100);
                          size_t shared = 0;
                          for (Graph* g : graphs_in(top)) shared += Share(*g, context, threshold).run();
                          context.log.count("shared", shared);
                          return shared > 0;
                        })
      .option("threshold", "compare only matrices with at least this many elements (100)");
}

}  // namespace sardonyx::mil
