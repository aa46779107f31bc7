#include "rewrite/op_bits.h"

#include <fmt/format.h>

#include <vector>

#include "ir/graph/graph_summary.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// The bits of a dialect's operators, by id. Versions of one operator share a bit; adjacent operators differ.
struct Bits {
  uint32_t first = 0;
  std::vector<uint8_t> places;

  explicit Bits(DialectId d) {
    const std::span<const Op> ops = dialect(d).ops();
    if (!ops.empty()) first = ops.front().id;
    uint8_t place = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i > 0 && (ops[i].name != ops[i - 1].name || ops[i].domain != ops[i - 1].domain)) ++place;  // wraps around
      places.push_back(place);
    }
  }
  // All bits for an operator that no table knows.
  OpBits of(uint32_t id) const { return id - first < places.size() ? OpBits().set(places[id - first]) : OpBits().set(); }
  static const Bits& of(DialectId d) {
    static const Bits& onnx = *new Bits(DialectId::kOnnx);
    static const Bits& mil = *new Bits(DialectId::kMil);
    return d == DialectId::kMil ? mil : onnx;
  }
};

}  // namespace

OpBits op_bits(uint32_t id, DialectId d) { return Bits::of(d).of(id); }

OpBits op_bits(const Model& m) {
  const Bits& bits = Bits::of(m.dialect());
  const std::span<const uint32_t> counts = op_counts(m);
  OpBits have;
  for (size_t id = bits.first; id < counts.size(); ++id) {
    if (counts[id] > 0) have |= bits.of(static_cast<uint32_t>(id));
  }
  return have;
}

OpBits op_bits(const Graph& g) {
  const Bits& bits = Bits::of(g.model().dialect());
  OpBits have;
  for (const Node& n : g.nodes()) have |= bits.of(n.op().id);
  return have;
}

OpBits op_bits(std::span<const std::string_view> names, DialectId d) {
  const Bits& bits = Bits::of(d);
  OpBits wanted;
  for (std::string_view name : names) {
    const bool is_prefix = name.ends_with('*');
    if (is_prefix) name.remove_suffix(1);
    bool found = false;
    for (const Op& op : dialect(d).ops()) {
      if (!op.domain.empty() || !(is_prefix ? op.name.starts_with(name) : op.name == name)) continue;
      wanted |= bits.of(op.id);
      found = true;
    }
    SX_CHECK(found, fmt::format("a pass needs the operator '{}', which is in no table", name));
  }
  return wanted;
}

}  // namespace sardonyx
