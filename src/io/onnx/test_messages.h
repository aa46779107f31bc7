// ONNX messages written by hand, for tests: field(1, message) nests, field(1, 5) is a number.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/wire.h"
#include "sardonyx/io.h"

namespace sardonyx {

inline std::string varint(uint64_t v) {
  std::string s;
  wire::append_varint(s, v);
  return s;
}
inline std::string field(uint32_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string field(uint32_t number, const char* text) { return field(number, std::string_view(text)); }
inline std::string field(uint32_t number, int v) {
  return varint(number << 3) + varint(static_cast<uint64_t>(static_cast<int64_t>(v)));
}

inline std::string node(std::string_view op, std::initializer_list<const char*> inputs,
                        std::initializer_list<const char*> outputs, std::string_view more = {}, std::string_view name = {}) {
  std::string s;
  for (const char* i : inputs) s += field(1, i);
  for (const char* o : outputs) s += field(2, o);
  return field(1, s + (name.empty() ? "" : field(3, name)) + field(4, op) + std::string(more));
}
inline std::string f32_type(std::initializer_list<int> dims) {
  std::string shape;
  for (int d : dims) shape += field(1, field(1, d));
  return field(1, field(1, 1) + field(2, shape));
}
inline std::string port(uint32_t number, const char* name) { return field(number, field(1, name) + field(2, f32_type({2}))); }
inline std::string initializer(const char* name, std::string_view data) {
  return field(5, field(1, 2) + field(2, 1) + field(8, name) + std::string(data));
}
inline std::string model(std::string_view graph, std::string_view more = {}, int ir_version = 10) {
  return field(1, ir_version) + field(7, graph) + field(8, field(2, 21)) + std::string(more);
}
inline std::string raw_floats(int n) { return field(9, std::string(static_cast<size_t>(n) * 4, '\1')); }

inline std::unique_ptr<Model> read(const std::string& bytes, const std::filesystem::path& folder = {},
                                   const ReadOptions& options = {}) {
  auto kept = std::make_shared<std::string>(bytes);
  return read_onnx_bytes(std::as_bytes(std::span(*kept)), kept, folder, options);
}

}  // namespace sardonyx
