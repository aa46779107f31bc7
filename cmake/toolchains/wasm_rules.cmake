# Archives and programs are made by zig, which brings WASI's C library.
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "\"${SARDONYX_ZIG}\" ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "\"${SARDONYX_ZIG}\" ar q <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "\"${SARDONYX_ZIG}\" ranlib <TARGET>")
  set(CMAKE_${language}_LINK_EXECUTABLE
      "\"${SARDONYX_ZIG}\" cc -target wasm32-wasi -O2 -s -Wl,-z,stack-size=8388608 <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
endforeach()
