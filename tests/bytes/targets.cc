#include "targets.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "io/text/program_file.h"
#include "sardonyx/error.h"
#include "sardonyx/eval.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"
#include "sardonyx/lower.h"
#include "sardonyx/passes.h"
#include "sardonyx/stablehlo.h"
#include "support/system/system.h"

namespace sardonyx::bytes {
namespace {

// Low limits: a hostile model must be refused, not run to its end.
EvalOptions bounded(size_t input) {
  return {.memory_cap = (16u << 20) + 16 * input, .max_steps = 2000, .max_iterations = 1000, .max_depth = 20};
}

// Runs f. Any Error is fine except kInternal, which means that we are at fault.
template <class F>
bool tolerated(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInternal) return false;
    std::fprintf(stderr, "internal error: %s\n", e.what());
    throw;
  }
}

// A folder for inputs that must be files. It is removed when the process ends.
const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      const auto base =
          std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
      path = base / fmt::format("sardonyx-bytes-{}", sys::process_id());
      std::filesystem::create_directories(path / "weights");
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder it;
  return it.path;
}

void put(const std::filesystem::path& path, Input bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::pair<Input, Input> split(Input bytes) {
  uint32_t length = 0;
  if (bytes.size() < sizeof length) return {bytes, {}};
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes = bytes.subspan(sizeof length);
  const size_t first = std::min<size_t>(length, bytes.size());
  return {bytes.first(first), bytes.subspan(first)};
}

std::span<const std::byte> as_bytes(Input in) { return std::as_bytes(in); }

bool is_small(const Model& m) {
  for (const auto& f : m.functions()) {
    for (const Port& p : f->graph().inputs()) {
      const Type* t = p.declared;
      if (t == nullptr || !t->is_tensor() || !t->ranked()) return false;
      int64_t size = 1;
      for (Dim d : t->dims()) {
        size *= d.is_int() ? d.value() : 2;
        if (size < 0 || size > 10000) return false;
      }
    }
  }
  return true;
}

// The steps applied to any model.
void use(Model& m, size_t input) {
  tolerated([&] { verify(m); });
  (void)warnings(m);
  ValueFacts facts;
  if (!tolerated([&] { infer_model(m, facts, /*tolerant=*/true); })) return;
  (void)print(m);
  if (is_small(m) && (m.dialect() == DialectId::kOnnx || m.dialect() == DialectId::kMil)) {
    tolerated([&] {
      std::vector<EvalValue> inputs(m.graph().inputs().size());
      fill_inputs(m.graph(), inputs, 1);
      evaluate(m.graph(), inputs, bounded(input));
    });
  }
}

// Strict: otherwise a pass that fails through our own fault would be undone and only reported.
void optimize(Model& m, size_t input) {
  if (input >= 4000) return;
  tolerated([&] { run_passes(m, {.passes = {m.dialect() == DialectId::kMil ? "default" : "onnx"}, .strict = true}); });
}

}  // namespace

void onnx(Input bytes) {
  tolerated([&] {
    const auto m = read_onnx_bytes(as_bytes(bytes), nullptr);
    tolerated([&] { (void)serialize_onnx(*m); });
    use(*m, bytes.size());
    optimize(*m, bytes.size());
  });
}

void coreml(Input bytes) {
  const auto [message, weights] = split(bytes);
  put(folder() / "weights" / "weight.bin", weights);
  tolerated([&] {
    const auto m = read_coreml_bytes(as_bytes(message), nullptr, folder());
    use(*m, bytes.size());
    tolerated([&] { (void)serialize_mil_program(*m, folder() / "written"); });
    optimize(*m, bytes.size());
  });
}

void text(Input bytes) {
  tolerated([&] {
    const auto m = parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const std::string once = print(*m, {.full_constants = true});
    // Printed text must parse, and print the same again.
    std::unique_ptr<Model> again;
    try {
      again = parse(once);
    } catch (const Error& e) {
      SX_CHECK(e.code() == ErrorCode::kLimit, std::string("what was printed cannot be read: ") + e.what());
    }
    if (again) SX_CHECK(print(*again, {.full_constants = true}) == once, "a text prints in two ways: " + once);
    use(*m, bytes.size());
  });
}

void program(Input bytes) {
  const auto [source, sidecar] = split(bytes);
  const auto path = folder() / "program.sx";
  put(path, source);
  put(folder() / "program.sxw", sidecar);
  tolerated([&] {
    const auto m = load_program(path);
    use(*m, bytes.size());
    if (m->dialect() != DialectId::kJax) return;
    tolerated([&] {
      const auto lowered = lower_to_onnx(*m);
      use(*lowered, bytes.size());
    });
  });
}

void mlir_text(Input bytes) {
  tolerated([&] {
    const auto m = read_stablehlo(as_bytes(bytes), nullptr);
    // The model prints as text that parses, except where the text form has a lower limit.
    const std::string once = print(*m, {.full_constants = true});
    std::unique_ptr<Model> again;
    try {
      again = parse(once);
    } catch (const Error& e) {
      SX_CHECK(e.code() == ErrorCode::kLimit, std::string("what was printed cannot be read: ") + e.what());
    }
    use(*m, bytes.size());
    tolerated([&] {
      const auto program = lower_stablehlo_to_jax(*m);
      use(*program, bytes.size());
      tolerated([&] { use(*lower_to_onnx(*program), bytes.size()); });
    });
  });
}

void mlir_bytecode(Input bytes) { mlir_text(bytes); }

}  // namespace sardonyx::bytes
