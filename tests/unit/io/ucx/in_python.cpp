// A fabric for a program that is not ours: in_python.py loads this as it loads libstarling.
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include "base/descriptor.hpp"
#include "io/raw_address.hpp"
#include "io/ucx/fabric.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::ucx;

namespace {

const base::Ip kLoopback = base::Ip::loopback();

bool connects(const char* from, std::uint16_t port) {
  const base::Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const RawAddress here({base::Ip::parse(from).value(), 0});
  const RawAddress there({kLoopback, port});
  if (bind(made.get(), here.get(), here.size()) != 0) return false;
  static_cast<void>(connect(made.get(), there.get(), there.size()));
  pollfd wait{made.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  constexpr int kPatienceMs = 200;  // of a SYN that is dropped nothing comes back
  return poll(&wait, 1, kPatienceMs) == 1 &&
         getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

/// 0: nobody could connect before being allowed, then a member could and a stranger could not. 1:
/// the fabric did not start. Otherwise a bit for each of these that failed.
extern "C" __attribute__((visibility("default"))) int starling_test_fabric() {
  Loop loop = std::move(Loop::create().value());
  const auto fabric = Fabric::start(loop, {"lo", kLoopback, {}});
  if (!fabric) return 1;
  const std::uint16_t port = (*fabric)->port();
  const bool early = connects("127.0.0.1", port);
  const std::vector<base::Ip> members{kLoopback};
  const bool allowed = (*fabric)->allow(members).has_value();
  const bool member = connects("127.0.0.1", port);
  const bool stranger = connects("127.0.0.2", port);
  return (early ? 2 : 0) | (allowed ? 0 : 4) | (member ? 0 : 8) | (stranger ? 16 : 0);
}
