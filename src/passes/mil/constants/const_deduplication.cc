// Constants of a block that are equal, and constexpr ops of equal operands, become one: the first.
//
// Only constants with at least `const_threshold` elements (100 by default); never strings or boolean scalars.
// Contents are compared only if type, shape and a few elements agree. A result of the block keeps its own
// constant, and weights with different keys in memory (weight_key) stay apart. After coremltools' pass of
// this name, which also merges constants that differ by 1e-12.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "dialects/mil/sample.h"
#include "ir/tensor/tensor_view.h"
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

bool is_large(const TensorPtr& t, int64_t threshold) {
  const bool is_flag = t->dtype() == DType::kBool && t->rank() == 0;
  return t->dtype() != DType::kString && !is_flag && !t->is_promise() && t->size() >= threshold;
}

const Attr* known_sample(const Value& v) { return v.def() != nullptr ? v.def()->attr(kSampleAttribute) : nullptr; }

// A hash of a few of the first `count` elements.
int64_t sample_of(const TensorPtr& t, int64_t count) {
  const int bits = bit_width(t->dtype());
  if (bits < 8) return static_cast<int64_t>(t->hash() >> 1);
  const auto width = static_cast<size_t>(bits / 8);
  std::byte one[16];  // no element is wider
  if (const TensorView* view = view_of(t)) {
    const auto bytes = view->storage->stored_bytes();
    return sample(count, width, [&](int64_t i) {
      int64_t place = 0;
      for (size_t d = t->rank(); d-- > 0; i /= t->shape()[d]) place += i % t->shape()[d] * view->strides[d];
      return bytes.data() + static_cast<size_t>(place) * width;
    });
  }
  if (t->is_deferred() && t->reads_in_pieces()) {
    return sample(count, width, [&](int64_t i) {
      t->read(i, std::span(one).first(width));
      return static_cast<const std::byte*>(one);
    });
  }
  std::vector<std::byte> scratch;
  const auto bytes = t->is_splat() ? t->stored_bytes() : t->bytes(scratch);
  const size_t step = t->is_splat() ? 0 : width;
  return sample(count, width, [&](int64_t i) { return bytes.data() + static_cast<size_t>(i) * step; });
}

// Distinct constants of one type and sample. Compares contents if there are few; hashes them if there are
// more.
class Firsts {
 public:
  // Returns the constant that equals v; if there is none, adds v and returns null.
  Value* equal_to(Value& v) {
    if (hashed_.empty() && few_.size() < kFew) {
      for (Value* f : few_) {
        if (f->constant()->equals(*v.constant())) return f;
      }
      few_.push_back(&v);
      return nullptr;
    }
    for (Value* f : few_) hashed_.emplace(f->constant()->hash(), f);
    few_.clear();
    const uint64_t hash = v.constant()->hash();
    const auto [begin, end] = hashed_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      if (at->second->constant()->equals(*v.constant())) return at->second;
    }
    hashed_.emplace(hash, &v);
    return nullptr;
  }

 private:
  static constexpr size_t kFew = 4;
  std::vector<Value*> few_;
  std::multimap<uint64_t, Value*> hashed_;
};

constexpr int64_t kFirst = 16;  // elements

// Whether reading the first elements is cheaper than sample_of().
bool begins_quickly(const Value* v) {
  const TensorPtr& t = v->constant();
  return known_sample(*v) == nullptr && bit_width(t->dtype()) >= 8 && (!t->is_deferred() || t->reads_in_pieces());
}

size_t merge_constants(Graph& g, int64_t threshold) {
  std::map<std::tuple<DType, std::vector<int64_t>, std::string>, std::vector<Value*>> typed;
  for (Value* v : constants_of(g)) {
    const TensorPtr& t = v->constant();
    if (is_large(t, threshold)) typed[{t->dtype(), {t->shape().begin(), t->shape().end()}, weight_key(*v)}].push_back(v);
  }
  size_t merged = 0;
  std::vector<std::vector<Value*>> alike;
  for (const auto& [type, values] : typed) {
    if (values.size() < 2) continue;
    // Most constants differ in the first elements, and sampling all over a mapped weight costs as much as
    // reading much of it.
    std::map<int64_t, std::vector<Value*>> begun;
    const bool all_over = !std::ranges::all_of(values, begins_quickly);
    for (Value* v : values)
      begun[all_over ? 0 : sample_of(v->constant(), std::min(kFirst, v->constant()->size()))].push_back(v);
    for (const auto& [first, group] : begun) {
      if (group.size() < 2) continue;
      std::map<int64_t, std::vector<Value*>> sampled;
      for (Value* v : group) {
        const Attr* given = known_sample(*v);
        sampled[given != nullptr ? *given->get<int64_t>() : sample_of(v->constant(), v->constant()->size())].push_back(v);
      }
      for (auto& [sample, same] : sampled) alike.push_back(std::move(same));
    }
  }
  for (const std::vector<Value*>& values : alike) {
    if (values.size() < 2) continue;
    Firsts firsts;
    for (Value* v : values) {
      Value* first = firsts.equal_to(*v);
      if (first != nullptr && v->has_uses() && !is_block_result(*v)) {
        g.replace_uses(*v, *first);
        ++merged;
        if (Node* def = v->def()) g.erase(*def);
      }
    }
  }
  return merged;
}

// In memory, elements narrower than a byte stay with their owner, which knows which are equal.
size_t merge_unseen(Graph& g, int64_t threshold) {
  std::map<std::tuple<const Type*, int64_t, std::string>, Value*> firsts;
  size_t merged = 0;
  for (Node& n : g.nodes()) {
    const Attr* contents = n.has(Trait::kConstant) ? n.attr(kContentsAttribute) : nullptr;
    if (contents == nullptr) continue;
    Value* v = n.result();
    const Type* t = v->type();
    if (t == nullptr || !t->is_static() || *t->static_size() < threshold) continue;
    const auto [at, is_first] = firsts.emplace(std::tuple(t, *contents->get<int64_t>(), weight_key(*v)), v);
    if (is_first || !v->has_uses() || is_block_result(*v)) continue;
    g.replace_uses(*v, *at->second);
    g.erase(n);
    ++merged;
  }
  return merged;
}

// Identifies a value: by its content if that is small and stays with its owner.
std::string unseen_key(const Value& v, int64_t threshold) {
  const Node* def = v.def();
  const Attr* contents = def != nullptr && def->has(Trait::kConstant) ? def->attr(kContentsAttribute) : nullptr;
  const Type* t = v.type();
  if (contents == nullptr || t == nullptr || !t->is_static() || *t->static_size() >= threshold) return std::to_string(v.id());
  return fmt::format("#{} {}", *contents->get<int64_t>(), static_cast<const void*>(t));
}

size_t merge_constexprs(Graph& g, int64_t threshold) {
  std::map<std::string, Value*> firsts;
  size_t merged = 0;
  for (Node& n : g.nodes()) {
    if (!n.op().name.starts_with("constexpr_") || n.num_results() != 1) continue;
    std::string key = std::to_string(n.op().id) + weight_key(*n.result());
    for (const Use& u : n.operands()) {
      key += ';';
      if (u.value == nullptr) continue;
      const TensorPtr& t = u.value->constant();
      const bool by_value = t != nullptr && !is_large(t, threshold) && !t->is_promise();
      key += by_value ? "#" + std::to_string(t->hash()) : unseen_key(*u.value, threshold);
    }
    const auto [at, is_first] = firsts.emplace(std::move(key), n.result());
    if (is_first || is_block_result(*n.result())) continue;
    g.replace_uses(*n.result(), *at->second);
    g.erase(n);
    ++merged;
  }
  return merged;
}

}  // namespace

Pass const_deduplication() {
  return Pass::on_graph(Numerics::kExact,
                        [](Graph& top, PassContext& context) {
                          const int64_t threshold = context.options().number("const_threshold", 100);
                          size_t merged = 0;
                          for (Graph* g : graphs_in(top))
                            merged +=
                                merge_constants(*g, threshold) + merge_unseen(*g, threshold) + merge_constexprs(*g, threshold);
                          context.log.count("merged", merged);
                          return merged > 0;
                        })
      .option("const_threshold", "compare only constants with at least this many elements (100)");
}

}  // namespace sardonyx::mil
