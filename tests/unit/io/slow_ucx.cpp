// Makes the UCX module one that takes as long to load as a test wants.
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace {

/// While the library is loaded, it waits until the FIFO that the variable names is opened.
struct Gate {
  Gate() {
    const char* const fifo = std::getenv("STARLING_TEST_GATE");
    if (fifo != nullptr) ::close(::open(fifo, O_RDONLY | O_CLOEXEC));
  }
} const gate;

}  // namespace
