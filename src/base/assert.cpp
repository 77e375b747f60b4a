#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace starling::base {

void assertion_failed(const char* condition, const char* file, int line,
                      const char* text) noexcept {
  std::fprintf(stderr, "starling: internal error: %s:%d: `%s` does not hold%s%s\n", file, line,
               condition, *text != '\0' ? ": " : "", text);
  std::fflush(stderr);
  std::abort();
}

}  // namespace starling::base
