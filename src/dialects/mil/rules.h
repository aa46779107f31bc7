// Type rules of MIL ops, by family in infer_*.cc. tools/gen_mil_facts.py assigns rules to ops.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx::mil::rules {

#include "dialects/mil/rules.gen.inc"

}  // namespace sardonyx::mil::rules
