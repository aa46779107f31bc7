#include "sardonyx/version.h"

namespace sardonyx {

const char* version() { return SARDONYX_VERSION; }

}  // namespace sardonyx
