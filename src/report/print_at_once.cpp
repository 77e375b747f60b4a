#include "report/print_at_once.hpp"

#include <poll.h>

namespace starling::report {

void print_at_once(std::FILE* stream, std::string_view text) {
  pollfd asked{.fd = fileno(stream), .events = POLLOUT, .revents = 0};
  if (poll(&asked, 1, 0) != 1 || (asked.revents & POLLOUT) == 0) return;
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace starling::report
