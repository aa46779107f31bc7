#include "sardonyx/builder.h"

#include <algorithm>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

constexpr size_t kShareBytes = 1024;

bool is_small(const Tensor& t) {
  if (t.is_deferred() || t.dtype() == DType::kString) return false;
  return t.is_splat() || t.byte_size() <= kShareBytes;
}

// Throws for an operator newer than the opset that the model imports: no reader of the file would know it.
void refuse_newer(const Model& m, std::string_view domain, std::string_view name) {
  const auto imported = m.opset_version(domain);
  if (!imported) return;
  const Dialect& d = dialect(m.dialect());
  for (int version = static_cast<int>(*imported) + 1; version <= d.latest_version(domain); ++version) {
    if (d.find(domain, name, version) != nullptr) {
      throw Error(ErrorCode::kUnsupported, "ONNX operator " + std::string(name) + " needs opset " + std::to_string(version) +
                                               "; the model imports opset " + std::to_string(*imported));
    }
  }
}

}  // namespace

Value* Builder::op(std::string_view name, std::span<Value* const> inputs, AttrInit attrs, std::string_view domain) {
  return node(name, inputs, 1, std::move(attrs), domain).result(0);
}

Node& Builder::node(std::string_view name, std::span<Value* const> inputs, size_t num_results, AttrInit attrs,
                    std::string_view domain, std::span<const Body> bodies) {
  const Op& op = model().op(domain, name);
  if (!op.known) refuse_newer(model(), domain, name);
  return make(op, inputs, num_results, std::move(attrs), bodies);
}

Node& Builder::make(const Op& op, std::span<Value* const> inputs, size_t num_results, AttrInit attrs,
                    std::span<const Body> bodies) {
  Node& n = model().new_node(op, inputs, num_results, model().attrs(std::move(attrs)));
  for (const Body& body : bodies) n.add_body(body.name, *body.graph);
  n.set_provenance(provenance_);
  if (before_ != nullptr) {
    graph_->insert_before(*before_, n);
  } else {
    graph_->append(n);
  }
  try {
    infer_node(n, *facts_);
  } catch (...) {
    graph_->erase(n);
    throw;
  }
  return n;
}

bool Builder::constants_are_nodes() const {
  if (model().dialect() != DialectId::kOnnx) return false;
  const Graph* root = graph_;
  while (root->parent() != nullptr) {
    if (root->parent()->graph() == nullptr) return false;  // the body's node is not in a graph yet
    root = root->parent()->graph();
  }
  return root->function() != nullptr && root->function() != &model().main();
}

Value* Builder::constant_node(TensorPtr payload, std::string_view name) {
  Node& n = model().new_node(model().op("", "Constant"), {}, 1);
  n.set_provenance(provenance_);
  if (before_ != nullptr) {
    graph_->insert_before(*before_, n);
  } else {
    graph_->append(n);
  }
  Value* v = n.result(0);
  if (!name.empty()) v->set_name(model().name(name));
  v->set_type(types().tensor(payload->dtype(), payload->shape()));
  graph_->set_constant(*v, std::move(payload));
  n.set_unchecked(false);
  return v;
}

Value* Builder::constant(TensorPtr payload, std::string_view name) {
  SX_CHECK(payload != nullptr);
  const bool as_node = constants_are_nodes();
  // Constant nodes have a position. Sharing is safe only when appending: otherwise the shared node may come
  // after its user.
  const bool share = name.empty() && is_small(*payload) && !(as_node && before_ != nullptr);
  uint64_t hash = 0;
  if (share) {
    if (!as_node) {
      const auto all = graph_->constants();
      constants_seen_ = std::min(constants_seen_, all.size());  // undone constants were the last ones
      for (; constants_seen_ < all.size(); ++constants_seen_) {
        Value* v = all[constants_seen_];
        if (v->constant() && is_small(*v->constant())) small_constants_.emplace(v->constant()->hash(), v);
      }
    }
    hash = payload->hash();
    const auto [first, last] = small_constants_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      Value& known = *it->second;
      if (known.graph() == graph_ && known.constant() && known.constant()->equals(*payload)) return &known;
    }
  }
  if (as_node) {
    Value* v = constant_node(std::move(payload), name);
    if (share) small_constants_.emplace(hash, v);
    return v;
  }
  Value* v = graph_->add_constant(std::move(payload), name);
  if (share) {
    small_constants_.emplace(hash, v);
    if (constants_seen_ + 1 == graph_->constants().size()) ++constants_seen_;
  }
  return v;
}

Value* Builder::i64(int64_t v) { return constant(Tensor::scalar(v)); }

Value* Builder::i64s(std::span<const int64_t> v) { return constant(Tensor::vector(v)); }

Value* Builder::scalar(DType dtype, double v) { return constant(Tensor::full(dtype, {}, v)); }

Value* Builder::scalar_int(DType dtype, int64_t v) {
  if (!is_integer(dtype) && dtype != DType::kBool) {
    throw Error(ErrorCode::kInvalidArgument, "scalar_int() makes integers and bools, not " + std::string(to_string(dtype)));
  }
  // Little-endian two's complement: the low bytes are the narrower value, and the low bits the packed one.
  if (dtype == DType::kBool) v = v != 0;
  if (bit_width(dtype) < 8) v &= (int64_t{1} << bit_width(dtype)) - 1;
  return constant(Tensor::of<std::byte>(dtype, {}, std::as_bytes(std::span<const int64_t>(&v, 1)).first(byte_size(dtype, 1))));
}

Value* Builder::full(DType dtype, std::vector<int64_t> shape, double v) {
  return constant(Tensor::full(dtype, std::move(shape), v));
}

}  // namespace sardonyx
