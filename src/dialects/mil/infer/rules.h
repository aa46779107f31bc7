// Type rules of MIL ops, by family in infer_*.cc. scripts/tables/gen_mil_facts.py assigns rules to ops.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx::mil::rules {

#include "dialects/mil/generated/rules.gen.inc"

}  // namespace sardonyx::mil::rules
