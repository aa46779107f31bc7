// Every answer of the ONNX operators about layouts: which they follow, and that what they become computes the
// same.
#include "passes/mincut/operators.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "passes/mincut/family.h"
#include "sardonyx/eval.h"
#include "sardonyx/infer.h"

namespace sardonyx::layout {
namespace {

constexpr const char* kInputs =
    "x: f32[2,3,5], w: f32[2,3,5], k: f32[3,1], v: f32[5], o: f32[1,1], p: f32[B,3,B], q: f32[2,3,4,5], m: f32[5,3], t: "
    "f32[2,5,3], "
    "e: f32[2,6,5], i: i64[2,3,5], j: i64[3], h: i64[3,2], c: i8[2,3,5], b: bool[2,3,5], u: f32[...], r: f32[2,3,5,4], s: "
    "i64[3], a: i64[1], d: f32[0,3,5], l: f32[C,3,5], f: f32[2,3,1], g: i64[G], n: f32[20*H]";

// In which layouts a node follows: `0: 021 102>=,-,=` says that it follows operand 0 stored as 0,2,1 or as
// 1,0,2; that operand 0 and the result then are stored like this (=) and operand 1 as it is (-). `r` and `s`
// are results 0 and 1; +2 and -2 are what gets slower, n1 is one node more, x is when operands 0 and 1 change
// places; n is an axis of size one.
struct Row {
  const char* node;
  const char* follows;
  const char* opset = "21";
};

const Row kRows[] = {
    {"y = Abs(o)", "r: 10>-,="},
    {"y = Add(o, x)", "1: 021 102 120 201 210>-,=,= r: 021 102 120 201 210>-,=,="},
    {"y = ReduceMax(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,=", "12"},
    {"y = Expand(x, a)", ""},
    {"y = Resize(x, f32[0]{}, f32[3]{1,2,1})", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,=", "12"},
    {"y = Resize(x, _, _, s)", "0: 021 102 120 201 210>=,-,-,-,=n1 r: 021 102 120 201 210>=,-,-,-,=n1"},
    {"y = Resize(x, _, f32[0]{}, i64[3]{2,3,10})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Resize(x, _, f32[3]{1,2,1}, i64[0]{})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Reshape(x, i64[4]{2,3,5,1})",
     "0: 021>=,-,0213 102>=,-,1023 120>=,-,1203 201>=,-,2013 210>=,-,2103 r: 0132>-,-,= 0213 0231>021,-,= 0312>-,-,= "
     "0321>021,-,= 1023 1032>102,-,= 1203 1230>120,-,= 1302>102,-,= 1320>120,-,= 2013 2031>201,-,= 2103 2130>210,-,= "
     "2301>201,-,= 2310>210,-,= 3012>-,-,= 3021>021,-,= 3102>102,-,= 3120>120,-,= 3201>201,-,= 3210>210,-,="},
    {"y = Reshape(k, i64[1]{3})", "0: 10>=,-,-"},
    {"y = Reshape(k, i64[4]{1,3,1,1})",
     "0: 10>=,-,0213 r: 0132>-,-,= 0213 0231>10,-,= 0312>-,-,= 0321>10,-,= 1023 1032 1203 1230 1302 1320>-,-,= 2013 2031 2103 "
     "2130 2301 2310>10,-,= 3012>-,-,= 3021>10,-,= 3102 3120>-,-,= 3201 3210>10,-,="},
    {"y = Reshape(x, i64[2]{10,3})", ""},
    {"y = Reshape(q, i64[3]{6,4,5})",
     "0: 0132>=,-,021 2013>=,-,102 2301>=,-,120 3012>=,-,201 3201>=,-,210 r: 021>0132,-,= 102>2013,-,= 120>2301,-,= "
     "201>3012,-,= 210>3201,-,="},
    {"y = Reshape(q, i64[4]{3,2,4,5})", "0: 0132 2013 2301 3012 3201>=,-,= r: 0132 2013 2301 3012 3201>=,-,="},
    {"y = Reshape(q, i64[3]{4,6,5})", "0: 3012>=,-,201 r: 201>3012,-,="},
    {"y = Reshape(u, i64[3]{2,3,5})", ""},
    {"y, z1, z2 = LayerNormalization(x, v)", "0: 102>=,-,=,-,- r: 102>=,-,=,-,-", "17"},
    {"y = Abs(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,="},
    {"y = Add(x, w)", "0: 021 102 120 201 210>=,=,= 1: 021 102 120 201 210>=,=,= r: 021 102 120 201 210>=,=,="},
    {"y = Add(x, k)",
     "0: 021>=,10,= 102>=,0n1,= 120>=,01n,= 201>=,1n0,= 210>=,10n,= r: 021>=,10,= 102>=,0n1,= 120>=,01n,= 201>=,1n0,= "
     "210>=,10n,="},
    {"y = Add(k, x)",
     "1: 021>10,=,= 102>0n1,=,= 120>01n,=,= 201>1n0,=,= 210>10n,=,= r: 021>10,=,= 102>0n1,=,= 120>01n,=,= 201>1n0,=,= "
     "210>10n,=,="},
    {"y = Add(x, v)", "0: 021>=,0n,= 102>=,-,= 120>=,0n,= 201 210>=,0nn,= r: 021>=,0n,= 102>=,-,= 120>=,0n,= 201 210>=,0nn,="},
    {"y = Add(x, o)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Add(x, f32 2)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Add(v, k)", "1: 10>0n,=,= r: 10>0n,=,="},
    {"y = Where(b, x, w)",
     "0: 021 102 120 201 210>=,=,=,= 1: 021 102 120 201 210>=,=,=,= 2: 021 102 120 201 210>=,=,=,= r: 021 102 120 201 "
     "210>=,=,=,="},
    {"y = Where(b, x, k)",
     "0: 021>=,=,10,= 102>=,=,0n1,= 120>=,=,01n,= 201>=,=,1n0,= 210>=,=,10n,= 1: 021>=,=,10,= 102>=,=,0n1,= 120>=,=,01n,= "
     "201>=,=,1n0,= 210>=,=,10n,= r: 021>=,=,10,= 102>=,=,0n1,= 120>=,=,01n,= 201>=,=,1n0,= 210>=,=,10n,="},
    {"y = Neg(u)", ""},
    {"y = Add(u, x)", ""},
    {"y: f32[2,3,5] = Add(u, x)", ""},
    {"y = Clip(x, f32 0, f32 1)", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = CastLike(x, i)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Softmax<axis=2>(x)", "0: 021>=,=+2 102>=,= 120 201 210>=,=+2 r: 021>=,=+2 102>=,= 120 201 210>=,=+2"},
    {"y = Softmax<axis=1>(x)", "0: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,= r: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,="},
    {"y = Softmax<axis=-3>(x)", "0: 021 102>=,= 120>=,=-2 201>=,= 210>=,=-2 r: 021 102>=,= 120>=,=-2 201>=,= 210>=,=-2"},
    {"y = LogSoftmax(x)", "0: 021>=,=+2 102>=,= 120 201 210>=,=+2 r: 021>=,=+2 102>=,= 120 201 210>=,=+2"},
    {"y = Hardmax<axis=0>(x)", "0: 021 102>=,= 120>=,=-2 201>=,= 210>=,=-2 r: 021 102>=,= 120>=,=-2 201>=,= 210>=,=-2"},
    {"y = LpNormalization<axis=1>(x)", "0: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,= r: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,="},
    {"y = Softmax<axis=2>(x)", "", "12"},
    {"y = LpNormalization<axis=1>(x)",
     "0: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,= r: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,=", "12"},
    {"y = Softmax(u)", ""},
    {"y = ReduceSum<keepdims=1>(x, i64[1]{1})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = ReduceSum<keepdims=0>(x, i64[1]{1})", "0: 021 102>=,-,- 120 201 210>=,-,10 r: 10>210,-,="},
    {"y = ReduceSum<keepdims=0>(x, i64[2]{-1,0})", "0: 021 102 120 201 210>=,-,-"},
    {"y = ReduceMax<axes=[1], keepdims=0>(x)", "0: 021 102>=,- 120 201 210>=,10 r: 10>210,=", "13"},
    {"y = ReduceMax<axes=[-1], keepdims=1>(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,=", "13"},
    {"y = ReduceMean(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,="},
    {"y = ReduceMean<keepdims=0>(x)", "0: 021 102 120 201 210>=,-"},
    {"y = ReduceMean<noop_with_empty_axes=1>(x)", ""},
    {"y = ReduceMean<noop_with_empty_axes=1>(x, i64[0]{})", ""},
    {"y = ReduceMean(x, i64[0]{})", ""},
    {"y = ReduceMean(x, a)", ""},
    {"y = ReduceMean(u, i64[1]{1})", ""},
    {"y = ReduceL2<keepdims=0>(q, i64[2]{1,3})",
     "0: 0132 0213 0231 0312 0321 1023 1032>=,-,- 1203 1230>=,-,10 1302>=,-,- 1320 2013 2031 2103 2130 2301 2310>=,-,10 3012 "
     "3021 3102>=,-,- 3120 3201 3210>=,-,10 r: 10>2103,-,="},
    {"y = ArgMax<axis=2, keepdims=0>(x)", "0: 021>=,-+2 102>=,10 120>=,10+2 201>=,-+2 210>=,10+2 r: 10>102,="},
    {"y = ArgMax<axis=1, keepdims=0>(x)", "0: 021>=,--2 102>=,- 120>=,10 201>=,10-2 210>=,10 r: 10>210,="},
    {"y = ArgMax<axis=1>(x)", "0: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,= r: 021>=,=-2 102 120>=,= 201>=,=-2 210>=,="},
    {"y = ArgMin<axis=-1>(x)", "0: 021>=,=+2 102>=,= 120 201 210>=,=+2 r: 021>=,=+2 102>=,= 120 201 210>=,=+2"},
    {"y = ArgMax<axis=0>(u)", ""},
    {"y = CumSum(x, i64 1)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = CumSum(x, i32 -1)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = CumSum(x, i64[1]{0})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = CumSum<reverse=1, exclusive=1>(x, i64 0)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = CumSum(x, Squeeze(a))", ""},
    {"y = Concat<axis=1>(x, w)", "0: 021 102 120 201 210>=,=,= 1: 021 102 120 201 210>=,=,= r: 021 102 120 201 210>=,=,="},
    {"y = Concat<axis=-1>(x, x, w)",
     "0: 021 102 120 201 210>=,=,=,= 1: 021 102 120 201 210>=,=,=,= 2: 021 102 120 201 210>=,=,=,= r: 021 102 120 201 "
     "210>=,=,=,="},
    {"y = Slice(x, i64[1]{1}, i64[1]{3}, i64[1]{2}, i64[1]{1})",
     "0: 021 102 120 201 210>=,-,-,-,-,= r: 021 102 120 201 210>=,-,-,-,-,="},
    {"y = Slice(x, i64[2]{1,0}, i64[2]{2,2}, i64[2]{-3,-1})",
     "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Slice(x, i32[1]{1}, i32[1]{3}, i32[1]{2})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Slice(x, i64[2]{0,1}, i64[2]{1,2})", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = Slice(x, i64[3]{0,1,2}, i64[3]{1,2,4})", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = Slice(x, a, i64[1]{3}, i64[1]{1})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Slice(x, i64[1]{1}, i64[1]{3}, a)", ""},
    {"y = Slice<starts=[1], ends=[3], axes=[2]>(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,=", "9"},
    {"y = Slice<starts=[0,1], ends=[1,2]>(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,=", "9"},
    {"y = Pad(x, i64[6]{1,0,2,0,3,0})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Pad(x, i64[6]{1,0,2,0,3,0}, f32 2)", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = Pad(x, i64[2]{1,2}, f32 2, i64[1]{1})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Pad(x, i64[4]{1,2,3,4}, f32 0, i32[2]{-1,0})", "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,="},
    {"y = Pad(x, Concat<axis=0>(s, s))", ""},
    {"y = Pad<pads=[1,0,2,0,3,0]>(x)", "0: 021 102 120 201 210>=,= r: 021 102 120 201 210>=,=", "10"},
    {"y = Tile(x, i64[3]{2,1,3})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Tile(x, s)", "0: 021 102 120 201 210>=,-,=n1 r: 021 102 120 201 210>=,-,=n1"},
    {"y = Tile(u, s)", ""},
    {"y = Expand(x, i64[3]{2,3,5})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Expand(k, i64[3]{2,3,5})", "r: 021>10,-,= 102>0n1,-,= 120>01n,-,= 201>1n0,-,= 210>10n,-,="},
    {"y = Expand(v, i64[3]{2,3,5})", "r: 021>0n,-,= 102>-,-,= 120>0n,-,= 201 210>0nn,-,="},
    {"y = Expand(v, i64[2]{3,5})", "r: 10>0n,-,="},
    {"y = Expand(o, i64[3]{2,3,5})", "r: 021 102 120 201 210>-,-,="},
    {"y = Expand(x, i64[2]{3,5})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Expand(o, s)", "r: 021 102 120 201 210>-,-,=n1"},
    {"y = Expand(k, Shape(x))", "r: 021>10,-,=n1 102>0n1,-,=n1 120>01n,-,=n1 201>1n0,-,=n1 210>10n,-,=n1"},
    {"y = Expand(x, i64[4]{2,2,3,5})",
     "r: 0132>021,-,= 0213>102,-,= 0231>120,-,= 0312>201,-,= 0321>210,-,= 1023>0n12,-,= 1032>0n21,-,= 1203>01n2,-,= "
     "1230>012n,-,= 1302>02n1,-,= 1320>021n,-,= 2013>1n02,-,= 2031>1n20,-,= 2103>10n2,-,= 2130>102n,-,= 2301>12n0,-,= "
     "2310>120n,-,= 3012>2n01,-,= 3021>2n10,-,= 3102>20n1,-,= 3120>201n,-,= 3201>21n0,-,= 3210>210n,-,="},
    {"y = Resize(q, _, f32[4]{1,1,2,2})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 "
     "3201 3210>=,-,-,="},
    {"y = Resize(q, _, f32[4]{1,2,1,2})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 "
     "3201 3210>=,-,-,="},
    {"y = Resize<mode=\"linear\">(q, _, f32[4]{1,1,2,2})", "0: 0132 1023 1032>=,-,-,= r: 0132 1023 1032>=,-,-,="},
    {"y = Resize<mode=\"linear\">(q, _, f32[4]{1,2,1,1})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 "
     "3201 3210>=,-,-,="},
    {"y = Resize(q, _, _, i64[4]{2,3,8,10})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 "
     "3120 3201 3210>=,-,-,-,="},
    {"y = Resize<axes=[2,3]>(q, _, f32[2]{2,3})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 "
     "3201 3210>=,-,-,="},
    {"y = Resize<axes=[-1]>(q, _, _, i64[1]{10})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,-,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 "
     "3120 3201 3210>=,-,-,-,="},
    {"y = Resize<coordinate_transformation_mode=\"tf_crop_and_resize\">(q, f32[8]{0,0,0,0,1,1,1,1}, f32[4]{1,1,2,2})", ""},
    {"y = Resize(q, f32[4]{1,1,2,2})",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-,= r: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 "
     "3201 3210>=,-,=",
     "10"},
    {"y = Resize(x, _, f32[3]{1,1,2})", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = Squeeze(Unsqueeze(x, i64[1]{1}), i64[1]{1})",
     "0: 0132>=,-,021 0213 0231>=,-,- 0312 0321>=,-,021 1023>=,-,- 1032>=,-,021 1203>=,-,102 1230>=,-,120 1302>=,-,201 "
     "1320>=,-,210 2013 2031 2103>=,-,102 2130 2301 2310>=,-,120 3012 3021 3102>=,-,201 3120 3201 3210>=,-,210 r: 021>0132,-,= "
     "102>2103,-,= 120>2130,-,= 201>3102,-,= 210>3120,-,="},
    {"y = Squeeze(o, i64[1]{0})", "0: 10>=,-,-"},
    {"y = Squeeze(Reshape(x, i64[4]{2,3,1,5}), i64[1]{-2})",
     "0: 0132 0213>=,-,- 0231 0312 0321>=,-,021 1023 1032 1203>=,-,102 1230 1302 1320>=,-,120 2013>=,-,- 2031>=,-,021 "
     "2103>=,-,102 2130>=,-,120 2301>=,-,201 2310>=,-,210 3012 3021>=,-,201 3102 3120>=,-,210 3201>=,-,201 3210>=,-,210 r: "
     "021>0321,-,= 102>1023,-,= 120>1320,-,= 201>3021,-,= 210>3120,-,="},
    {"y = Squeeze(Reshape(x, i64[4]{2,1,3,5}))", ""},
    {"y = Squeeze<axes=[1]>(Reshape(x, i64[4]{2,1,3,5}))",
     "0: 0132>=,021 0213 0231>=,- 0312 0321>=,021 1023>=,- 1032>=,021 1203>=,102 1230>=,120 1302>=,201 1320>=,210 2013 2031 "
     "2103>=,102 2130 2301 2310>=,120 3012 3021 3102>=,201 3120 3201 3210>=,210 r: 021>0132,= 102>2103,= 120>2130,= 201>3102,= "
     "210>3120,=",
     "12"},
    {"y = Unsqueeze(x, i64[1]{1})",
     "0: 021>=,-,0132 102>=,-,2103 120>=,-,2130 201>=,-,3102 210>=,-,3120 r: 0132>021,-,= 0213 0231>-,-,= 0312 0321>021,-,= "
     "1023>-,-,= 1032>021,-,= 1203>102,-,= 1230>120,-,= 1302>201,-,= 1320>210,-,= 2013 2031 2103>102,-,= 2130 2301 "
     "2310>120,-,= 3012 3021 3102>201,-,= 3120 3201 3210>210,-,="},
    {"y = Unsqueeze(x, i64[2]{0,-1})",
     "0: 021>=,-,01324 102>=,-,02134 120>=,-,02314 201>=,-,03124 210>=,-,03214 r: 01243>-,-,= 01324 01342>021,-,= 01423>-,-,= "
     "01432>021,-,= 02134 02143>102,-,= 02314 02341>120,-,= 02413>102,-,= 02431>120,-,= 03124 03142>201,-,= 03214 "
     "03241>210,-,= 03412>201,-,= 03421>210,-,= 04123>-,-,= 04132>021,-,= 04213>102,-,= 04231>120,-,= 04312>201,-,= "
     "04321>210,-,= 10234 10243>-,-,= 10324 10342>021,-,= 10423>-,-,= 10432>021,-,= 12034 12043 12304 12340 12403 12430>-,-,= "
     "13024 13042 13204 13240 13402 13420>021,-,= 14023>-,-,= 14032>021,-,= 14203 14230>-,-,= 14302 14320>021,-,= 20134 "
     "20143>102,-,= 20314 20341>120,-,= 20413>102,-,= 20431>120,-,= 21034 21043 21304 21340 21403 21430>102,-,= 23014 23041 "
     "23104 23140 23401 23410>120,-,= 24013>102,-,= 24031>120,-,= 24103 24130>102,-,= 24301 24310>120,-,= 30124 30142>201,-,= "
     "30214 30241>210,-,= 30412>201,-,= 30421>210,-,= 31024 31042 31204 31240 31402 31420>201,-,= 32014 32041 32104 32140 "
     "32401 32410>210,-,= 34012>201,-,= 34021>210,-,= 34102 34120>201,-,= 34201 34210>210,-,= 40123>-,-,= 40132>021,-,= "
     "40213>102,-,= 40231>120,-,= 40312>201,-,= 40321>210,-,= 41023>-,-,= 41032>021,-,= 41203 41230>-,-,= 41302 41320>021,-,= "
     "42013>102,-,= 42031>120,-,= 42103 42130>102,-,= 42301 42310>120,-,= 43012>201,-,= 43021>210,-,= 43102 43120>201,-,= "
     "43201 43210>210,-,="},
    {"y = Unsqueeze<axes=[2]>(x)",
     "0: 021>=,0321 102>=,1023 120>=,1320 201>=,3021 210>=,3120 r: 0132 0213>-,= 0231 0312 0321>021,= 1023 1032 1203>102,= "
     "1230 1302 1320>120,= 2013>-,= 2031>021,= 2103>102,= 2130>120,= 2301>201,= 2310>210,= 3012 3021>201,= 3102 3120>210,= "
     "3201>201,= 3210>210,=",
     "12"},
    {"y = Unsqueeze(x, a)", ""},
    {"y = Reshape(x, i64[2]{6,5})", "0: 201>=,-,10 r: 10>201,-,="},
    {"y = Reshape(x, i64[2]{2,15})", "0: 120>=,-,10 r: 10>120,-,="},
    {"y = Reshape(x, i64[2]{-1,5})", "0: 201>=,-,10 r: 10>201,-,="},
    {"y = Reshape(e, i64[4]{2,3,2,5})",
     "0: 021>=,-,0312 102>=,-,1203 120>=,-,1230 201>=,-,3012 210>=,-,3120 r: 0312>021,-,= 1203>102,-,= 1230>120,-,= "
     "3012>201,-,= 3120>210,-,="},
    {"y = Reshape(q, i64[2]{6,20})", "0: 2301>=,-,10 r: 10>2301,-,="},
    {"y = Reshape(q, i64[3]{2,12,5})",
     "0: 0312>=,-,021 1203>=,-,102 1230>=,-,120 3012>=,-,201 3120>=,-,210 r: 021>0312,-,= 102>1203,-,= 120>1230,-,= "
     "201>3012,-,= 210>3120,-,="},
    {"y = Reshape(x, i64[4]{2,1,3,5})",
     "0: 021>=,-,0132 102>=,-,2103 120>=,-,2130 201>=,-,3102 210>=,-,3120 r: 0132>021,-,= 0213 0231>-,-,= 0312 0321>021,-,= "
     "1023>-,-,= 1032>021,-,= 1203>102,-,= 1230>120,-,= 1302>201,-,= 1320>210,-,= 2013 2031 2103>102,-,= 2130 2301 "
     "2310>120,-,= 3012 3021 3102>201,-,= 3120 3201 3210>210,-,="},
    {"y = Reshape(x, i64[1]{30})", ""},
    {"y = Reshape(x, i64[3]{5,3,2})", ""},
    {"y = Reshape(p, i64[2]{0,-1})", "0: 120>=,-,10 r: 10>120,-,="},
    {"y = Reshape(p, i64[4]{0,3,1,-1})",
     "0: 021>=,-,0321 102>=,-,1023 120>=,-,1320 201>=,-,3021 210>=,-,3120 r: 0132 0213>-,-,= 0231 0312 0321>021,-,= 1023 1032 "
     "1203>102,-,= 1230 1302 1320>120,-,= 2031>021,-,= 2103>102,-,= 2130>120,-,= 2301 3012 3021>201,-,= 3102 3120>210,-,= "
     "3201>201,-,= 3210>210,-,="},
    {"y = Reshape(p, i64[2]{-1,3})", ""},
    {"y = Reshape(Unsqueeze(x, i64[1]{2}), i64[3]{2,3,5})",
     "0: 0132 0213>=,-,- 0231 0312 0321>=,-,021 1023 1032 1203>=,-,102 1230 1302 1320>=,-,120 2013>=,-,- 2031>=,-,021 "
     "2103>=,-,102 2130>=,-,120 2301>=,-,201 2310>=,-,210 3012 3021>=,-,201 3102 3120>=,-,210 3201>=,-,201 3210>=,-,210 r: "
     "021>0321,-,= 102>1023,-,= 120>1320,-,= 201>3021,-,= 210>3120,-,="},
    {"y = Reshape(x, s)", ""},
    {"y = Flatten<axis=1>(x)", "0: 120>=,10 r: 10>120,="},
    {"y = Flatten<axis=2>(q)", "0: 2301>=,10 r: 10>2301,="},
    {"y = Gather<axis=1>(x, j)", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = Gather<axis=-1>(x, i64 2)", "0: 021>=,-,- 102 120>=,-,10 201>=,-,- 210>=,-,10 r: 10>102,-,="},
    {"y = Gather<axis=0>(x, i64 1)", "0: 021>=,-,10 102 120>=,-,- 201 210>=,-,10 r: 10>021,-,="},
    {"y = Gather<axis=1>(x, h)",
     "0: 021>=,-,0312 102>=,-,1203 120>=,-,1230 201>=,-,3012 210>=,-,3120 r: 0312>021,-,= 1203>102,-,= 1230>120,-,= "
     "3012>201,-,= 3120>210,-,="},
    {"y = Gather<axis=2>(x, h)",
     "0: 021>=,-,0231 102>=,-,1023 120>=,-,1230 201>=,-,2301 210>=,-,2310 r: 0231>021,-,= 1023>102,-,= 1230>120,-,= "
     "2301>201,-,= 2310>210,-,="},
    {"y = GatherElements<axis=1>(x, i)",
     "0: 021 102 120 201 210>=,=,= 1: 021 102 120 201 210>=,=,= r: 021 102 120 201 210>=,=,="},
    {"y = ScatterElements<axis=2>(x, i, w)",
     "0: 021 102 120 201 210>=,=,=,= 1: 021 102 120 201 210>=,=,=,= 2: 021 102 120 201 210>=,=,=,= r: 021 102 120 201 "
     "210>=,=,=,="},
    {"y = QuantizeLinear(x, f32 0.5, i8 0)", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = QuantizeLinear<axis=1>(x, f32[3]{1,2,3}, i8[3]{0,1,2})",
     "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,="},
    {"y = DequantizeLinear<axis=-1>(c, f32[5]{1,2,3,4,5})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y = DequantizeLinear<axis=1, block_size=3>(c, f32[2,1,5]{1,2,3,4,5,1,2,3,4,5})", ""},
    {"y = Shape(x)", "0: 021 102 120 201 210>=,-n1"},
    {"y = Shape<start=1>(x)", "0: 021 102 120 201 210>=,-n1"},
    {"y = Shape<start=-2, end=-1>(x)", "0: 021 102 120 201 210>=,-n1"},
    {"y = Shape<start=0, end=7>(q)",
     "0: 0132 0213 0231 0312 0321 1023 1032 1203 1230 1302 1320 2013 2031 2103 2130 2301 2310 3012 3021 3102 3120 3201 "
     "3210>=,-n1"},
    {"y = Size(x)", "0: 021 102 120 201 210>=,-"},
    {"y = MatMul(x, t)", "0: 021>=,=,=x 1: 021>=,=,=x r: 021>=,=,=x"},
    {"y = MatMul(x, m)", "0: 102>=,-,= r: 102>=,-,="},
    {"y = MatMul(q, r)",
     "0: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x 1: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x r: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x"},
    {"y = MatMul(r, q)",
     "0: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x 1: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x r: 0132>=,=,=x 1023>=,=,= 1032>=,=,=x"},
    {"y = MatMul(m, k)", "0: 10>=,=,=x 1: 10>=,=,=x r: 10>=,=,=x"},
    {"y = MatMul(x, v)", ""},
    {"y = MatMul(v, t)", ""},
    {"y = LayerNormalization<axis=2>(x, v)", "0: 102>=,-,= r: 102>=,-,="},
    {"y = LayerNormalization(x, v)", "0: 102>=,-,= r: 102>=,-,="},
    {"y = Conv(q, f32[2,3,1,1]{1...})", ""},
    {"y = Slice(x, i64[1]{1}, i64[1]{3}, i64[1]{2})",
     "0: 021 102 120 201 210>=,-,-,-,= r: 021 102 120 201 210>=,-,-,-,=", "10"},
    {"y = Shape<end=2>(x)", "0: 021 102 120 201 210>=,-n1"},
    // What has no rank.
    {"y = Concat<axis=1>(u, u)", ""},
    {"y = Expand(u, s)", ""},
    {"y: f32[2,3,5] = Expand(u, i64[3]{2,3,5})", ""},
    {"y = Gather<axis=1>(u, j)", ""},
    {"y = GatherElements<axis=1>(u, i)", ""},
    {"y = LayerNormalization<axis=2>(u, v)", ""},
    {"y = MatMul(u, x)", ""},
    {"y = QuantizeLinear(u, f32 0.5, i8 0)", ""},
    {"y = Reshape(u, i64[2]{2,3})", ""},
    {"y = Slice(u, i64[1]{1}, i64[1]{3}, i64[1]{2})", ""},
    {"y = Squeeze(u, i64[1]{1})", ""},
    {"y = Unsqueeze(u, i64[1]{1})", ""},
    {"y = Transpose<perm=[1,0,2]>(x)", ""},
    {"y, z = TopK<axis=2>(x, i64[1]{2})",
     "0: 021>=,-,=,=+2 102>=,-,=,= 120 201 210>=,-,=,=+2 r: 021>=,-,=,=+2 102>=,-,=,= 120 201 210>=,-,=,=+2 s: 021>=,-,=,=+2 "
     "102>=,-,=,= 120 201 210>=,-,=,=+2"},
    {"y, z = TopK<axis=1>(x, i64[1]{2})",
     "0: 021>=,-,=,=-2 102 120>=,-,=,= 201>=,-,=,=-2 210>=,-,=,= r: 021>=,-,=,=-2 102 120>=,-,=,= 201>=,-,=,=-2 210>=,-,=,= s: "
     "021>=,-,=,=-2 102 120>=,-,=,= 201>=,-,=,=-2 210>=,-,=,="},
    {"y, z = Split<axis=1, num_outputs=2>(e)",
     "0: 021 102 120 201 210>=,=,= r: 021 102 120 201 210>=,=,= s: 021 102 120 201 210>=,=,="},
    {"y, z = Split<axis=-1>(x, i64[2]{2,3})",
     "0: 021 102 120 201 210>=,-,=,= r: 021 102 120 201 210>=,-,=,= s: 021 102 120 201 210>=,-,=,="},
    {"y, z = TopK(u, i64[1]{2})", ""},
    {"y, z = LayerNormalization<axis=2>(x, v)", "0: 102>=,-,=,- r: 102>=,-,=,-"},
    // Parameters that earlier versions of the operators do not have, or have as operands.
    {"y = Concat(x, w)", "", "1"},
    {"y, z1 = Split(e)", "", "1"},
    {"y = Tile(x, f32 2, f32 1)", "", "5"},
    {"y = Pad(x, i64[6]{1,0,2,0,3,0})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,=", "12"},
    {"y = QuantizeLinear(x, f32 0.5, u8 0)", "0: 021 102 120 201 210>=,-,-,= r: 021 102 120 201 210>=,-,-,=", "10"},
    {"y = QuantizeLinear(x, f32[1]{0.5}, u8[1]{0})", "", "10"},
    {"y = Shape(x)", "0: 021 102 120 201 210>=,-n1", "13"},
    {"y: f32[2,3,5] = LayerNormalization<axis=2>(x, v)", "", "13"},
    // Lists whose length is not known.
    {"y = Slice(x, g, g)", ""},
    {"y = Resize(x, _, _, g)", ""},
    {"y = Expand(f, i64[1]{7})", "0: 021 102 120 201 210>=,-,= r: 021 102 120 201 210>=,-,="},
    {"y, z1, z2 = LayerNormalization(x, v)", "0: 102>=,-,=,-,- r: 102>=,-,=,-,-"},
    {"z1, z2, y = LayerNormalization(x, v)", ""},
    {"y = Gather<axis=0>(k, i)", "0: 10>=,-,3012 r: 3012>10,-,="},
    {"y = MatMul(m, x)", ""},
    {"y = MatMul(r, f32[3,4,1]{1...})", ""},
    {"y = Reshape<allowzero=1>(l, i64[4]{-1,3,5,1})",
     "0: 021>=,-,0213 102>=,-,1023 120>=,-,1203 201>=,-,2013 210>=,-,2103 r: 0132>-,-,= 0213 0231>021,-,= 0312>-,-,= "
     "0321>021,-,= 1023 1032>102,-,= 1203 1230>120,-,= 1302>102,-,= 1320>120,-,= 2013 2031>201,-,= 2103 2130>210,-,= "
     "2301>201,-,= 2310>210,-,= 3012>-,-,= 3021>021,-,= 3102>102,-,= 3120>120,-,= 3201>201,-,= 3210>210,-,="},
    // No elements, or an unknown number.
    {"y = Reshape(d, i64[2]{0,15})", ""},
    {"y = Reshape(d, i64[1]{0})", ""},
    {"y = Reshape(d, i64[4]{0,3,5,11})", ""},
    {"y = Reshape(n, i64[2]{4,5})", ""},
    {"y = Reshape(l, i64[3]{3,-1,5})", "0: 201>=,-,= r: 201>=,-,="},
    {"y: f32[20*H,1] = Reshape(f32[4,5]{1...}, Concat<axis=0>(a, a))", ""},
};

std::string text(const Layout& l) {
  if (l.is_as_is()) return "-";
  std::string s;
  for (size_t i = 0; i < l.rank; ++i) s += l.from[i] == Layout::kNew ? 'n' : static_cast<char>('0' + l.from[i]);
  return s;
}

std::string text(const Move& m, const Layout& given) {
  std::vector<std::string> parts;
  for (const auto* list : {&m.operands, &m.results}) {
    for (const Layout& l : *list) parts.push_back(l == given ? "=" : text(l));
  }
  std::string s = fmt::format(">{}", fmt::join(parts, ","));
  if (m.slower != 0) s += fmt::format("{:+}", m.slower);
  if (m.more_nodes != 0) s += fmt::format("n{}", m.more_nodes);
  if (m.swaps_operands) s += "x";
  return s;
}

struct Case {
  explicit Case(const Row& row)
      : model(parse(fmt::format("opset {} graph({}) {{ {} return y }}", row.opset, kInputs, row.node))),
        context(*model, facts),
        operators(context) {
    infer_model(*model, facts, /*tolerant=*/false);
  }
  Graph& graph() { return model->graph(); }
  Node& node() { return *graph().output(0)->def(); }

  std::unique_ptr<Model> model;
  ValueFacts facts;
  PassContext context;
  Operators operators;
};

std::vector<TensorPtr> values(Graph& g, uint64_t seed) {
  std::vector<EvalValue> inputs(g.inputs().size());
  fill_inputs(g, inputs, seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (g.input(i)->dtype() != DType::kI64) continue;
    std::vector<int64_t> small;  // fit for indices and repetitions
    const auto shape = inputs[i].array()->shape();
    for (int64_t k = 0; k < inputs[i].array()->size(); ++k) small.push_back(1 + k % 2);
    const TensorPtr t = Tensor::vector(small);
    inputs[i] = EvalValue(t->reshaped({shape.begin(), shape.end()}));
  }
  std::vector<TensorPtr> out;
  for (const EvalValue& v : evaluate(g, inputs)) out.push_back(v.array()->to_tensor());
  return out;
}

// The node rebuilt as m says, between what stores its operands so and what stores its results as they were.
void check(const Row& row, bool of_result, size_t which, const Layout& l, const std::string& told) {
  Case plain(row), moved(row);
  Node& n = moved.node();
  const auto m = of_result ? moved.operators.from_result(n, which, l) : moved.operators.from_operand(n, which, l);
  ASSERT_TRUE(m);
  Graph& g = moved.graph();
  std::vector<Value*> results;
  Node& made = moved.operators.rebuild(n, *m, &results);
  for (size_t i = 0; i < m->operands.size(); ++i) {
    if (m->operands[i].is_as_is()) continue;
    const size_t slot = m->swaps_operands && i < 2 ? 1 - i : i;
    if (made.input(slot) == nullptr) made.set_input(slot, moved.operators.store(*n.input(i), m->operands[i], g, &made));
  }
  infer_node(made, moved.facts);
  for (size_t i = 0; i < results.size(); ++i) {
    const Layout& stored = m->results[i];
    const Type* type = stored_type(moved.model->types(), n.result(i)->type(), stored);
    if (results[i]->def() == &made && type->is_static() && n.result(i)->has_uses()) {
      EXPECT_EQ(results[i]->type(), type) << row.node << told << " of result " << i;
    }
    if (!stored.is_as_is()) results[i] = moved.operators.store(*results[i], inverse(stored), g, nullptr);
    g.replace_uses(*n.result(i), *results[i]);
  }
  g.erase(n);
  verify(*moved.model, {.types = true});
  const auto expected = values(plain.graph(), 3), found = values(g, 3);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(std::vector<int64_t>(expected[i]->shape().begin(), expected[i]->shape().end()),
              std::vector<int64_t>(found[i]->shape().begin(), found[i]->shape().end()))
        << row.node << told;
    ASSERT_EQ(expected[i]->size(), found[i]->size());
    for (int64_t k = 0; k < found[i]->size(); ++k)
      ASSERT_NEAR(expected[i]->as_double(k), found[i]->as_double(k), 1e-5) << row.node << told << " at " << k;
  }
}

// What is given for one operand or result in all layouts.
std::string answers(const Row& row, bool of_result, size_t which) {
  Case c(row);
  const Value* v = of_result ? c.node().result(which) : c.node().input(which);
  if (v == nullptr || !v->ranked()) return {};
  std::vector<int64_t> perm(v->type()->rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::vector<std::pair<std::string, std::string>> alike;  // all other layouts -> the layouts given
  while (std::next_permutation(perm.begin(), perm.end())) {
    const Layout l = *Layout::permutation(perm);
    const auto m = of_result ? c.operators.from_result(c.node(), which, l) : c.operators.from_operand(c.node(), which, l);
    if (!m) continue;
    const std::string told = text(*m, l);
    if (alike.empty() || alike.back().first != told) alike.emplace_back(told, "");
    alike.back().second += " " + text(l);
    check(row, of_result, which, l, " as " + text(l) + told);
  }
  std::string all;
  for (const auto& [told, layouts] : alike) all += layouts + told;
  return all;
}

std::string answers(const Row& row) {
  Case c(row);
  std::string all;
  for (size_t i = 0; i < c.node().num_inputs(); ++i) {
    if (const std::string one = answers(row, false, i); !one.empty()) all += fmt::format("{}:{} ", i, one);
  }
  for (size_t i = 0; i < c.node().num_results(); ++i) {
    if (const std::string one = answers(row, true, i); !one.empty()) all += fmt::format("{}:{} ", "rs"[i], one);
  }
  if (!all.empty()) all.pop_back();
  return all;
}

// Layouts have at most fifteen.
TEST(LayoutOperators, LeaveMoreAxesAlone) {
  std::vector<int64_t> perm(Layout::kMaxRank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  const Layout l = *Layout::permutation(perm);
  constexpr std::string_view shape = "i64[15]{1,1,1,1,1,1,1,1,1,1,1,1,2,3,5}";
  const auto follows = [&](std::string_view node) {
    const std::string all = fmt::format("z = Reshape(x, {})  y = {}", shape, node);
    Case c({all.c_str(), ""});
    return c.operators.from_operand(c.node(), 0, l).has_value();
  };
  EXPECT_TRUE(follows("Neg(z)"));
  EXPECT_FALSE(follows("Unsqueeze(z, i64[1]{0})"));
  EXPECT_FALSE(follows("Reshape(z, i64[16]{1,1,1,1,1,1,1,1,1,1,1,1,1,2,3,5})"));
  EXPECT_FALSE(follows("Gather(z, i64[2,1]{0,0})"));
  Case c({"y = Transpose(Reshape(x, i64[16]{1,1,1,1,1,1,1,1,1,1,1,1,1,2,3,5}))", ""});
  EXPECT_FALSE(c.operators.transposition(c.node()));
}

TEST(LayoutOperators, TranspositionsAreONNXsOwnWithAPermutation) {
  const auto of = [](std::string_view node) {
    const auto model = parse(fmt::format("opset 21 graph(x: f32[2,3,5]) {{ y = {}  return y }}", node));
    ValueFacts facts;
    PassContext context(*model, facts);
    infer_model(*model, facts, /*tolerant=*/true);
    return Operators::transposition(*model->graph().output(0)->def());
  };
  const auto reverse = of("Transpose(x)"), turn = of("Transpose<perm=[1,2,0]>(x)");
  ASSERT_TRUE(reverse && turn);
  EXPECT_EQ(text(*reverse), "210");
  EXPECT_EQ(text(*turn), "120");
  EXPECT_FALSE(of("Transpose<perm=[1,0]>(x)"));
  EXPECT_FALSE(of("Transpose<perm=[1,0,3]>(x)"));
  EXPECT_FALSE(of("Transpose<perm=[1,0,0]>(x)"));
  EXPECT_FALSE(of("own.Transpose<perm=[1,2,0]>(x)"));
}

// Runtimes multiply integers without a library that takes either order.
TEST(LayoutOperators, OnlyProductsOfFloatsReadEitherWay) {
  const auto swapped = [](const char* node) {
    Case c({node, ""});
    return c.operators.reads_swapped(c.node());
  };
  EXPECT_TRUE(swapped("y = MatMul(x, t)"));
  EXPECT_FALSE(swapped("y = MatMul(i, Transpose<perm=[0,2,1]>(i))"));
  EXPECT_FALSE(swapped("y = Add(x, w)"));
}

struct NamedFamily {
  const char* name;
  const Family* family;  // null: operators that follow nothing
};
void PrintTo(const NamedFamily& f, std::ostream* out) { *out << f.name; }

class LayoutFamily : public testing::TestWithParam<NamedFamily> {};

TEST_P(LayoutFamily, Follows) {
  int rows = 0;
  for (const Row& row : kRows) {
    try {
      if (family_of(Case(row).node()) != GetParam().family) continue;
      ++rows;
      EXPECT_EQ(answers(row), row.follows) << row.node << "|" << row.opset;
    } catch (const Error& e) {
      ADD_FAILURE() << row.node << ": " << e.message();
    }
  }
  EXPECT_GT(rows, 0);
}

INSTANTIATE_TEST_SUITE_P(
    , LayoutFamily,
    testing::Values(NamedFamily{"Elementwise", &kElementwise}, NamedFamily{"FirstOperand", &kFirstOperand},
                    NamedFamily{"MatMul", &kMatMul}, NamedFamily{"LayerNormalization", &kLayerNormalization},
                    NamedFamily{"Shape", &kShape}, NamedFamily{"Size", &kSize}, NamedFamily{"Reduce", &kReduce},
                    NamedFamily{"ArgReduce", &kArgReduce}, NamedFamily{"AlongAxis", &kAlongAxis},
                    NamedFamily{"CumSum", &kCumSum}, NamedFamily{"TopK", &kTopK}, NamedFamily{"Concat", &kConcat},
                    NamedFamily{"Split", &kSplit}, NamedFamily{"Gather", &kGather},
                    NamedFamily{"GatherElements", &kGatherElements}, NamedFamily{"Quantize", &kQuantize},
                    NamedFamily{"Slice", &kSlice}, NamedFamily{"Pad", &kPad}, NamedFamily{"Tile", &kTile},
                    NamedFamily{"Expand", &kExpand}, NamedFamily{"Resize", &kResize}, NamedFamily{"Squeeze", &kSqueeze},
                    NamedFamily{"Unsqueeze", &kUnsqueeze}, NamedFamily{"Reshape", &kReshape}, NamedFamily{"None", nullptr}),
    [](const auto& f) { return f.param.name; });

}  // namespace
}  // namespace sardonyx::layout
