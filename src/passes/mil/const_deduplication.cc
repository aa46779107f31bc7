// Constants of a block that are equal, and constexpr ops of equal operands, become one: the first.
//
// Only those with at least `const_threshold` elements, 100 unless said otherwise. Contents are hashed only where type and shape agree. A
// result of the block keeps its own. After coremltools' pass of this name, which also merges constants that differ by 1e-12.
#include <map>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

bool is_large(const TensorPtr& t, int64_t threshold) {
  return t->dtype() != DType::kString && t->rank() > 0 && !t->is_promise() && t->size() >= threshold;
}

std::vector<Value*> constants_of(Graph& g) {
  std::vector<Value*> all(g.constants().begin(), g.constants().end());
  for (Node& n : g.nodes()) {
    if (n.has(Trait::kConstant) && n.result()->is_constant()) all.push_back(n.result());
  }
  return all;
}

size_t merge_constants(Graph& g, int64_t threshold) {
  std::map<std::pair<DType, std::vector<int64_t>>, std::vector<Value*>> alike;
  for (Value* v : constants_of(g)) {
    const TensorPtr& t = v->constant();
    if (is_large(t, threshold)) alike[{t->dtype(), {t->shape().begin(), t->shape().end()}}].push_back(v);
  }
  size_t merged = 0;
  for (const auto& [type, values] : alike) {
    if (values.size() < 2) continue;
    std::multimap<uint64_t, Value*> firsts;
    for (Value* v : values) {
      const uint64_t hash = v->constant()->hash();
      const auto [begin, end] = firsts.equal_range(hash);
      auto at = begin;
      while (at != end && !at->second->constant()->equals(*v->constant())) ++at;
      if (at == end) {
        firsts.emplace(hash, v);
      } else if (v->has_uses() && !is_graph_result(*v)) {
        g.replace_uses(*v, *at->second);
        ++merged;
        if (Node* def = v->def()) g.erase(*def);
      }
    }
  }
  return merged;
}

size_t merge_constexprs(Graph& g, int64_t threshold) {
  std::map<std::string, Value*> firsts;
  size_t merged = 0;
  for (Node& n : g.nodes()) {
    if (!n.op().name.starts_with("constexpr_") || n.num_results() != 1) continue;
    std::string key = std::to_string(n.op().id);
    for (const Use& u : n.operands()) {
      key += ';';
      if (u.value == nullptr) continue;
      const TensorPtr& t = u.value->constant();
      const bool by_value = t != nullptr && !is_large(t, threshold) && !t->is_promise();
      key += by_value ? "#" + std::to_string(t->hash()) : std::to_string(u.value->id());
    }
    const auto [at, is_first] = firsts.emplace(std::move(key), n.result());
    if (is_first || is_graph_result(*n.result())) continue;
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
                          const int64_t threshold = context.number("const_threshold", 100);
                          size_t merged = 0;
                          for (Graph* g : graphs_in(top))
                            merged += merge_constants(*g, threshold) + merge_constexprs(*g, threshold);
                          if (merged > 0) context.count("merged", merged);
                          return merged > 0;
                        })
      .option("const_threshold", "the least number of elements of constants that are compared (100)");
}

}  // namespace sardonyx::mil
