// sx_test --fmt: writes the graphs of Core ML's cases in their shortest form.
//
//   - A value with one user is nested in it, if the line stays within 112 columns and the name says nothing:
//     it has at most two letters, or is a part of its operator's name.
//   - Results have no type where inference finds the same one.
//   - There is no mil_opset where the case holds without it.
//
// Names of the interface stay, and so does everything outside of the graphs. A graph is rewritten only if
// what it parses to is equal, with all types, and if the case gives an equal result.
#pragma once

#include <string>
#include <vector>

#include "sx_test_files.h"

namespace sardonyx {

// The lines of the file, with the graphs of Core ML in the shortest form. Cases that fail, that compare names
// ("=> exactly"), or that have functions or comments in their graphs stay as they are.
std::vector<std::string> format_cases(const CaseFile& f);

}  // namespace sardonyx
