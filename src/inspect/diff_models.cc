#include "inspect/match_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "rewrite/pass.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

std::vector<std::string> lines_of(const Model& m) {
  std::vector<std::string> lines;
  const std::string text = print(m);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// One line of the comparison: ' ' in both texts, '-' only in the first, '+' only in the second.
struct Line {
  char side;
  const std::string* text;
};

// The shortest list of removed and added lines (Myers), up to kMostChanges of them. Beyond that, lists all
// lines between the first and the last difference.
std::vector<Line> compare(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  constexpr int kMostChanges = 2000;
  size_t front = 0, back = 0;
  while (front < a.size() && front < b.size() && a[front] == b[front]) ++front;
  while (back < a.size() - front && back < b.size() - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  const int n = static_cast<int>(a.size() - front - back), m = static_cast<int>(b.size() - front - back);
  const auto left = [&](int i) -> const std::string& { return a[front + static_cast<size_t>(i)]; };
  const auto right = [&](int i) -> const std::string& { return b[front + static_cast<size_t>(i)]; };

  std::vector<Line> middle;
  std::vector<std::vector<int>>
      reached;  // per number of changes d: the furthest line of the first text on each diagonal -d, -d + 2, ..., d
  bool found = n == 0 && m == 0;
  for (int d = 0; d <= kMostChanges && !found; ++d) {
    std::vector<int> now(static_cast<size_t>(d) + 1);
    const auto before = [&](int k) { return reached.back()[static_cast<size_t>((k + d - 1) / 2)]; };
    for (int k = -d; k <= d && !found; k += 2) {
      int x = 0;
      if (d > 0) x = k == -d || (k != d && before(k - 1) < before(k + 1)) ? before(k + 1) : before(k - 1) + 1;
      while (x < n && x - k < m && x - k >= 0 && left(x) == right(x - k)) ++x;
      now[static_cast<size_t>((k + d) / 2)] = x;
      found = x >= n && x - k >= m;
    }
    reached.push_back(std::move(now));
  }
  if (found) {
    int x = n, y = m;
    for (int d = static_cast<int>(reached.size()) - 1; d > 0; --d) {
      const std::vector<int>& last = reached[static_cast<size_t>(d) - 1];
      const auto before = [&](int k) { return last[static_cast<size_t>((k + d - 1) / 2)]; };
      const int k = x - y;
      const bool added = k == -d || (k != d && before(k - 1) < before(k + 1));
      const int from_k = added ? k + 1 : k - 1, from_x = before(from_k), from_y = from_x - from_k;
      while (x > from_x && y > from_y && (added ? y > from_y + 1 : x > from_x + 1)) middle.push_back({' ', &left(--x)}), --y;
      if (added) {
        middle.push_back({'+', &right(--y)});
      } else {
        middle.push_back({'-', &left(--x)});
      }
    }
    while (x > 0 && y > 0) middle.push_back({' ', &left(--x)}), --y;
    std::ranges::reverse(middle);
  } else {
    for (int i = 0; i < n; ++i) middle.push_back({'-', &left(i)});
    for (int i = 0; i < m; ++i) middle.push_back({'+', &right(i)});
  }
  std::vector<Line> all;
  for (size_t i = 0; i < front; ++i) all.push_back({' ', &a[i]});
  all.insert(all.end(), middle.begin(), middle.end());
  for (size_t i = a.size() - back; i < a.size(); ++i) all.push_back({' ', &a[i]});
  return all;
}

void interface(const Model& m, std::map<std::string, std::string>& facts) {
  for (const auto& f : m.functions()) {
    const std::string where = m.functions().size() > 1 ? fmt::format("function {}: ", f->name) : std::string();
    const auto port = [&](std::string_view kind, const Port& p, const Value& v) {
      facts[fmt::format("{}{} {}", where, kind, p.name.view())] =
          m.types().to_string(p.declared != nullptr ? p.declared : v.type());
    };
    for (const Port& p : f->graph().inputs()) port("input", p, *p.value);
    for (const Port& p : f->graph().outputs()) port("result", p, *p.use->value);
    if (m.specification_version) facts[where + "op set"] = f->mil_opset;
  }
  for (const OpsetImport& i : m.opset_imports) {
    if (!m.specification_version)
      facts[fmt::format("opset of {}", i.domain.empty() ? "ai.onnx" : i.domain)] = std::to_string(i.version);
  }
  if (m.specification_version) facts["specification version"] = std::to_string(*m.specification_version);
}

std::vector<ModelDiff::Change> changes(const std::map<std::string, std::string>& a,
                                       const std::map<std::string, std::string>& b) {
  std::vector<ModelDiff::Change> found;
  std::set<std::string> keys;
  for (const auto& [k, v] : a) keys.insert(k);
  for (const auto& [k, v] : b) keys.insert(k);
  for (const std::string& k : keys) {
    const auto x = a.find(k), y = b.find(k);
    const std::string before = x != a.end() ? x->second : "", after = y != b.end() ? y->second : "";
    if (before != after) found.push_back({k, before, after});
  }
  return found;
}

std::map<std::string, std::string> counts(const ModelCounts& c) {
  std::map<std::string, std::string> text;
  for (const auto& [op, n] : c.ops) text[op] = std::to_string(n);
  return text;
}

// Gives constants of `after` the names of the same constants in `before`, where matched nodes read both.
std::vector<std::pair<std::string, std::string>> undo_renaming(const ModelMatch& match, Model& after) {
  std::vector<std::pair<std::string, std::string>> renamed;
  std::unordered_set<const Value*> done;
  for (const auto& f : after.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& y : g->nodes()) {
        const auto at = match.before_of.find(&y);
        const size_t operands = at == match.before_of.end() ? 0 : std::min(y.num_inputs(), at->second->num_inputs());
        for (size_t i = 0; i < operands; ++i) {
          const Value* v = at->second->input(i);
          Value* w = y.input(i);
          if (v == nullptr || w == nullptr || !v->is_constant() || !w->is_constant() || !done.insert(w).second) continue;
          if (v->name().empty() || v->name().view() == w->name().view() || !is_same_constant(*v, *w)) continue;
          renamed.emplace_back(v->name().view(), w->name().view());
          w->set_name(after.name(v->name().view()));
        }
      }
    }
  }
  return renamed;
}

}  // namespace

ModelDiff diff_models(Model& before, Model& after) {
  ModelDiff found;
  for (Model* m : {&before, &after}) {
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/true);
  }
  found.nodes = match_models(before, after);
  found.renamed = undo_renaming(found.nodes, after);
  std::map<std::string, std::string> face_a, face_b;
  interface(before, face_a);
  interface(after, face_b);
  found.interface = changes(face_a, face_b);
  const ModelCounts count_a = count_model(before), count_b = count_model(after);
  found.ops = changes(counts(count_a), counts(count_b));
  found.bytes_before = count_a.bytes;
  found.bytes_after = count_b.bytes;
  const auto text_a = lines_of(before), text_b = lines_of(after);
  for (const Line& l : compare(text_a, text_b)) {
    found.lines.emplace_back(l.side, *l.text);
    found.differing += l.side != ' ' ? 1 : 0;
  }
  found.same = found.interface.empty() && found.differing == 0 && found.renamed.empty();
  return found;
}

}  // namespace sardonyx
