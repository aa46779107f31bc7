# The page of `sardonyx view` as part of the library. A first build makes it from viewer/src, which takes seconds and npm's registry;
# `make viewer` makes it anew, and the source package has it. Without it the command says what is missing.

set(SARDONYX_VIEW_PAGE "${PROJECT_SOURCE_DIR}/viewer/page.html" CACHE FILEPATH "The page of `sardonyx view`")
if(UNIX AND NOT EXISTS "${SARDONYX_VIEW_PAGE}" AND NOT SARDONYX_VIEW_PAGE STREQUAL "")
  execute_process(COMMAND "${PROJECT_SOURCE_DIR}/scripts/setup.sh" viewer RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE reason)
  if(failed)
    message(WARNING "sardonyx will write no pages: ${reason}")
  endif()
endif()
set(viewer_source "${PROJECT_BINARY_DIR}/viewer/page_text.cc")
set(viewer_command ${CMAKE_COMMAND} "-DPAGE=${SARDONYX_VIEW_PAGE}" "-DTO=${viewer_source}" -P
                   "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake")
# Looks at each build whether the page is new: it may appear after this was configured.
add_custom_target(sardonyx_viewer_page COMMAND ${viewer_command} BYPRODUCTS "${viewer_source}" VERBATIM
                  COMMENT "Looking for the viewer's page")
target_sources(sardonyx PRIVATE "${viewer_source}")
set_source_files_properties("${viewer_source}" PROPERTIES GENERATED ON SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(sardonyx sardonyx_viewer_page)
