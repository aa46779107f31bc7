#include <link.h>
#include <nanobind/nanobind.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/convert.h"
#include "native/coreml/program.h"
#include "native/errors.h"
#include "native/evaluate.h"
#include "native/infer.h"
#include "native/ir/store.h"
#include "native/jax/program.h"
#include "native/optimize.h"
#include "sardonyx/version.h"

namespace {

// Maps this library's code and constant tables now with a few system calls. Otherwise some hundred page
// faults would do it during the first export, which would look (and be) slower and larger than later ones.
// This is a hint: an old kernel refuses it, with no harm done.
void populate_code() {
#ifdef MADV_POPULATE_READ
  auto visit = [](dl_phdr_info* info, size_t, void*) {
    const auto here = reinterpret_cast<uintptr_t>(&populate_code);
    const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    bool ours = false;
    auto each_segment = [&](auto&& f) {
      for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& h = info->dlpi_phdr[i];
        if (h.p_type == PT_LOAD && (h.p_flags & PF_W) == 0) f(info->dlpi_addr + h.p_vaddr, h.p_memsz);
      }
    };
    each_segment([&](uintptr_t at, size_t size) { ours = ours || (here >= at && here < at + size); });
    if (!ours) return 0;
    each_segment([&](uintptr_t at, size_t size) {
      const uintptr_t start = at / page * page;
      ::madvise(reinterpret_cast<void*>(start), at + size - start, MADV_POPULATE_READ);
    });
    return 1;
  };
  ::dl_iterate_phdr(visit, nullptr);
#endif
}

}  // namespace

NB_MODULE(_sardonyx, m) {
  m.def("version", &sardonyx::version);
  m.def(
      "prepare",
      [] {
        static bool done = false;  // guarded by the interpreter lock
        if (done) return;
        populate_code();
        sardonyx::prepare_conversion();
        sardonyx::python::prepare_program();
        done = true;
      },
      "Maps the code of this module and makes the tables of lowerings and passes, once, so that a first export is like the "
      "next. Needs JAX.");
  sardonyx::python::bind_errors(m);
  sardonyx::python::bind_infer(m);
  sardonyx::python::bind_program(m);
  sardonyx::python::bind_optimize(m);
  auto coreml = m.def_submodule("coreml", "Programs of Core ML; sardonyx.coreml is what people use.");
  sardonyx::python::bind_coreml(coreml);
  auto ir = m.def_submodule("ir", "Handles of graphs; sardonyx.ir is what people use.");
  sardonyx::python::bind_ir(ir);
  sardonyx::python::bind_evaluate(m);
}
