#include "lower/onnx_to_mil/layers/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace sardonyx::onnx_to_mil {

bool Window::is_padded() const {
  return pad_type != "custom" || std::ranges::any_of(pads, [](int64_t p) { return p != 0; });
}

Window window_of(Lowering& ctx, std::vector<int64_t> kernel) {
  Window w;
  w.kernel = std::move(kernel);
  const size_t n = w.spatial();
  if (n < 1 || n > 3) ctx.unsupported(fmt::format("windows over {} axes, where Core ML has 1 to 3", n));
  w.strides = ctx.ints_attr("strides", n, 1);
  w.dilations = ctx.ints_attr("dilations", n, 1);
  w.pads.resize(2 * n);
  const std::string mode = ctx.string_attr("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const auto dims = ctx.in_dims(0).subspan(2);
    if (std::ranges::any_of(dims, [](Dim d) { return !d.is_int(); })) {
      if (mode == "SAME_LOWER" && ctx.version() < 7) ctx.needs(7, "auto_pad SAME_LOWER on sizes that are open");
      w.pad_type = mode == "SAME_UPPER" ? "same" : "same_lower";
      return w;
    }
    for (size_t i = 0; i < n; ++i) {
      const int64_t results = (dims[i].value() + w.strides[i] - 1) / w.strides[i];
      const int64_t all = std::max<int64_t>((results - 1) * w.strides[i] + w.reach(i) - dims[i].value(), 0);
      w.pads[2 * i] = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.pads[2 * i + 1] = all - w.pads[2 * i];
    }
  } else if (mode != "VALID") {
    const auto pads = ctx.ints_attr("pads", 2 * n, 0);
    for (size_t i = 0; i < n; ++i) {
      w.pads[2 * i] = pads[i];
      w.pads[2 * i + 1] = pads[i + n];
    }
  }
  if (std::ranges::any_of(w.pads, [](int64_t p) { return p < 0; })) ctx.unsupported("negative padding of a window");
  return w;
}

}  // namespace sardonyx::onnx_to_mil
