# The command and the C++ library. From a clone of the sources:
#   brew install --build-from-source packaging/homebrew/sardonyx.rb
# The archive is what `make sdist` puts into dist/. The Python package is a wheel: pip install sardonyx.
class Sardonyx < Formula
  desc "Native graph compiler for machine-learning models"
  url "file://#{File.expand_path("../../dist/sardonyx-0.1.0.tar.gz", __dir__)}"
  version "0.1.0"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "eigen" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "protozero" => :build
  depends_on "xxhash" => :build
  depends_on "fmt"
  depends_on "re2"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja",
           "-DSARDONYX_PYTHON=OFF", "-DSARDONYX_TESTS=OFF", "-DSARDONYX_PCH=ON", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sardonyx --version")
  end
end
