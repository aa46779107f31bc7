#include "view/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>

#include "dialects/operator_kinds.h"
#include "sardonyx/error.h"
#include "view/groups.h"
#include "view/page_text.h"

namespace sardonyx::view {
namespace {

using nlohmann::ordered_json;

// An object of JSON. Columns of numbers are written at once: a tree of 100,000 nodes would take longer to
// make than the model to optimize.
class Writer {
 public:
  void open(std::string_view key) {
    name(key);
    text_ += '{';
  }
  void close() { text_ += '}'; }
  void value(std::string_view key, const ordered_json& j) {
    name(key);
    text_ += j.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
  }
  // Names are mostly plain ASCII, which is written several times faster than by the library.
  void lines(std::string_view key, const std::string& s) {
    const auto is_plain = [](char c) { return (c >= ' ' && c <= '~' && c != '"' && c != '\\') || c == '\n'; };
    if (!std::ranges::all_of(s, is_plain)) return value(key, s);
    name(key);
    text_ += '"';
    for (size_t at = 0; at < s.size();) {
      const size_t end = std::min(s.find('\n', at), s.size());
      text_.append(s, at, end - at);
      if (end < s.size()) text_ += "\\n";
      at = end + 1;
    }
    text_ += '"';
  }
  template <class T>
  void numbers(std::string_view key, const std::vector<T>& list) {
    name(key);
    text_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ',';
      std::array<char, 24> digits;
      const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), list[i]);
      text_.append(digits.data(), end);
    }
    text_ += ']';
  }
  std::string take() { return std::move(text_); }

 private:
  void name(std::string_view key) {
    if (!key.empty()) text_ += fmt::format("{}\"{}\":", text_.back() == '{' ? "" : ",", key);
  }
  std::string text_;
};

// Texts in an order in which neighbors begin alike: the length that each shares with the one before, and the
// rest.
class SharedStarts {
 public:
  void add(std::string_view text) {
    size_t same = 0;
    const size_t most = std::min(text.size(), last_.size());
    while (same < most && text[same] == last_[same]) ++same;
    while (same > 0 && same < text.size() && (static_cast<unsigned char>(text[same]) & 0xC0) == 0x80) --same;
    shared_.push_back(static_cast<uint32_t>(same));
    rests_ += text.substr(same);
    rests_ += '\n';
    last_ = text;
  }
  void write(Writer& to) {
    if (!rests_.empty()) rests_.pop_back();
    to.open("names");
    to.numbers("shared", shared_);
    to.lines("rests", rests_);
    to.close();
  }

 private:
  std::string_view last_;
  std::vector<uint32_t> shared_;
  std::string rests_;
};

class Scene {
 public:
  Scene(const Picture& p, const SceneOptions& options) : p_(p), options_(options), rows_(fold(p)) {}

  std::string json() {
    number();
    Writer w;
    w.open("");
    w.value("title", options_.title);
    w.value("facts", options_.facts);
    w.value("diff", options_.is_diff);
    w.value("color", options_.color);
    w.value("types", p_.types.all());
    w.numbers("typeBytes", p_.type_bytes);
    w.value("ops", operators());
    w.value("attrs", p_.attrs);
    w.value("origins", p_.origins);
    nodes(w);
    constants(w);
    w.value("groups", groups());
    w.value("blocks", blocks());
    ordered_json steps = ordered_json::array();
    for (const PictureStep& s : p_.steps) steps.push_back({s.label, s.nodes, s.added, s.removed, s.changed, s.seconds});
    w.value("steps", steps);
    w.value("edits", edits());
    w.open("measures");
    for (const auto& [name, by_node] : options_.measures) {
      std::vector<double> by_row;
      for (const uint32_t n : rows_.node_of) by_row.push_back(n < by_node.size() ? by_node[n] : 0);
      w.numbers(name, by_row);
    }
    w.close();
    if (!options_.errors.empty()) w.numbers("errors", errors());
    if (!options_.curve.points.empty()) w.value("curve", curve());
    ordered_json sources = ordered_json::object();
    for (const auto& [file, text] : options_.sources) sources[file] = text;
    w.value("sources", sources);
    w.close();
    return w.take();
  }

 private:
  // The page numbers values by rows: inputs of blocks first, then the results of nodes.
  void number() {
    number_of_.assign(p_.values.size(), -1);
    for (const PictureBlock& b : p_.blocks) {
      for (const uint32_t v : b.inputs) number_of_[v] = count_++;
    }
    inputs_ = count_;
    row_of_.assign(p_.nodes.size(), 0);
    for (uint32_t row = 0; row < rows_.node_of.size(); ++row) {
      const PictureNode& n = p_.nodes[rows_.node_of[row]];
      row_of_[rows_.node_of[row]] = row;
      for (uint32_t i = 0; i < n.num_values; ++i) number_of_[n.first_value + i] = count_++;
    }
    for (uint32_t g = 0; g < rows_.groups.size(); ++g) {
      const GroupKind kind = rows_.groups[g].kind;
      if (kind == GroupKind::kFunction || kind == GroupKind::kBody) group_of_block_[rows_.groups[g].block] = g;
    }
  }

  // Twice the distance back to `value`, or twice the distance ahead, and one.
  static int64_t relative(int64_t at, int64_t value) { return value < at ? (at - value) * 2 : (value - at) * 2 + 1; }
  int64_t number_of(Ref r) const { return r >= 0 ? number_of_[static_cast<size_t>(r)] : r; }

  ordered_json operators() const {
    ordered_json list = ordered_json::array();
    for (const Op* op : p_.ops) {
      std::vector<std::string_view> slots;
      size_t lists = 0;
      for (const Slot& s : op->inputs) {
        slots.push_back(s.name);
        lists += s.arity == Arity::kVariadic ? 1 : 0;
      }
      list.push_back({op->name, op->domain, op->since_version, std::string(kind_of(*op)), slots, lists});
    }
    return list;
  }

  // Operands are written relative to the first result of their node, since most are near.
  void nodes(Writer& w) const {
    std::vector<int64_t> op, attrs, origin, inputs, input_counts, result_counts, types, born, died;
    SharedStarts names;
    for (const PictureBlock& b : p_.blocks) {
      for (const uint32_t v : b.inputs) {
        types.push_back(p_.values[v].type);
        names.add(one_line(p_.values[v].name));
      }
    }
    int64_t at = inputs_;
    ordered_json bodies = ordered_json::array(), calls = ordered_json::array();
    for (uint32_t row = 0; row < rows_.node_of.size(); ++row) {
      const PictureNode& n = p_.nodes[rows_.node_of[row]];
      op.push_back(n.op);
      attrs.push_back(n.attrs);
      origin.push_back(n.origin);
      input_counts.push_back(static_cast<int64_t>(n.inputs.size()));
      result_counts.push_back(n.num_values);
      for (const Ref r : n.inputs) inputs.push_back(r >= 0 ? relative(at, number_of(r)) : r);
      names.add(one_line(n.name));
      for (uint32_t i = 0; i < n.num_values; ++i) {
        types.push_back(p_.values[n.first_value + i].type);
        names.add(one_line(p_.values[n.first_value + i].name));
      }
      at += n.num_values;
      born.push_back(n.born);
      died.push_back(n.died == kNever ? -1 : static_cast<int64_t>(n.died));
      if (!n.bodies.empty()) {
        std::vector<uint32_t> list;
        for (const uint32_t b : n.bodies) list.push_back(group_of_block_.at(b));
        bodies.push_back({row, list});
      }
      if (n.calls) calls.push_back({row, group_of_block_.at(*n.calls)});
    }
    w.value("inputs", inputs_);
    w.open("nodes");
    w.numbers("op", op);
    w.numbers("attrs", attrs);
    w.numbers("origin", origin);
    w.numbers("inputCounts", input_counts);
    w.numbers("inputs", inputs);
    w.numbers("results", result_counts);
    w.numbers("types", types);
    names.write(w);
    w.value("bodies", bodies);
    w.value("calls", calls);
    if (p_.steps.size() > 1) {
      w.numbers("born", born);
      w.numbers("died", died);
    }
    w.close();
  }

  void constants(Writer& w) const {
    std::vector<uint64_t> types, bytes;
    SharedStarts names;
    std::vector<std::string> texts;
    ordered_json histograms = ordered_json::array();
    for (size_t i = 0; i < p_.constants.size(); ++i) {
      const PictureConstant& c = p_.constants[i];
      types.push_back(c.type);
      bytes.push_back(c.bytes);
      names.add(one_line(c.name));
      texts.push_back(c.text);
      if (!c.histogram.empty()) histograms.push_back({i, c.histogram});
    }
    w.open("constants");
    w.numbers("types", types);
    w.numbers("bytes", bytes);
    names.write(w);
    w.value("texts", texts);
    w.value("histograms", histograms);
    w.close();
  }

  ordered_json groups() const {
    static constexpr const char* kKinds[] = {"function", "body", "module", "repeat", "copy", "part"};
    ordered_json list = ordered_json::array();
    for (const Group& g : rows_.groups)
      list.push_back({kKinds[static_cast<size_t>(g.kind)], g.label, g.first, g.end, g.copies});
    return list;
  }

  ordered_json blocks() const {
    ordered_json list = ordered_json::array();
    for (uint32_t b = 0; b < p_.blocks.size(); ++b) {
      std::vector<int64_t> inputs;
      for (const uint32_t v : p_.blocks[b].inputs) inputs.push_back(number_of_[v]);
      ordered_json outputs = ordered_json::array();
      for (const auto& [name, r] : p_.blocks[b].outputs) outputs.push_back({p_.texts.all()[name], number_of(r)});
      list.push_back({group_of_block_.at(b), inputs, outputs});
    }
    return list;
  }

  ordered_json edits() const {
    ordered_json list = ordered_json::array();
    for (const PictureEdit& e : p_.edits) {
      std::vector<int64_t> inputs;
      for (const Ref r : e.inputs) inputs.push_back(number_of(r));
      list.push_back({e.step, row_of_[e.node], e.op, e.attrs, e.origin, inputs, e.types});
    }
    return list;
  }

  // Of the results of nodes, in their order. JSON has no infinity.
  std::vector<double> errors() const {
    std::vector<double> list;
    for (const uint32_t node : rows_.node_of) {
      const PictureNode& n = p_.nodes[node];
      for (uint32_t i = 0; i < n.num_values; ++i)
        list.push_back(std::min(options_.errors[n.first_value + i], std::numeric_limits<double>::max()));
    }
    return list;
  }

  ordered_json curve() const {
    ordered_json points = ordered_json::array();
    for (const PrecisionPoint& p : options_.curve.points)
      points.push_back({p.types, p.bytes, std::isfinite(p.error) ? ordered_json(p.error) : ordered_json()});
    return {{"points", points}, {"chosen", options_.curve.chosen}};
  }

  // Names are kept between newlines.
  std::string_view one_line(std::string_view text) const {
    if (text.find('\n') == std::string_view::npos) return text;
    std::string& kept = kept_.emplace_back(text);
    std::ranges::replace(kept, '\n', ' ');
    return kept;
  }

  const Picture& p_;
  const SceneOptions& options_;
  const Rows rows_;
  std::vector<int64_t> number_of_;  // by value
  std::vector<uint32_t> row_of_;    // by node
  std::unordered_map<uint32_t, uint32_t> group_of_block_;
  int64_t count_ = 0, inputs_ = 0;
  mutable std::deque<std::string> kept_;
};

}  // namespace

std::string scene_json(const Picture& p, const SceneOptions& options) {
  std::string text = Scene(p, options).json();
  if (text.find('<') == std::string::npos) return text;
  // Inside a page, '<' could end the element that holds the text.
  std::string safe;
  safe.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void require_page() {
  if (!page_text().empty()) return;
  throw Error(ErrorCode::kUnsupported, "this build of sardonyx cannot write pages: it was built without the viewer",
              {"help: run 'make viewer' and build again, or write text: -o model.txt"});
}

std::string page(const Picture& p, const SceneOptions& options) { return page(scene_json(p, options)); }

std::string page(std::string_view scene) {
  constexpr std::string_view kMark = "@SARDONYX_SCENE@";
  require_page();
  const std::string_view text = page_text();
  const size_t at = text.find(kMark);
  SX_CHECK(at != std::string_view::npos, "the page has no place for a graph");
  std::string all;
  all.reserve(text.size() + scene.size());
  all += text.substr(0, at);
  all += scene;
  all += text.substr(at + kMark.size());
  return all;
}

}  // namespace sardonyx::view
