# The page of `sardonyx view` as part of the library, if `make viewer` has built it. Building without it needs no npm;
# the command then says what is missing.

set(SARDONYX_VIEWER_PAGE "${PROJECT_SOURCE_DIR}/build/viewer/page.html" CACHE FILEPATH "The page that make viewer builds")
set(viewer_source "${PROJECT_BINARY_DIR}/viewer/page_text.cc")
set(viewer_command ${CMAKE_COMMAND} "-DPAGE=${SARDONYX_VIEWER_PAGE}" "-DTO=${viewer_source}" -P
                   "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake")
# Looks at each build whether the page is new: it may appear after this was configured.
add_custom_target(sardonyx_viewer_page COMMAND ${viewer_command} BYPRODUCTS "${viewer_source}" VERBATIM
                  COMMENT "Looking for the viewer's page")
target_sources(sardonyx PRIVATE "${viewer_source}")
set_source_files_properties("${viewer_source}" PROPERTIES GENERATED ON SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(sardonyx sardonyx_viewer_page)
