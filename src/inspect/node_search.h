// Finds nodes by name, and by the source line that they come from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// A line of the user's program: "model.py:41", "forward:41", "model.py" (all of its lines), ":41" (of any
// file).
struct LineQuery {
  std::string place;  // a file or a function; empty: any
  int line = 0;       // 0: any
};
// Throws kInvalidArgument if the text names neither a place nor a line.
LineQuery parse_line_query(std::string_view text);

// All in order, those of nested graphs and functions included. Nodes that only hold a constant are left out.
std::vector<const Node*> all_nodes(const Model& m);
// The nodes of that name, or those with a result of that name. Throws kInvalidArgument with the nearest names
// if there is none.
std::vector<const Node*> nodes_named(const Model& m, std::string_view name);
// The nodes that come from that line. A file may be written with folders; the last parts of both paths must
// agree.
std::vector<const Node*> nodes_at(const Model& m, const LineQuery& query);

// "MatMul_3", else the name of its first result, else "%17".
std::string label_of(const Node& n);

}  // namespace sardonyx
