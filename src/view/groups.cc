#include "view/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sardonyx::view {
namespace {

constexpr size_t kDeepestPath = 16;  // longer paths end in one component with the rest

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 33);
}

// A node, or a group of items.
struct Item {
  uint32_t node = kNever;
  std::unique_ptr<Group> group;
  std::vector<Item> children;  // of a group
  uint64_t hash = 0;           // equal: the same operators and types in the same order
  size_t size = 1;             // nodes
  bool is_group() const { return group != nullptr; }
};
using Items = std::vector<Item>;

class Folder {
 public:
  explicit Folder(const Picture& p) : p_(p), made_at_(p.values.size(), kNever), last_use_(p.values.size(), 0) {}

  Rows fold() {
    for (uint32_t b = 0; b < p_.blocks.size(); ++b) {
      if (!p_.blocks[b].owner) emit_block(b, GroupKind::kFunction);
    }
    return std::move(rows_);
  }

 private:
  uint64_t hash_of(uint32_t node) const {
    const PictureNode& n = p_.nodes[node];
    uint64_t h = mixed(n.op, n.attrs);
    h = mixed(h, n.inputs.size());
    for (uint32_t i = 0; i < n.num_values; ++i) h = mixed(h, p_.values[n.first_value + i].type);
    return mixed(h, n.bodies.size());
  }

  static Item made(GroupKind kind, std::string label, Items children, uint32_t copies = 0) {
    Item item;
    item.group = std::make_unique<Group>();
    item.group->kind = kind;
    item.group->label = std::move(label);
    item.group->copies = copies;
    item.size = 0;
    item.hash = 0x5ade;
    for (const Item& c : children) {
      item.size += c.size;
      item.hash = mixed(item.hash, c.hash);
    }
    item.children = std::move(children);
    return item;
  }

  static std::vector<std::string_view> components(std::string_view path) {
    std::vector<std::string_view> parts;
    while (!path.empty()) {
      const size_t end = parts.size() + 1 == kDeepestPath ? path.size() : std::min(path.find('/'), path.size());
      if (end > 0) parts.push_back(path.substr(0, end));
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    return parts;
  }

  // The nodes of a block as a tree by module path. A group is where its first node is.
  Items by_path(const PictureBlock& b) {
    struct Folder {
      std::string label;
      std::vector<std::pair<uint32_t, bool>> items;  // nodes, or folders (true)
    };
    std::vector<Folder> tree(1);
    std::map<std::pair<uint32_t, std::string_view>, uint32_t> known;
    std::unordered_map<uint32_t, uint32_t> of_path;
    for (const uint32_t n : b.nodes) {
      auto [at, is_new] = of_path.try_emplace(p_.nodes[n].path, 0);
      if (is_new) {
        uint32_t folder = 0;
        for (const std::string_view part : components(p_.texts.all()[p_.nodes[n].path])) {
          auto [child, inserted] = known.try_emplace({folder, part}, static_cast<uint32_t>(tree.size()));
          if (inserted) {
            tree.push_back({std::string(part), {}});
            tree[folder].items.emplace_back(child->second, true);
          }
          folder = child->second;
        }
        at->second = folder;
      }
      tree[at->second].items.emplace_back(n, false);
    }
    std::vector<Items> done(tree.size());
    for (size_t f = tree.size(); f-- > 0;) {  // children have larger numbers
      for (const auto& [index, is_folder] : tree[f].items) {
        if (!is_folder) {
          Item node;
          node.node = index;
          node.hash = hash_of(index);
          done[f].push_back(std::move(node));
          continue;
        }
        const bool is_alone = done[index].size() == 1;
        Items inside = bounded(std::move(done[index]));
        if (inside.size() == 1 && inside.front().is_group()) {  // "encoder" with only "layer" in it is "encoder/layer"
          inside.front().group->label = tree[index].label + "/" + inside.front().group->label;
          done[f].push_back(std::move(inside.front()));
        } else if (is_alone) {
          done[f].push_back(std::move(inside.front()));
        } else {
          done[f].push_back(made(GroupKind::kModule, tree[index].label, std::move(inside)));
        }
      }
    }
    return bounded(std::move(done[0]));
  }

  // A run of copies: `copies` times `period` items from `first` on.
  struct Run {
    size_t first = 0, period = 0, copies = 0;
  };

  // Whether these are groups whose labels differ only in digits: "layers.0", "layers.1".
  static bool are_numbered(const Items& items, size_t first, size_t count) {
    const auto bare = [](const Item& item) {
      std::string label = item.is_group() ? item.group->label : std::string();
      std::erase_if(label, [](char c) { return c >= '0' && c <= '9'; });
      return label;
    };
    const auto same = [&](const Item& item) { return item.is_group() && bare(item) == bare(items[first]); };
    return std::all_of(items.begin() + static_cast<ptrdiff_t>(first), items.begin() + static_cast<ptrdiff_t>(first + count),
                       same);
  }

  // Copies that follow each other. In linear time: an item whose window of hashes occurred before, `period`
  // items earlier, continues a run of that period.
  static std::vector<Run> runs_of(const Items& items) {
    constexpr size_t kWindow = 4;
    std::vector<Run> runs;
    const size_t n = items.size();
    if (n < 2) return runs;
    std::unordered_map<uint64_t, size_t> last;
    std::vector<size_t> period(n, 0);
    for (size_t i = 0; i < n; ++i) {
      uint64_t window = 0;
      for (size_t k = 0; k < kWindow; ++k) window = mixed(window, i + k < n ? items[i + k].hash : 0);
      if (const auto at = last.find(window); at != last.end()) period[i] = i - at->second;
      last[window] = i;
    }
    for (size_t i = 0; i < n;) {
      const size_t d = period[i];
      if (d == 0) {
        ++i;
        continue;
      }
      const size_t first = i - d;
      size_t end = i;
      while (end < n && items[end].hash == items[end - d].hash) ++end;
      const size_t copies = (end - first) / d;
      const bool free = runs.empty() || runs.back().first + runs.back().period * runs.back().copies <= first;
      const bool is_worth_it =
          d > 1 ? (copies >= 3 || d >= 12) && copies * d >= 6 : copies >= 3 && are_numbered(items, first, copies);
      if (!free || copies < 2 || !is_worth_it) {
        i = std::max(i + 1, end);
        continue;
      }
      runs.push_back({first, d, copies});
      i = std::max(i + 1, first + copies * d);
    }
    return runs;
  }

  static std::string label_of(const Items& copies) {
    const std::string& a = copies.front().group->label;
    const std::string& b = copies.back().group->label;
    return a == b ? a : fmt::format("{} … {}", a, b);
  }

  // The same items in at most kMostChildren groups and nodes: copies become one group, then neighbors do.
  Items bounded(Items items) {
    for (int round = 0; round < 2; ++round) {
      const std::vector<Run> runs = runs_of(items);
      if (runs.empty()) break;
      Items folded;
      size_t at = 0;
      for (const Run& run : runs) {
        while (at < run.first) folded.push_back(std::move(items[at++]));
        Items copies;
        for (size_t c = 0; c < run.copies; ++c) {
          Items inside;
          for (size_t k = 0; k < run.period; ++k) inside.push_back(std::move(items[at++]));
          if (run.period == 1) {
            copies.push_back(std::move(inside.front()));
          } else {
            copies.push_back(made(GroupKind::kCopy, fmt::format("copy {}", c + 1), bounded(std::move(inside))));
          }
        }
        const auto count = static_cast<uint32_t>(run.copies);
        std::string label = run.period == 1 ? label_of(copies) : fmt::format("{} nodes", copies.front().size);
        folded.push_back(made(GroupKind::kRepeat, std::move(label), parts(std::move(copies)), count));
      }
      while (at < items.size()) folded.push_back(std::move(items[at++]));
      items = std::move(folded);
    }
    return parts(std::move(items));
  }

  // How many of `count` items to take together, so that no level has many more than the others.
  static size_t part_size(size_t count) {
    const double levels = std::ceil(std::log(static_cast<double>(count)) / std::log(40.0));
    const auto size = static_cast<size_t>(std::ceil(std::pow(static_cast<double>(count), 1 / std::max(levels, 1.0))));
    return std::clamp<size_t>(size, 12, 36);
  }

  static std::string part_label(const Items& items) {
    size_t nodes = 0;
    for (const Item& item : items) nodes += item.size;
    const bool are_named = items.front().is_group() && items.back().is_group();
    return are_named ? fmt::format("{} … {}", first_of(items.front()), last_of(items.back())) : fmt::format("{} nodes", nodes);
  }
  // "a" of "a … c".
  static std::string first_of(const Item& item) {
    const std::string& label = item.group->label;
    return item.group->kind == GroupKind::kPart ? label.substr(0, label.find(" … ")) : label;
  }
  static std::string last_of(const Item& item) {
    const std::string& label = item.group->label;
    const size_t at = label.rfind(" … ");
    return item.group->kind == GroupKind::kPart && at != std::string::npos ? label.substr(at + std::string_view(" … ").size())
                                                                           : label;
  }

  // Cuts where the fewest values cross.
  Items parts(Items items) {
    while (items.size() > kMostChildren) {
      const std::vector<uint32_t> crossing = crossings(items);
      const size_t size = part_size(items.size());
      Items groups;
      for (size_t at = 0; at < items.size();) {
        size_t end = std::min(at + size + size / 4, items.size());
        if (end < items.size()) {
          size_t best = end;
          for (size_t k = at + size - size / 4; k <= end; ++k) {
            if (crossing[k] <= crossing[best]) best = k;
          }
          end = best;
        }
        Items inside(std::make_move_iterator(items.begin() + static_cast<ptrdiff_t>(at)),
                     std::make_move_iterator(items.begin() + static_cast<ptrdiff_t>(end)));
        at = end;
        if (inside.size() == 1) {
          groups.push_back(std::move(inside.front()));
        } else {
          std::string label = part_label(inside);
          groups.push_back(made(GroupKind::kPart, std::move(label), std::move(inside)));
        }
      }
      items = std::move(groups);
    }
    return items;
  }

  // By item: how many values are made before it and used by it or after it.
  std::vector<uint32_t> crossings(const Items& items) {
    std::vector<uint32_t> made_here;  // values
    for (uint32_t i = 0; i < items.size(); ++i) {
      each_node(items[i], [&](const PictureNode& n) {
        for (uint32_t v = n.first_value; v < n.first_value + n.num_values; ++v) {
          made_at_[v] = last_use_[v] = i;
          made_here.push_back(v);
        }
      });
    }
    for (uint32_t i = 0; i < items.size(); ++i) {
      each_node(items[i], [&](const PictureNode& n) {
        for (const Ref r : n.inputs) {
          if (r >= 0 && made_at_[static_cast<size_t>(r)] != kNever) last_use_[static_cast<size_t>(r)] = i;
        }
      });
    }
    std::vector<int64_t> change(items.size() + 1, 0);
    for (const uint32_t v : made_here) {
      if (last_use_[v] > made_at_[v]) {
        ++change[made_at_[v] + 1];
        --change[last_use_[v] + 1];
      }
      made_at_[v] = kNever;
    }
    std::vector<uint32_t> crossing(items.size() + 1, std::numeric_limits<uint32_t>::max());
    int64_t now = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      now += change[i];
      crossing[i] = static_cast<uint32_t>(std::max<int64_t>(now, 0));
    }
    return crossing;
  }

  template <class Visit>
  void each_node(const Item& item, const Visit& visit) const {  // recursion over groups, whose depth is bounded
    if (!item.is_group()) visit(p_.nodes[item.node]);
    for (const Item& c : item.children) each_node(c, visit);
  }

  void emit_block(uint32_t block, GroupKind kind) {
    const size_t index = rows_.groups.size();
    Group g;
    g.kind = kind;
    g.label = p_.texts.all()[p_.blocks[block].label];
    g.first = static_cast<uint32_t>(rows_.node_of.size());
    g.block = block;
    rows_.groups.push_back(std::move(g));
    emit(by_path(p_.blocks[block]));
    rows_.groups[index].end = static_cast<uint32_t>(rows_.node_of.size());
  }

  // Recursion over nesting only: of graphs, and of groups, whose depth is bounded.
  void emit(const Items& items) {
    for (const Item& item : items) {
      if (!item.is_group()) {
        rows_.node_of.push_back(item.node);
        for (const uint32_t body : p_.nodes[item.node].bodies) emit_block(body, GroupKind::kBody);
        continue;
      }
      const size_t index = rows_.groups.size();
      rows_.groups.push_back(*item.group);
      rows_.groups[index].first = static_cast<uint32_t>(rows_.node_of.size());
      emit(item.children);
      rows_.groups[index].end = static_cast<uint32_t>(rows_.node_of.size());
    }
  }

  const Picture& p_;
  Rows rows_;
  std::vector<uint32_t> made_at_, last_use_;  // of crossings(), by value
};

}  // namespace

Rows fold(const Picture& p) { return Folder(p).fold(); }

}  // namespace sardonyx::view
