// Regions: what could follow one of the two layouts of a transpose.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "passes/mincut/operators.h"
#include "passes/mincut/tied_values.h"

namespace sardonyx::layout {

inline constexpr uint32_t kNone = UINT32_MAX;

// A node, a large constant or tied values that may take part in the new layout.
struct Var {
  Node* node = nullptr;
  Value* constant = nullptr;
  const TiedValues* tied = nullptr;
  Move move;  // of a constant: results[0]; of tied values: main, the layout of what is not stacked
  bool moved = false;
};

// An operand that is a root, directly or through a transpose.
struct RootUse {
  Node* owner = nullptr;
  size_t slot;
  Graph* graph = nullptr;  // where a transpose for it would stand
  Layout now, moved;       // the layout of the root that it reads now, and when its variable moves
  bool product;            // takes the last two axes either way
  uint32_t var = kNone;
};

// A value that no transpose makes: transposes of it are its other layouts.
struct Root {
  Value* value = nullptr;
  uint32_t var = kNone;  // the variable that makes it, if that may store it otherwise
  Layout stored;         // how it is stored when that variable moves
  std::vector<RootUse> uses;
};

struct Region {
  std::vector<Var> vars;
  std::vector<std::pair<Value*, Layout>> labels;  // the layout of each value if its maker moves
  std::vector<Root> roots;

  // As the variables stand.
  Layout stored(const Root& root) const {
    return root.var != kNone && vars[root.var].moved ? root.stored : Layout::identity(root.value->type()->rank());
  }
  const Layout& wanted(const RootUse& use) const { return use.var != kNone && vars[use.var].moved ? use.moved : use.now; }
};

// The layout of tied values, or of their stacks.
Layout layout_of(const Var& v, bool stacked);

class RegionFinder {
 public:
  RegionFinder(std::span<Graph* const> graphs, Operators& operators);
  // To be called after graphs changed. Regions point to what is found.
  void find_tied_values();
  // Finds what could follow if v is stored as l. Adds the number of values and uses it visits to *work.
  Region around(Value& v, const Layout& l, uint64_t* work);

 private:
  void explore(Value& v, const Layout& l);
  void label(Value& v, const Layout& l);
  void label_operand(Value& v, const Layout& l);
  void add(Node& n, Move m);
  void add_tied(uint32_t index, const Layout& l, bool stacked);
  bool clashes(const Value& v, const Layout& l);
  uint32_t tied_operand(Node& owner, size_t slot) const;
  void find_roots();
  void add_use(Root& root, Use& u, const Layout& now);

  std::span<Graph* const> graphs_;
  Operators& operators_;
  std::vector<TiedValues> tied_;
  std::map<std::pair<Node*, size_t>, uint32_t> tied_operands_;
  ValueMap<uint32_t> tied_of_;  // by what is made
  // Of the region that is being found; reset afterwards.
  Region region_;
  NodeMap<uint32_t> var_of_;
  ValueMap<uint32_t> label_of_, root_of_;
  std::vector<uint32_t> var_of_tied_;
  uint64_t work_ = 0;
};

}  // namespace sardonyx::layout
