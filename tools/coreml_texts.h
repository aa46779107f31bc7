// The texts that describe a conversion to Core ML on the command line, as values.
#pragma once

#include "driver/to_coreml.h"
#include "options.h"
#include "output.h"

namespace sardonyx::tools {

// These throw kInvalidArgument. The precision is half without --precision.
CoremlPrecision coreml_precision(const Given& given);
ToCoremlOptions coreml_options(const Given& given);
// The same as keywords of sardonyx.to_coreml.
ordered_json coreml_keywords(const Given& given);

}  // namespace sardonyx::tools
