# The Python module sardonyx._sardonyx (nanobind) and, in a development build, a package folder that can be put on
# PYTHONPATH: <build>/python/sardonyx holds the module and links to the .py files.

if(NOT SKBUILD AND NOT DEFINED Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

sardonyx_glob(python_sources python/native)
list(FILTER python_sources EXCLUDE REGEX "_test\\.cc$")
set(package_dir "${PROJECT_BINARY_DIR}/python/sardonyx")

if(python_sources)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT RESULT_VARIABLE status ERROR_QUIET)
  if(status)
    message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind: run 'make setup', or configure with -DSARDONYX_PYTHON=OFF")
  endif()
  find_package(nanobind CONFIG REQUIRED)
  nanobind_add_module(_sardonyx NB_STATIC NOMINSIZE ${python_sources})
  sardonyx_compile_options(_sardonyx)
  # Our warnings are not for nanobind's and Python's headers.
  target_include_directories(_sardonyx SYSTEM PRIVATE ${NB_DIR}/include ${Python_INCLUDE_DIRS})
  target_include_directories(_sardonyx PRIVATE "${PROJECT_SOURCE_DIR}/python")
  target_link_libraries(_sardonyx PRIVATE sardonyx_inside)
  sardonyx_precompile_module_headers(_sardonyx)
  set_target_properties(_sardonyx PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${package_dir}")
  install(TARGETS _sardonyx LIBRARY DESTINATION sardonyx COMPONENT python EXCLUDE_FROM_ALL)
endif()

if(NOT SKBUILD)
  file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/python/sardonyx"
       "${PROJECT_SOURCE_DIR}/python/sardonyx/*.py" "${PROJECT_SOURCE_DIR}/python/sardonyx/*.pyi"
       "${PROJECT_SOURCE_DIR}/python/sardonyx/py.typed")
  # Links to files that are gone would still be imported.
  file(GLOB_RECURSE old_links RELATIVE "${package_dir}" "${package_dir}/*.py" "${package_dir}/*.pyi")
  if(old_links)
    list(REMOVE_ITEM old_links ${python_files})
  endif()
  foreach(file IN LISTS old_links)
    file(REMOVE "${package_dir}/${file}")
  endforeach()
  foreach(file IN LISTS python_files)
    get_filename_component(folder "${package_dir}/${file}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/sardonyx/${file}" "${package_dir}/${file}" SYMBOLIC)
  endforeach()
endif()
