// libFuzzer: any bytes as what comes in at a peer's HTTP port, over a socket, in pieces. Whatever
// comes, there is one answer or none, and the connection ends.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "io/control.hpp"
#include "io/loop.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

constexpr std::size_t kPieces = 4;

class Server {
 public:
  Server() : loop_(io::Loop::create().value()), control_(make_control(loop_)) {
    const auto at = io::parse_address(control_->address());
    ASSERT(at.has_value());
    address_.sin_family = AF_INET;
    address_.sin_port = htons(at->port);
    ASSERT(inet_pton(AF_INET, at->host.c_str(), &address_.sin_addr) == 1);
  }

  void take(fuzz::Input input) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT(client >= 0);
    // Reset when closed: no address waits for stray packets, of which there would be too many.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    ASSERT(setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    ASSERT(connect(client, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0);
    const std::size_t piece = 1 + input.take<std::uint16_t>();
    for (std::size_t i = 0; i < kPieces && !input.empty(); ++i) {
      const base::ByteView bytes = i + 1 == kPieces ? input.rest() : input.take_bytes(piece);
      static_cast<void>(send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      uv_run(loop_.raw(), UV_RUN_NOWAIT);
    }
    shutdown(client, SHUT_WR);
    const std::string said = answer(client);
    ASSERT(said.empty() || said.starts_with("HTTP/1.1 "));
    close(client);
    uv_run(loop_.raw(), UV_RUN_NOWAIT);
  }

 private:
  static std::unique_ptr<io::Control> make_control(io::Loop& loop) {
    return io::Control::create(loop, "127.0.0.1:0",
                               [](const io::ControlRequest& request) {
                                 ASSERT(request.path.size() <= io::Control::kRequestMax);
                                 return io::ControlReply{.code = 200, .body = request.path};
                               })
        .value();
  }

  std::string answer(int client) {
    std::string text;
    while (true) {
      uv_run(loop_.raw(), UV_RUN_ONCE);
      char bytes[4096];
      const ssize_t count = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
      if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EAGAIN)) break;
    }
    return text;
  }

  io::Loop loop_;
  std::unique_ptr<io::Control> control_;
  sockaddr_in address_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server server;
  server.take(fuzz::Input(data, size));
  return 0;
}
