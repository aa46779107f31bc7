// A plugin for the tests: one lowering that works, and three that fail each in its own way.
#include <sardonyx/plugin.h>

namespace {

void lower_sin(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  SardonyxValue* cosine = api->op(at, "Cos", &x, 1);
  SardonyxValue* pair[] = {cosine, cosine};
  SardonyxValue* square = api->op(at, "Mul", pair, 2);
  SardonyxValue* rest[] = {api->number(at, x, 1.0), square};
  SardonyxValue* other = api->op(at, "Sub", rest, 2);
  api->result(at, 0, api->op(at, "Sqrt", &other, 1));  // |sin x|
}

void lower_cumsum(const SardonyxApi* api, SardonyxLowering* at, void*) {
  const int64_t axis = api->int_param(at, "axis");
  SardonyxValue* operands[] = {api->input(at, 0), api->ints(at, &axis, 1)};
  api->attr_int(at, "keepdims", 1);
  api->result(at, 0, api->op(at, "ReduceSum", operands, 2));  // of another shape: the conversion notices
}

void lower_exp(const SardonyxApi* api, SardonyxLowering* at, void* why) { api->unsupported(at, static_cast<const char*>(why)); }

void lower_tanh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  SardonyxValue* y = api->op(at, "NoSuchOperator", &x, 7 - 6);
  api->result(at, 0, y);
  api->result(at, 0, y);  // twice
}

void lower_asinh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  api->attr_float(at, "alpha", 0.25);
  SardonyxValue* y = api->op(at, "LeakyRelu", &x, 1);
  api->late_float(at, y, "alpha", 0.5);
  api->result(at, 0, y);
}

void lower_acosh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  api->late_int(at, x, "axis", 1);  // nothing makes an input
  api->result(at, 0, api->op(at, "Acosh", &x, 1));
}

void lower_atanh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  const int64_t swapped[] = {1, 0};
  api->attr_ints(at, "perm", swapped, 2);
  SardonyxValue* y = api->op(at, "Transpose", &x, 1);
  SardonyxValue* z = api->op(at, "Exp", &y, 1);
  api->attr_ints(at, "perm", swapped, 2);
  SardonyxValue* back = api->op(at, "Transpose", &z, 1);
  const int64_t same[] = {0, 1};
  api->late_ints(at, back, "perm", same, 2);  // of another type: told, unless the passes have removed it
  api->result(at, 0, back);
}

}  // namespace

int sardonyx_plugin(const SardonyxApi* api, SardonyxHost* host) {
  if (api->version < 2) return 1;
  static char why[] = "exponentials are not wanted here";
  api->add_lowering(host, "sin", lower_sin, nullptr);
  api->add_lowering(host, "cumsum", lower_cumsum, nullptr);
  api->add_lowering(host, "exp", lower_exp, why);
  api->add_lowering(host, "tanh", lower_tanh, nullptr);
  api->add_lowering(host, "asinh", lower_asinh, nullptr);
  api->add_lowering(host, "acosh", lower_acosh, nullptr);
  api->add_lowering(host, "atanh", lower_atanh, nullptr);
  return 0;
}
