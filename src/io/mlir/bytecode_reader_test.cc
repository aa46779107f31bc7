#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "io/mlir/elements.h"
#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

// A module, and what stablehlo.serialize_portable_artifact of jaxlib 0.10.2 makes of it for StableHLO 1.15.0
// (bytecode of format 6, with properties and isolated sections) and 0.9.0 (format 0).
constexpr std::string_view kText = R"(module @m {
  func.func public @main(%arg0: tensor<2x3xf32> loc("x"), %arg1: tensor<i32> {jax.global_constant = "n"}) -> (tensor<2x5xf32> {jax.result_info = "result"}, tensor<?xi1>) {
    %cst = stablehlo.constant dense<[[1.000000e+00, -2.500000e+00, 0xFF800000, 0.000000e+00, 3.000000e+00], [0.1, 0.2, 0.3, 0.4, 0.5], [7.0, 8.0, 9.0, 1.0e-3, 2.0]]> : tensor<3x5xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %c_1 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi4>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32> loc(callsite("f"("/home/net.py":7:4) at "g"("/home/main.py":3:2)))
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_2 = %0) : tensor<i32>, tensor<2x5xf32>
    cond {
      %4 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %4 = stablehlo.add %iterArg, %c_3 : tensor<i32>
      %5 = func.call @g(%iterArg_2) : (tensor<2x5xf32>) -> tensor<2x5xf32>
      %6 = stablehlo.add %5, %0 : tensor<2x5xf32>
      stablehlo.return %4, %6 : tensor<i32>, tensor<2x5xf32>
    }
    %d = stablehlo.constant dense<2> : tensor<1xi32>
    %2 = stablehlo.convert %c_1 : (tensor<3xi4>) -> tensor<3xi1>
    %3 = stablehlo.real_dynamic_slice %c_0, %d, %d, %d : (tensor<3xi1>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xi1>
    return %1#1, %3 : tensor<2x5xf32>, tensor<?xi1>
  }
  func.func private @g(%arg0: tensor<2x5xf32>) -> tensor<2x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%arg0, %cst) <{window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<2x5xf32>, tensor<f32>) -> tensor<2x5xf32>
    return %0 : tensor<2x5xf32>
  }
}
)";

constexpr std::string_view kNewFormat =
    "4d4cef520d537461626c65484c4f5f76312e31352e3000012b0501051b01030b03190f13171b1f23272b2f33373b03ab6f2d0129"
    "070b13130b1313130f0b130f0f0b130b0f0b130b03470b2f0b0b0b0f13130b0b0b13130b0b0b0b0b0b1f8f4fff1f131b2f130b0b"
    "2f1f1f0b0b032d170f0f0707071317073313171313131f17170707130f020e061f051f1703113917031157052117033131170337"
    "151703373d1d13010523170305771519211d1b1d0525171f0f0905271d2325052917270705052b23271f15110100000000000000"
    "0d0103011d291f290103052d370d03393b1d2d1d2f231f0305412d0d0343451d311d331d351d3723211d391f0509000000001f23"
    "4100000000000000000000000000000000010000000000000001000000000000001f152101000000000000000300000000000000"
    "1f17790000803f000020c0000080ff0000000000004040cdcccc3dcdcc4c3e9a99993ecdcccc3e0000003f0000e0400000004100"
    "0010416f12833a000000401f0309000000001f0d03051f1907010e031f1b11010000000000000003056163170517011f1b110000"
    "0000000000001f1d09020000001f0309010000000907070b2905091507290111290107091d0129030d0b2905090d071b290300ff"
    "ffffffffffffff0b2903090929050d150729030d25290305092903051111050f0305011311030103012905090909154329030109"
    "29010b049203050150010107046e03030109075001030704560203192b051f110715000342010503170342010703030342010903"
    "0d0342010b03190f46170d030105010511160105030105070d0903070b0507050307001946010f032b051903050401031d030d17"
    "050705030700034201110303090601030305191d174601130301031b090601030105210d050401051f2303420115031d13060103"
    "0d030b150601031309091313130504010511170750011707046903070f03030b000342011903050b56011b030105010307042d03"
    "070b050b0d0b0f000d060103050501030504010305050401030506030105010096043b110f0b0f2105291d051b0505050517112d"
    "17131f17230f1115190f0b116275696c74696e0076686c6f006d6f64756c6500636f6e7374616e745f76310072657475726e5f76"
    "310066756e635f7631006164645f7631007265647563655f77696e646f775f7631006d6178696d756d5f763100646f745f67656e"
    "6572616c5f7632007768696c655f763100636f6e766572745f7631007265616c5f64796e616d69635f736c6963655f7631006361"
    "6c6c5f763100636f6d706172655f7631002d006d00780066002f686f6d652f6e65742e70790067002f686f6d652f6d61696e2e70"
    "79006a61782e676c6f62616c5f636f6e7374616e74006e006a61782e726573756c745f696e666f00726573756c74006d61696e00"
    "7075626c6963007072697661746500086d1d0513010b353d3f4749035503570359035b19292933295d29295f33296529056b6d03"
    "69033103670b2f4b2f314d034f0b2b512b532b";

constexpr std::string_view kOldFormat =
    "4d4cef5201537461626c65484c4f5f76302e392e30000129050103010305031907090b0d0f11131517191b1d03e9af2b016b070b"
    "0b0b0b0b0b0b1313130b33331313330b0b0b0b0b13130f0b1313131313330b0b0b0b0b0f0f0b130b0f0b130b1313130b1b0b0b03"
    "452f0b0b0b0f13130b0b0b13130b0b0b0b0b0b1f8f4fff1f131b2f130b0b2f1f1f0b0b032b170f0f070707131707331317131313"
    "1f171707130f0202081f051f05210523052505270529052b170511391705115703030717052d030b09750b7d0d7f07870f89030b"
    "096f0b8b0d6f07710f8d170531310303038f030b236b2591276b29932b6b052f0531053305350537170537151705373d1d330105"
    "39170505770303039503030397030303990303039b030b4173439d459f477349a5053b053d053f05410543154d551d4f51054517"
    "530f0905471d57590549175b0705054b030303a7030303a903036371054d030567ab69ad054f05511f151101000000000000000d"
    "0103011d491f270103056d770d03797b1d531d55231f0305816d0d0383851d571d591d5b1d5d23211d5f1f0509000000001f2341"
    "00000000000000000000000000000000010000000000000001000000000000001f1521010000000000000003000000000000001f"
    "17790000803f000020c0000080ff0000000000004040cdcccc3dcdcc4c3e9a99993ecdcccc3e0000003f0000e040000000410000"
    "10416f12833a000000401f0309000000001f0d03051f1907010e031f1b1101000000000000000305a1a3170517011f1b11000000"
    "00000000001f1d09020000001f0309010000000907070b2905091507290111290107091d0129030d0b2905090d071b290300ffff"
    "ffffffffffff0b2903090929050d150729030d25290305092903051111050f030501131103010301290509090915290301092901"
    "0b045603050111011507030109071101190703192b050f3103350303013703170303013903030303013b030d0303013d03190f07"
    "4b3f030105010511160105030105070d0903070b0503110113190701650329051903050401031d030d1705031101130303015f03"
    "03090601030305191d170701610301031b090601030105210d050401051f230303015d031d130601030d030b1506010313090913"
    "13130504010511170711011b0703070f03011d0303011f03050b17012103010501030703070b05052d052f0d0601030505010305"
    "040103050504010305060301050100860961110f0b0f2105292b1b0f1d051b053731233731051f2523111f051f151d1513050d17"
    "112d17131f17230f1115190f0b116275696c74696e0076686c6f006d6f64756c6500636f6e7374616e745f76310072657475726e"
    "5f76310066756e635f7631006164645f7631007265647563655f77696e646f775f7631006d6178696d756d5f763100646f745f67"
    "656e6572616c5f7631007768696c655f763100636f6e766572745f7631007265616c5f64796e616d69635f736c6963655f763100"
    "63616c6c5f763100636f6d706172655f76310076616c7565002d0073796d5f6e616d65006172675f61747472730066756e637469"
    "6f6e5f74797065007265735f61747472730073796d5f7669736962696c697479006d00626173655f64696c6174696f6e73007061"
    "6464696e670077696e646f775f64696c6174696f6e730077696e646f775f64696d656e73696f6e730077696e646f775f73747269"
    "6465730078006c68735f6261746368696e675f64696d656e73696f6e73006c68735f636f6e7472616374696e675f64696d656e73"
    "696f6e7300707265636973696f6e5f636f6e666967007268735f6261746368696e675f64696d656e73696f6e73007268735f636f"
    "6e7472616374696e675f64696d656e73696f6e730066002f686f6d652f6e65742e70790067002f686f6d652f6d61696e2e707900"
    "63616c6c656500636f6d706172655f7479706500636f6d70617269736f6e5f646972656374696f6e006a61782e676c6f62616c5f"
    "636f6e7374616e74006e006a61782e726573756c745f696e666f00726573756c74006d61696e007075626c696300707269766174"
    "6500";

std::vector<std::byte> bytes_of(std::string_view hex) { return *mlir::hex_bytes("0x" + std::string(hex)); }

std::unique_ptr<Model> read(std::span<const std::byte> bytes) { return read_stablehlo(bytes, nullptr); }

std::string message(std::span<const std::byte> bytes, ErrorCode code) {
  try {
    (void)read(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.message();
  }
  return "no error";
}

TEST(StablehloBytecode, IsTheModelOfTheText) {
  const auto text = read(std::as_bytes(std::span(kText)));
  const std::string expected = print(*text, {.full_constants = true, .provenance = true});
  EXPECT_NE(expected.find("net.py:7 (f)"), std::string::npos);
  for (std::string_view hex : {kNewFormat, kOldFormat}) {
    const auto m = read(bytes_of(hex));
    verify(*m);
    EXPECT_EQ(print(*m, {.full_constants = true, .provenance = true}), expected);
    EXPECT_TRUE(equal_models(*m, *text));
  }
}

TEST(StablehloBytecode, ConstantsReferToTheFile) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(bytes_of(kNewFormat));
  const auto m = read_stablehlo(*kept, kept);
  const auto constants = m->graph().constants();
  const auto matrix = std::ranges::find_if(constants, [](const Value* v) { return v->constant()->size() == 15; });
  ASSERT_NE(matrix, constants.end());
  const std::byte* first = (*matrix)->constant()->stored_bytes().data();
  EXPECT_TRUE(first >= kept->data() && first < kept->data() + kept->size());
}

TEST(StablehloBytecode, RefusesNewerVersionsByName) {
  auto bytes = bytes_of(kNewFormat);
  const auto put = [&](std::string_view from, std::string_view to) {
    const auto as = [](std::string_view s) { return std::as_bytes(std::span(s)); };
    const auto at = std::ranges::search(bytes, as(from)).begin();
    ASSERT_NE(at, bytes.end()) << from;
    std::ranges::copy(as(to), at);
  };
  put("StableHLO_v1.15.0", "StableHLO_v1.21.0");
  EXPECT_EQ(message(bytes, ErrorCode::kUnsupported), "a portable artifact of StableHLO 1.21.0: versions up to 1.20 are known");
  put("StableHLO_v1.21.0", "MLIR22.0.0xxxxxxx");
  EXPECT_EQ(message(bytes, ErrorCode::kUnsupported),
            "MLIR bytecode written by 'MLIR22.0.0xxxxxxx': only portable artifacts of StableHLO are read");
  bytes = bytes_of(kNewFormat);
  put("dot_general_v2", "dot_general_v9");
  EXPECT_EQ(message(bytes, ErrorCode::kUnsupported), "the operation 'dot_general_v9' of VHLO is newer than StableHLO 1.20");
  bytes = bytes_of(kNewFormat);
  bytes[4] = std::byte{15};
  EXPECT_EQ(message(bytes, ErrorCode::kUnsupported), "MLIR bytecode of format 7: formats up to 6 are known");
}

// Any byte may be anything: reading ends in a model or in an error that is not ours.
void expect_no_harm(std::span<const std::byte> bytes) {
  try {
    (void)print(*read(bytes));
  } catch (const Error& e) {
    EXPECT_NE(e.code(), ErrorCode::kInternal) << e.what();
  }
}

TEST(StablehloBytecode, DamageIsAnError) {
  for (std::string_view hex : {kNewFormat, kOldFormat}) {
    const auto whole = bytes_of(hex);
    for (size_t n = 4; n < whole.size(); ++n) {
      EXPECT_NE(message(std::span(whole).first(n), ErrorCode::kInvalidModel), "no error") << n;
    }
    for (size_t i = 4; i < whole.size(); ++i) {
      for (const unsigned change : {0x01u, 0x10u, 0xffu}) {
        auto damaged = whole;
        damaged[i] ^= static_cast<std::byte>(change);
        expect_no_harm(damaged);
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx
