// sx_bytes TARGET [--mutate=SECONDS] [--seed=N] [--keep=FILE] PATH...
//
// Passes the files to a target of targets.h. With --mutate, passes randomly damaged copies of them instead,
// without coverage guidance: for compilers without libFuzzer, and to replay findings. --keep saves the
// current input to a file, so that a crash leaves it behind. Prints which input took longest and the largest
// memory request.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "targets.h"

namespace {

using Bytes = std::vector<uint8_t>;
using Target = void (*)(sardonyx::bytes::Input);

const std::map<std::string, Target> kTargets = {
    {"onnx", sardonyx::bytes::onnx},           {"coreml", sardonyx::bytes::coreml},
    {"text", sardonyx::bytes::text},           {"program", sardonyx::bytes::program},
    {"mlir_text", sardonyx::bytes::mlir_text}, {"mlir_bytecode", sardonyx::bytes::mlir_bytecode}};

Bytes read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Applies one to eight random changes. Seeds share structure, so pieces of one fit into another.
Bytes damaged(const std::vector<Bytes>& seeds, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); };
  Bytes b = seeds[below(seeds.size())];
  for (size_t k = 1 + below(8); k > 0; --k) {
    if (b.empty()) b.push_back(0);
    const size_t at = below(b.size()), length = 1 + below(std::min<size_t>(b.size() - at, 32));
    const auto place = b.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(8)) {
      case 0: b[at] ^= static_cast<uint8_t>(1u << below(8)); break;
      case 1: b[at] = static_cast<uint8_t>(random()); break;
      case 2: {
        static constexpr uint8_t kOdd[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '[', '{', '(', '-', '"'};
        b[at] = kOdd[below(std::size(kOdd))];
        break;
      }
      case 3: b.erase(place, place + static_cast<std::ptrdiff_t>(length)); break;
      case 4: {
        const Bytes piece(place, place + static_cast<std::ptrdiff_t>(length));
        b.insert(b.begin() + static_cast<std::ptrdiff_t>(below(b.size())), piece.begin(), piece.end());
        break;
      }
      case 5: {
        const Bytes& other = seeds[below(seeds.size())];
        if (other.empty()) break;
        const size_t from = below(other.size()), n = 1 + below(std::min<size_t>(other.size() - from, 64));
        b.insert(place, other.begin() + static_cast<std::ptrdiff_t>(from),
                 other.begin() + static_cast<std::ptrdiff_t>(from + n));
        break;
      }
      case 6: {  // a large number as a protobuf varint
        const Bytes varint(1 + below(9), 0xff);
        std::copy(varint.begin(), varint.begin() + static_cast<std::ptrdiff_t>(std::min(varint.size(), b.size() - at)), place);
        break;
      }
      default: b.resize(at + 1); break;
    }
  }
  return b;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Bytes> seeds;
  double seconds = 0;
  uint64_t seed = 1;
  std::string keep;
  const auto target = argc > 1 ? kTargets.find(argv[1]) : kTargets.end();
  for (int i = 2; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.starts_with("--mutate=")) {
      seconds = std::stod(a.substr(9));
    } else if (a.starts_with("--seed=")) {
      seed = std::stoull(a.substr(7));
    } else if (a.starts_with("--keep=")) {
      keep = a.substr(7);
    } else if (std::filesystem::is_directory(a)) {
      std::vector<std::filesystem::path> files;
      for (const auto& e : std::filesystem::recursive_directory_iterator(a)) {
        if (e.is_regular_file()) files.push_back(e.path());
      }
      std::sort(files.begin(), files.end());
      for (const auto& f : files) seeds.push_back(read(f));
    } else {
      seeds.push_back(read(a));
    }
  }
  if (target == kTargets.end() || seeds.empty()) {
    std::cerr << "usage: sx_bytes onnx|coreml|text|program|mlir_text|mlir_bytecode [--mutate=SECONDS] [--seed=N] [--keep=FILE] "
                 "PATH...\n";
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  double slowest = 0;
  Bytes slowest_input;
  size_t tried = 0;
  const auto one = [&](const Bytes& b) {
    if (!keep.empty()) std::ofstream(keep, std::ios::binary).write(reinterpret_cast<const char*>(b.data()), std::ssize(b));
    const auto begin = Clock::now();
    target->second(b);
    const double took = since(begin);
    ++tried;
    if (took > slowest) {
      slowest = took;
      slowest_input = b;
    }
  };
  std::mt19937_64 random(seed);
  if (seconds == 0) {
    for (const Bytes& b : seeds) one(b);
  }
  while (since(start) < seconds) one(damaged(seeds, random));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << fmt::format("{}: {} inputs in {:.0f} s; the slowest ({} bytes) took {:.3f} s; largest size in memory {} MB\n",
                           target->first, tried, since(start), slowest_input.size(), slowest, usage.ru_maxrss / 1024);
  if (!keep.empty())
    std::ofstream(keep + ".slowest", std::ios::binary)
        .write(reinterpret_cast<const char*>(slowest_input.data()), std::ssize(slowest_input));
  return 0;
}
