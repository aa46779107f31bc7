// Names of the rules that fired in this run, in the provenance of what they made (Observer::names_rules). A
// mark tells them from names that a file has, which stay.
#pragma once

#include <cstdint>
#include <string_view>

#include "sardonyx/observe.h"

namespace sardonyx {

// `provenance` of `m` with the rule.
uint32_t with_fired_rule(Model& m, uint32_t provenance, std::string_view pass, std::string_view rule);
// The name as people read it.
std::string_view without_mark(std::string_view rule);

// Ends a run: tells the observer, which may be null, what was made, and takes the names of fired rules out of
// it.
void end_run(Observer* observer, Model& m);

}  // namespace sardonyx
