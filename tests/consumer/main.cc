// Uses an installed Sardonyx as any C++ program would. Prints the version it was linked with.
#include <cstdio>

#include "sardonyx/version.h"

int main() {
  std::printf("sardonyx %s\n", sardonyx::version());
  return 0;
}
