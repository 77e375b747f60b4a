// libFuzzer: any bytes as a client's input to the control port, over a socket, in pieces. For any
// input, there is one answer or none, and the connection ends. The port serves only the request,
// and pages of other sites may not change anything.
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
  Server() : loop_(io::Loop::create().value()), control_(make_control()) {
    const auto at = io::parse_address(control_->address());
    ASSERT(at.has_value());
    address_.sin_family = AF_INET;
    address_.sin_port = htons(at->port);
    ASSERT(inet_pton(AF_INET, at->host.c_str(), &address_.sin_addr) == 1);
  }
  ~Server() {
    control_->close();
    while (turn() != 0) {
    }
  }

  void take(fuzz::Input input) {
    served_ = 0;
    const int client = connected();
    const std::size_t piece = 1 + input.take<std::uint16_t>();
    for (std::size_t i = 0; i < kPieces && !input.empty(); ++i) {
      const base::ByteView bytes = i + 1 == kPieces ? input.rest() : input.take_bytes(piece);
      static_cast<void>(send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      turn();
    }
    shutdown(client, SHUT_WR);
    check(all_from(client));
    close(client);
    turn();
  }

 private:
  int turn() { return uv_run(loop_.raw(), UV_RUN_NOWAIT); }

  int connected() const {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT(client >= 0);
    // Reset when closed: no address waits for stray packets, of which there would be too many.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    ASSERT(setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    ASSERT(connect(client, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0);
    return client;
  }

  void check(const std::string& said) const {
    ASSERT(said.empty() || said.starts_with("HTTP/1.1 "));
    ASSERT(served_ <= 1 && (served_ == 0 || !said.empty()));
    ASSERT(said.find("\r\nHTTP/1.1 ") == std::string::npos, "one answer a connection");
  }

  std::unique_ptr<io::Control> make_control() {
    const auto serve = [this](const io::ControlRequest& request) {
      ++served_;
      ASSERT(request.path.size() <= io::Control::kRequestMax);
      ASSERT(request.path.find('?') == std::string::npos);
      return io::ControlReply{.code = 200, .body = "{}"};
    };
    return io::Control::create(loop_, "127.0.0.1:0", serve).value();
  }

  /// Until the other end closes, which it may have done already.
  std::string all_from(int client) {
    std::string text;
    while (true) {
      char bytes[4096];
      const ssize_t count = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return text;
      if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
      if (count < 0) uv_run(loop_.raw(), UV_RUN_ONCE);
    }
  }

  int served_ = 0;
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
