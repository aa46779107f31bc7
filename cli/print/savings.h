// What each pass saved, as a table and as JSON.
#pragma once

#include <string>

#include "cli/print/output.h"
#include "sardonyx/convert.h"

namespace sardonyx::cli {

// A row for each pass that saved something: at most `most` of them, in order.
void print_savings(const OptimizeReport& report, size_t most);

// "39", "1.43 M"
std::string short_count(double n);

// {"nodes": 4, "tensor_bytes": 12, "flops": "28*B", "flops_at": 28}
ordered_json json_of(const Saved& saved);

}  // namespace sardonyx::cli
