#include "native/errors.h"

#include <string>

#include "support/system/interrupt.h"

namespace nb = nanobind;

namespace sardonyx::python {

void refuse(std::string message, std::vector<std::string> notes) {
  throw Error(ErrorCode::kInvalidArgument, std::move(message), std::move(notes));
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Interrupted&) {
      if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const Error& e) {
      try {
        // Looked up each time: errors are rare, and no reference outlives the interpreter.
        nb::object type = nb::module_::import_("sardonyx._error").attr("Error");
        nb::list notes;
        for (const std::string& note : e.notes()) notes.append(nb::str(note.c_str(), note.size()));
        std::string_view code = to_string(e.code());
        std::string_view text = e.message();
        nb::object error = type(nb::str(text.data(), text.size()), nb::str(code.data(), code.size()), nb::tuple(notes));
        PyErr_SetObject(type.ptr(), error.ptr());
      } catch (nb::python_error& failed) {
        failed.restore();
      }
    }
  });
}

}  // namespace sardonyx::python
