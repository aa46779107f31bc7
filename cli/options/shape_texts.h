// Shapes of inputs and bounds of sizes on the command line.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/interface.h"

namespace sardonyx::cli {

// "x:1,3,B" or "x=f32[1,3,B]": -1 and ? leave a size as it is. Throws kInvalidArgument for other texts.
InputShape input_shape_of(const std::string& text);
std::vector<InputShape> input_shapes_of(const std::vector<std::string>& texts);

// "x:1,3,7,7" is added to the shapes of that input. Throws kInvalidArgument for other texts.
void add_enumerated_shape(std::vector<EnumeratedShapes>& to, const std::string& text);

// "T <= 512", "4*T + 1 >= 5" or "T == 7". Throws kInvalidArgument for relations of several sizes, and kParse
// for other texts.
SizeBounds size_bounds_of(const std::string& text);
// "T=128".
DefaultSize default_size_of(const std::string& text);
// Whether a text is a default size, not a bound.
bool is_default_size(const std::string& text);

}  // namespace sardonyx::cli
