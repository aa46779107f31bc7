// Type rules of MIL ops, by family: infer_*.cc. Which op has which is tabled in tools/gen_mil_facts.py.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx::mil::rules {

#include "dialects/mil/rules.gen.inc"

}  // namespace sardonyx::mil::rules
