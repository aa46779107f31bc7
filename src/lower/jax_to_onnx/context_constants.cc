// Constants of the program, and constants that lowerings compute from them.
#include "lower/jax_to_onnx/context.h"

#include <algorithm>

#include "lower/jax_to_onnx/lib/pairs.h"

namespace sardonyx::jax_to_onnx {
namespace {

// Constants above this many bytes are stored once, in the main graph, however often the program uses them.
constexpr size_t kSharedConstantBytes = 64;

// Views complex numbers as pairs of reals: the same bytes.
TensorPtr as_stored(TensorPtr t) {
  if (!is_complex(t->dtype())) return t;
  const DType part = pair_part(t->dtype());
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  shape.push_back(2);
  if (!t->is_splat() && !t->is_deferred()) return Tensor::borrow(part, std::move(shape), t->stored_bytes(), t, t->file());
  std::vector<std::byte> scratch;
  auto bytes = t->bytes(scratch);
  return Tensor::own(part, std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace

Value* Context::add_constant(const Value& jax, Builder& b) {
  TensorPtr payload = jax.constant();
  if (payload->byte_size() <= kSharedConstantBytes) return b.constant(as_stored(std::move(payload)), jax.name());
  Value*& shared = large_constants_[payload.get()];
  if (shared == nullptr) shared = main_.constant(as_stored(payload), jax.name());
  return shared;
}

Value* Context::derived_constant(Value& source, std::string_view op, const std::vector<int64_t>& argument,
                                 const std::function<TensorPtr()>& compute) {
  auto [at, inserted] = derived_by_key_.try_emplace({&source, std::string(op), argument}, nullptr);
  if (inserted) {
    at->second = source.graph()->add_constant(compute());
    derived_.push_back({&source, std::string(op), argument, at->second});
  }
  return at->second;
}

void Context::settle_constants() {
  // How many forms of each constant are used, including forms of forms. Goes backward, since later forms may
  // derive from earlier ones.
  std::unordered_map<const Value*, size_t> forms;
  std::unordered_map<const Value*, const Value*> source_of_form;
  for (size_t i = derived_.size(); i-- > 0;) {
    const Derived& d = derived_[i];
    source_of_form[d.value] = d.source;
    if (d.value->has_uses() || forms[d.value] > 0) ++forms[d.source];
  }
  const auto would_be_twice = [&](const Derived& d) {
    for (const Value* from = d.source; from != nullptr;) {
      if ((from->has_uses() || forms[from] > 1) && from->constant()->byte_size() > kSharedConstantBytes) return true;
      const auto next = source_of_form.find(from);
      from = next == source_of_form.end() ? nullptr : next->second;
    }
    return false;
  };
  for (size_t i = derived_.size(); i-- > 0;) {
    const Derived& d = derived_[i];
    if (!d.value->has_uses()) continue;
    const bool shared = d.source->has_uses() || forms[d.source] > 1;
    if (would_be_twice(d)) {
      Graph& g = *d.value->graph();
      OnnxBuilder b(g, facts_);
      b.set_insertion_point(g.first());
      Value* node = d.op == "Reshape"     ? b.Reshape(d.source, b.i64s(d.argument))
                    : d.op == "Transpose" ? b.Transpose(d.source, {.perm = d.argument})
                                          : b.Cast(d.source, {.to = static_cast<DType>(d.argument[0])});
      g.replace_uses(*d.value, *node);
    } else if (!shared) {
      d.value->set_name(d.source->name());
    }
  }
}

}  // namespace sardonyx::jax_to_onnx
