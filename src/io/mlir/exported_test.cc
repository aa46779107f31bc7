#include "io/mlir/exported.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "io/mlir/elements.h"
#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

// What JAX 0.10.2 writes for scaled(p, x) = {"m": -x, "n": p["w"]} with p = {"w": f32[5]} and x: f32[2*b,3],
// around a module that names no argument.
constexpr std::string_view kExported =
    "3c0000003800640062005c005800540050004c000000440040003c003800340030002c002a0024002300000048001c0018001400"
    "10000c0008000400380000006000000068000000700000007800000080000000800000008000000000000001c800000000000a00"
    "c8000000bc010000bc010000bc010000a0010000b8010000c801000001000000d4010000200200005c020000b402000048030000"
    "00000300020000000000000000000000020000000000000000000000020000000100000000000000020000000000000001000000"
    "0000000000000000020000003000000004000000c4fdffff0000010a040000000200000010000000040000000100000033000000"
    "03000000322a6200ecfdffff0000010a04000000010000000400000001000000350000000200000000000100e20000004d4cef52"
    "0d537461626c65484c4f5f76312e31352e300001190501050901030b03070f131703250d090105070b03090b0b0b0b0309371307"
    "1f02491f050d030123071d0f1d11290500ffffffffffffffff0d05290315050911050301050103044d050150010107043d030105"
    "0350010307042903070b050501000506010301030307040105050106030105010091130f0b051515110f0b116275696c74696e00"
    "76686c6f006d6f64756c650066756e635f7631006e65676174655f76310072657475726e5f7631006d006d61696e007075626c69"
    "63000815050507010b050705090b000001000000040000000300000063707500000000000000000000000000020000000c000000"
    "0400000068feffff6cfeffff020000000c000000040000007cfeffff80feffff02000000240000000400000048ffffff0000010a"
    "040000000100000004000000010000003500000064ffffff0000010a040000000200000010000000040000000100000033000000"
    "03000000322a620006ffffff0c0000002400000000000004020000001000000004000000010000006e000000010000006d000000"
    "020000000c000000040000000cffffff10ffffff020000003c00000004000000d8ffffff0000010a040000000200000010000000"
    "04000000010000003300000003000000322a62000c000c0000000800070006000c0000000000010a040000000100000004000000"
    "0100000035000000ccffffff0800000000000002020000002c0000001000000000000a000c000b00000004000a00000008000000"
    "000000040000000008000c000b000400080000000800000000000002020000001c00000008000000040006000400000000000a00"
    "10000f00080004000a0000000c000000180000000000000401000000040000000100000077000000010000000800000004000400"
    "04000000060000007363616c65640000";

std::vector<std::byte> exported() { return *mlir::hex_bytes("0x" + std::string(kExported)); }

TEST(StablehloExported, NamesPortsAndSizes) {
  const auto m = read_stablehlo(exported(), nullptr);
  EXPECT_EQ(print(*m), R"(graph stablehlo(%"args[0]['w']": f32[5], %"args[1]": f32[2*b,3]) named "scaled" {
  %0: f32[?,3] = negate(%"args[1]")
  return %"result['m']": f32[?,3] = %0, %"result['n']": f32[5] = %"args[0]['w']"
}
)");
}

TEST(StablehloExported, RefusesANewerCallingConvention) {
  auto bytes = exported();
  const auto root = mlir::read_exported(bytes);
  ASSERT_TRUE(root);
  bool refused = false;
  for (size_t i = 0; i < 200; ++i) {  // the convention is one of the first numbers: 10
    auto changed = bytes;
    if (changed[i] != std::byte{10}) continue;
    changed[i] = std::byte{11};
    try {
      (void)read_stablehlo(changed, nullptr);
    } catch (const Error& e) {
      refused |= e.message() == "a function exported with calling convention 11: conventions up to 10 are known";
    }
  }
  EXPECT_TRUE(refused);
}

TEST(StablehloExported, DamageIsAnError) {
  const auto whole = exported();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const unsigned change : {0x01u, 0x10u, 0xffu}) {
      auto damaged = whole;
      damaged[i] ^= static_cast<std::byte>(change);
      try {
        (void)print(*read_stablehlo(damaged, nullptr));
      } catch (const Error& e) {
        EXPECT_NE(e.code(), ErrorCode::kInternal) << e.what();
      }
    }
  }
}

TEST(StablehloExported, OtherBytesAreNoModule) {
  const std::vector<std::byte> zeros(1000);
  try {
    (void)read_stablehlo(zeros, nullptr);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_EQ(e.message(), "this is no StableHLO module: neither MLIR text nor bytecode, nor a function that jax.export wrote");
  }
}

}  // namespace
}  // namespace sardonyx
