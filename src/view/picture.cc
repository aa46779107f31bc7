#include "view/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "inspect/node_origin.h"
#include "ir/graph/call.h"

namespace sardonyx::view {
namespace {

constexpr size_t kLongestText = 300;  // of an attribute or of metadata on a page

std::string shortened(std::string text) {
  if (text.size() <= kLongestText) return text;
  size_t end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  text.resize(end);
  return text + "…";
}

std::string element(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return fmt::format("\"{}\"", t.string_values()[static_cast<size_t>(i)]);
  if (t.dtype() == DType::kBool) return t.as_int(i) != 0 ? "true" : "false";
  if (is_integer(t.dtype())) return std::to_string(t.as_int(i));
  return fmt::format("{:.6g}", t.as_double(i));
}

// The elements of a small constant; range, mean and a histogram of a large one, from a sample.
void describe(const Tensor& t, bool with_histogram, PictureConstant& to) {
  constexpr int64_t kMostElements = 16, kSample = 1024;
  constexpr size_t kBars = 12;
  to.bytes = t.is_splat() ? t.stored_bytes().size() : t.byte_size();
  for (const std::string& s : t.string_values()) to.bytes += s.size();
  if (t.is_promise() || t.is_deferred() || t.size() == 0 || is_complex(t.dtype())) return;
  if (t.size() <= kMostElements) {
    std::string text;
    for (int64_t i = 0; i < t.size(); ++i) text += (i > 0 ? ", " : "") + element(t, i);
    to.text = shortened(t.rank() == 0 ? text : fmt::format("[{}]", text));
    return;
  }
  if (t.is_splat()) {
    to.text = fmt::format("all {}", element(t, 0));
    return;
  }
  if (!with_histogram || t.dtype() == DType::kString) return;
  const int64_t count = std::min(t.size(), kSample);
  std::vector<double> sample;
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = t.as_double(i * (t.size() / count));
    if (!std::isfinite(x)) continue;
    sample.push_back(x);
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
  }
  if (sample.empty()) {
    to.text = "no finite element in the sample";
    return;
  }
  to.text = fmt::format("{:.4g} to {:.4g}, mean {:.4g}{}", low, high, sum / static_cast<double>(sample.size()),
                        t.size() > kSample ? fmt::format(" ({} of {} elements)", count, t.size()) : std::string());
  if (!(high > low)) return;
  to.histogram.assign(kBars, 0);
  for (const double x : sample) {
    const auto bar = static_cast<size_t>((x - low) / (high - low) * static_cast<double>(kBars));
    ++to.histogram[std::min(bar, kBars - 1)];
  }
}

uint64_t bytes_of(const Type* t) {
  if (t == nullptr || !t->is_tensor() || !t->is_static()) return 0;
  const auto size = t->static_size();
  return size && *size >= 0 ? byte_size(t->dtype(), static_cast<uint64_t>(*size)) : 0;
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "; ")); }

// The module path of a node: the scope that it carries, or the folders of its name
// ("/encoder/layer.0/MatMul").
std::string_view path_of(const Node& n, std::string_view scope) {
  if (!scope.empty()) return scope;
  const std::string_view name = n.name().view();
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

}  // namespace

uint32_t Texts::operator()(std::string_view text) {
  if (const auto at = index_.find(text); at != index_.end()) return at->second;
  const auto index = static_cast<uint32_t>(all_.size());
  all_.emplace_back(text);
  index_.emplace(std::string(text), index);
  return index;
}

Picture::Picture() { texts(""); }

std::optional<uint32_t> Picture::find(const Node& n) const {
  if (!last_nodes_.empty()) {
    node_of_ = {last_nodes_.begin(), last_nodes_.end()};
    last_nodes_.clear();
  }
  const auto at = node_of_.find(&n);
  return at == node_of_.end() ? std::nullopt : std::optional(at->second);
}

void Picture::drop_last_step() {
  const auto step = static_cast<uint32_t>(steps.size() - 1);
  for (Current& c : now_) {
    if (c.seen == step) c.seen = step - 1;
    if (c.edit >= 0 && edits[static_cast<size_t>(c.edit)].step == step) c.edit = edits[static_cast<size_t>(c.edit)].before;
  }
  while (!edits.empty() && edits.back().step == step) edits.pop_back();
  steps.pop_back();
}

// Reads one model into a picture as its next step.
class PictureStepReader {
 public:
  PictureStepReader(Picture& p, const Model& m, const Picture::Match& match)
      : p_(p),
        m_(m),
        match_(match),
        step_(static_cast<uint32_t>(p.steps.size())),
        ops_(m.op_id_limit(), kNever),
        refs_(m.value_id_limit(), kUnknown) {}

  void read() {
    for (const auto& f : m_.functions()) {
      const std::string name = f->name.empty() ? "graph" : f->name;
      const std::string key = fmt::format("{}\n{}\n{}", f->domain, &f->graph() == &m_.graph() ? "main" : name, f->overload);
      auto [at, inserted] = p_.function_blocks_.try_emplace(key, 0);
      if (inserted) at->second = new_block(name, std::nullopt);
      block_of_[&f->graph()] = at->second;
      todo_.push_back({&f->graph(), at->second});
    }
    for (size_t i = 0; i < todo_.size(); ++i) {
      const auto [graph, block] = todo_[i];
      read_block(*graph, block);
    }
    for (const auto& [n, f] : calls_) p_.nodes[n].calls = block_of_.at(f);
    p_.last_nodes_ = std::move(seen_);
    p_.node_of_.clear();
  }

  size_t added = 0, removed = 0, changed = 0, alive = 0;

 private:
  uint32_t new_block(std::string_view label, std::optional<uint32_t> owner) {
    PictureBlock b;
    b.label = p_.texts(label);
    b.owner = owner;
    p_.blocks.push_back(std::move(b));
    p_.first_.push_back(kNever);
    return static_cast<uint32_t>(p_.blocks.size() - 1);
  }

  uint32_t type(const Type* t) {
    if (t == last_type_ && t != nullptr) return last_type_index_;
    const uint32_t index = p_.types(t == nullptr ? std::string("?") : m_.types().to_string(t));
    if (index == p_.type_bytes.size()) p_.type_bytes.push_back(bytes_of(t));
    last_type_ = t;
    return last_type_index_ = index;
  }

  uint32_t new_value(const Value& v, int64_t node, uint32_t block) {
    PictureValue& made = p_.values.emplace_back();
    made = {.name = v.name().view(), .type = type(v.type()), .node = node, .block = block};
    p_.types_now_.push_back(made.type);
    return static_cast<uint32_t>(p_.values.size() - 1);
  }

  Ref constant(const Value& v) {
    const TensorPtr& t = v.constant();
    PictureConstant c{.name = v.name().view(), .type = type(v.type())};
    const std::string key = fmt::format("{} {} {}", c.type, c.name.empty() ? t->hash() : 0, c.name);
    auto [at, inserted] = p_.constant_of_.try_emplace(key, static_cast<uint32_t>(p_.constants.size()));
    if (inserted) {
      constexpr size_t kMostHistograms = 5000;
      describe(*t, p_.constants.size() < kMostHistograms, c);
      p_.constants.push_back(std::move(c));
    }
    return ref_of_constant(at->second);
  }

  Ref ref(const Value* v) {
    if (v == nullptr) return kAbsent;
    Ref& known = refs_[v->id()];
    if (known == kUnknown) known = v->is_constant() ? constant(*v) : kAbsent;
    return known;
  }

  uint32_t op(const Op& o) {
    if (o.id >= ops_.size()) ops_.resize(o.id + 1, kNever);
    uint32_t& known = ops_[o.id];
    if (known != kNever) return known;
    const std::string key = fmt::format("{}\n{}\n{}", o.domain, o.name, o.since_version);
    auto [at, inserted] = p_.op_of_.try_emplace(key, static_cast<uint32_t>(p_.ops.size()));
    if (inserted) p_.ops.push_back(&o);
    return known = at->second;
  }

  uint32_t attributes(const Attrs& a) {
    auto [known, is_new] = attrs_.try_emplace(a.canonical(), 0);
    if (!is_new) return known->second;
    std::vector<std::pair<std::string, std::string>> list;
    std::string key;
    for (const NamedAttr& item : a.items()) {
      list.emplace_back(item.name, shortened(to_string(item.value, m_.types())));
      key += fmt::format("{}\n{}\n", list.back().first, list.back().second);
    }
    auto [at, inserted] = p_.attrs_of_.try_emplace(key, static_cast<uint32_t>(p_.attrs.size()));
    if (inserted) p_.attrs.push_back(std::move(list));
    return known->second = at->second;
  }

  struct Origin {
    uint32_t index = 0, path = 0;
  };

  Origin origin(const Node& n) {
    if (n.extra() != nullptr && !n.extra()->metadata.empty()) return new_origin(n);
    if (n.provenance() != 0) {
      auto [at, inserted] = origins_.try_emplace(n.provenance());
      if (inserted) at->second = new_origin(n);
      return at->second;
    }
    if (no_origin_ == kNever) no_origin_ = new_origin(n).index;
    const std::string_view path = path_of(n, {});
    if (path != last_path_) {
      last_path_ = path;
      last_path_index_ = p_.texts(path);
    }
    return {no_origin_, last_path_index_};
  }

  Origin new_origin(const Node& n) {
    const NodeOrigin from = origin_of(n);
    std::vector<std::pair<std::string, std::string>> list;
    const auto add = [&](std::string key, std::string text) {
      if (!text.empty()) list.emplace_back(std::move(key), shortened(std::move(text)));
    };
    for (const SourceLine& s : from.lines) add("line", to_string(s));
    add("module", from.scope);
    add("lowering", joined(from.lowerings));
    for (const std::string& rule : from.rules) add("rule", rule);
    for (const auto& [k, v] : from.others) add(k, v);
    std::string key;
    for (const auto& [k, v] : list) key += fmt::format("{}\n{}\n", k, v);
    auto [at, inserted] = p_.origin_of_.try_emplace(key, static_cast<uint32_t>(p_.origins.size()));
    if (inserted) p_.origins.push_back(std::move(list));
    return {at->second, p_.texts(path_of(n, from.scope))};
  }

  std::optional<uint32_t> earlier(const Node& n) const {
    std::optional<uint32_t> found = match_ ? match_(n) : p_.find(n);
    if (found && (p_.nodes[*found].died != kNever || p_.nodes[*found].num_values != n.num_results())) found.reset();
    return found;
  }

  void read_block(const Graph& g, uint32_t block) {
    read_inputs(g, block);
    uint32_t cursor = kNever;
    for (const Node& n : g.nodes()) {
      if (n.has(Trait::kConstant) && n.num_results() == 1 && n.result()->is_constant()) continue;  // shown where used
      const auto before = earlier(n);
      const uint32_t at = before ? *before : made(n, block, cursor);
      if (before) update(n, at);
      p_.now_[at].seen = step_;
      seen_.emplace_back(&n, at);
      for (uint32_t i = 0; i < n.num_results(); ++i) refs_[n.result(i)->id()] = static_cast<Ref>(p_.nodes[at].first_value + i);
      read_bodies(n, at);
      cursor = at;
      ++alive;
    }
    PictureBlock& b = p_.blocks[block];
    b.outputs.clear();
    for (const Port& port : g.outputs()) b.outputs.emplace_back(p_.texts(port.name.view()), ref(port.use->value));
  }

  // Inputs are the same if they have the same name.
  void read_inputs(const Graph& g, uint32_t block) {
    for (const Port& port : g.inputs()) {
      const std::string_view name = port.name.view();
      const auto& known = p_.blocks[block].inputs;
      auto at = std::ranges::find_if(known, [&](uint32_t v) { return p_.values[v].name == name; });
      uint32_t value = 0;
      if (at != known.end()) {
        value = *at;
      } else {
        value = new_value(*port.value, -1, block);
        p_.values[value].name = name;
        p_.blocks[block].inputs.push_back(value);
      }
      refs_[port.value->id()] = static_cast<Ref>(value);
    }
  }

  uint32_t made(const Node& n, uint32_t block, uint32_t cursor) {
    const auto at = static_cast<uint32_t>(p_.nodes.size());
    const Origin from = origin(n);
    PictureNode node;
    node.op = op(n.op());
    node.attrs = attributes(n.attrs());
    for (size_t i = 0; i < n.num_inputs(); ++i) node.inputs.push_back(ref(n.input(i)));
    node.name = n.name().view();
    node.origin = from.index;
    node.path = from.path;
    node.first_value = static_cast<uint32_t>(p_.values.size());
    node.num_values = static_cast<uint32_t>(n.num_results());
    node.block = block;
    node.born = step_;
    for (const Value& v : n.results()) new_value(v, at, block);
    p_.now_.emplace_back();
    p_.nodes.push_back(std::move(node));
    uint32_t& after = cursor == kNever ? p_.first_[block] : p_.now_[cursor].next;
    p_.now_[at].next = std::exchange(after, at);
    ++added;
    return at;
  }

  void update(const Node& n, uint32_t at) {
    const PictureNode& node = p_.nodes[at];
    Picture::Current& now = p_.now_[at];
    PictureEdit e{.step = step_, .node = at, .op = op(n.op()), .attrs = attributes(n.attrs()), .origin = origin(n).index};
    for (size_t i = 0; i < n.num_inputs(); ++i) e.inputs.push_back(ref(n.input(i)));
    const auto differs_from = [&](const auto& old) { return e.op != old.op || e.attrs != old.attrs || e.inputs != old.inputs; };
    const PictureEdit* last = now.edit < 0 ? nullptr : &p_.edits[static_cast<size_t>(now.edit)];
    bool differs = last != nullptr ? differs_from(*last) : differs_from(node);
    const bool tells_more = e.origin != (last != nullptr ? last->origin : node.origin);  // of where the node comes from
    for (uint32_t i = 0; i < n.num_results(); ++i) {
      e.types.push_back(type(n.result(i)->type()));
      uint32_t& known = p_.types_now_[node.first_value + i];
      differs |= known != e.types.back();
      known = e.types.back();
    }
    if (!differs && !tells_more) return;
    e.before = now.edit;
    now.edit = static_cast<int64_t>(p_.edits.size());
    p_.edits.push_back(std::move(e));
    changed += differs ? 1 : 0;
  }

  void read_bodies(const Node& n, uint32_t at) {
    for (size_t i = 0; i < n.bodies().size(); ++i) {
      const Body& b = n.bodies()[i];
      if (i == p_.nodes[at].bodies.size()) {
        const uint32_t made_block = new_block(b.name.view(), at);
        p_.nodes[at].bodies.push_back(made_block);
      }
      todo_.push_back({b.graph, p_.nodes[at].bodies[i]});
    }
    if (const Function* f = called_function(n)) calls_.emplace_back(at, &f->graph());
  }

  Picture& p_;
  const Model& m_;
  const Picture::Match& match_;
  const uint32_t step_;
  std::vector<std::pair<const Graph*, uint32_t>> todo_;
  std::vector<std::pair<uint32_t, const Graph*>> calls_;
  std::unordered_map<const Graph*, uint32_t> block_of_;
  std::vector<std::pair<const Node*, uint32_t>> seen_;
  std::unordered_map<uint32_t, Origin> origins_;  // by provenance
  uint32_t no_origin_ = kNever;
  std::string_view last_path_;
  uint32_t last_path_index_ = 0;
  std::vector<uint32_t> ops_;  // by Op::id
  static constexpr Ref kUnknown = std::numeric_limits<Ref>::min();
  std::vector<Ref> refs_;  // by Value::id
  std::unordered_map<const Attrs*, uint32_t> attrs_;
  const Type* last_type_ = nullptr;
  uint32_t last_type_index_ = 0;
};

void Picture::add(const Model& m, std::string label, double seconds, const Match& match) {
  PictureStepReader reader(*this, m, match);
  reader.read();
  const auto step = static_cast<uint32_t>(steps.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].died != kNever || now_[i].seen == step) continue;
    nodes[i].died = step;
    ++reader.removed;
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b].nodes.clear();
    for (uint32_t n = first_[b]; n != kNever; n = now_[n].next) blocks[b].nodes.push_back(n);
  }
  steps.push_back({std::move(label), reader.alive, step == 0 ? 0 : reader.added, reader.removed, reader.changed, seconds});
}

}  // namespace sardonyx::view
