#include "sardonyx/inspect.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

namespace sardonyx {
namespace {

class Counter {
 public:
  ModelCounts counts;

  explicit Counter(const Model& m) : by_op_(m.op_id_limit()) {}

  void graph(const Graph& top) {
    std::vector<const Graph*> todo{&top};
    while (!todo.empty()) {
      const Graph& g = *todo.back();
      todo.pop_back();
      for (const Value* v : g.constants()) tensor(*v->constant());
      for (const Port& p : g.inputs()) {
        if (p.default_value) tensor(*p.default_value);
      }
      for (const Node& n : g.nodes()) {
        ++counts.nodes;
        counts.nested += g.parent() != nullptr ? 1 : 0;
        if (n.op().id >= by_op_.size()) by_op_.resize(n.op().id + 1);
        auto& [op, count] = by_op_[n.op().id];
        op = &n.op();
        ++count;
        if (n.extra() != nullptr && n.extra()->payload) tensor(*n.extra()->payload);
        for (const Value& v : n.results()) {
          ++counts.values;
          counts.untyped += v.type() == nullptr ? 1 : 0;
        }
        for (const Body& b : n.bodies()) todo.push_back(b.graph);
      }
    }
  }

  ModelCounts result() {
    for (const auto& [op, count] : by_op_) {
      if (count == 0) continue;
      counts.ops[op->domain.empty() ? std::string(op->name) : fmt::format("{}.{}", op->domain, op->name)] += count;
    }
    return std::move(counts);
  }

 private:
  void tensor(const Tensor& t) {
    ++counts.tensors;
    if (!t.is_deferred() && !t.stored_bytes().empty() && !seen_.insert(t.stored_bytes().data()).second) return;
    counts.parameters += static_cast<uint64_t>(t.size());
    uint64_t size = t.is_splat() ? t.stored_bytes().size() : t.byte_size();
    for (const std::string& s : t.string_values()) size += s.size();
    counts.bytes += size;
    counts.weight_bytes[t.dtype()] += size;
  }

  std::vector<std::pair<const Op*, size_t>> by_op_;  // by Op::id
  std::set<const std::byte*> seen_;
};

}  // namespace

ModelCounts count_model(const Model& m) {
  Counter c(m);
  for (const auto& f : m.functions()) c.graph(f->graph());
  return c.result();
}

}  // namespace sardonyx
