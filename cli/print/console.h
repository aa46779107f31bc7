// What a terminal shows of a run while it goes on.
#pragma once

#include "sardonyx/observe.h"
#include "support/system/progress.h"

namespace sardonyx::cli {

class ProgressLine final : public Observer {
 public:
  void progress(std::string_view what, size_t done, size_t total) override { line_.show(what, done, total); }
  // Before an error is printed.
  void clear() { line_.clear(); }

 private:
  Progress line_;
};

// Why passes left nodes alone (--explain).
class NearMissLines final : public Observer {
 public:
  void near_miss(std::string_view pass, std::string_view node, std::string_view why) override;
};

}  // namespace sardonyx::cli
