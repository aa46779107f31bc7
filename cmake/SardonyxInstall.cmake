# Two components. "python" goes into a wheel: the module and the command. The rest is the C++ library, its headers and
# the package files for find_package(sardonyx).

if(TARGET sardonyx_cli)
  if(SKBUILD)
    install(TARGETS sardonyx_cli RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
  else()
    install(TARGETS sardonyx_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
  endif()
endif()

include(CMakePackageConfigHelpers)
set(package_files "${CMAKE_INSTALL_LIBDIR}/cmake/sardonyx")
install(TARGETS sardonyx EXPORT sardonyx-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sardonyx" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cpp)
install(EXPORT sardonyx-targets NAMESPACE sardonyx:: DESTINATION "${package_files}" COMPONENT cpp)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/sardonyx-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/sardonyx-config.cmake" INSTALL_DESTINATION "${package_files}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sardonyx-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/sardonyx-config.cmake" "${PROJECT_BINARY_DIR}/sardonyx-config-version.cmake"
        DESTINATION "${package_files}" COMPONENT cpp)
