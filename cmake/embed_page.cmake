# cmake -DPAGE=page.html -DTO=page_text.cc -P embed_page.cmake: writes the page as a C++ source, or an empty text if there is no page.
# Leaves the source alone where it would stay the same.

set(digest none)
if(EXISTS "${PAGE}")
  file(SHA256 "${PAGE}" digest)
endif()
if(EXISTS "${TO}")
  file(STRINGS "${TO}" first LIMIT_COUNT 1)
  if(first STREQUAL "// ${digest}")
    return()
  endif()
endif()
set(bytes "0")
if(EXISTS "${PAGE}")
  file(READ "${PAGE}" bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND bytes "0")
endif()
file(
  WRITE "${TO}.new"
  "// ${digest}\n"
  "#include \"view/page_text.h\"\n\n"
  "namespace sardonyx::view {\n"
  "namespace {\n"
  "const unsigned char kPage[] = {\n${bytes}};\n"
  "}  // namespace\n\n"
  "std::string_view page_text() { return {reinterpret_cast<const char*>(kPage), sizeof(kPage) - 1}; }\n\n"
  "}  // namespace sardonyx::view\n")
file(RENAME "${TO}.new" "${TO}")
