// What reaches a listener from programs that are no peers, and from peers that break the rules.
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "harness.hpp"
#include "io/address.hpp"
#include "io/plain_session.hpp"
#include "io/tls.hpp"
#include "io/ucx_stream.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A plain TCP connection, made by libuv.
class TcpClient {
 public:
  TcpClient(Loop& loop, const std::string& address)
      : tcp_([] {}, [&](uv_tcp_t* tcp) { return uv_tcp_init(loop.raw(), tcp); }) {
    const HostPort target = parse_address(address).value();
    sockaddr_in to{};
    uv_ip4_addr(target.host.c_str(), target.port, &to);
    connect_.data = this;
    BOOST_REQUIRE(uv_tcp_connect(&connect_, tcp_.raw(), reinterpret_cast<const sockaddr*>(&to),
                                 [](uv_connect_t* request, int status) {
                                   static_cast<TcpClient*>(request->data)->connected = status == 0;
                                 }) == 0);
  }

  /// As much as the socket takes at once.
  void write(base::ByteView bytes) {
    uv_buf_t buffer = uv_buf_init(
        const_cast<char*>(reinterpret_cast<const char*>(bytes.data())),  // uv_buf_t has no const
        static_cast<unsigned>(bytes.size()));
    written = uv_try_write(reinterpret_cast<uv_stream_t*>(tcp_.raw()), &buffer, 1) > 0;
  }

  bool connected = false;
  bool written = false;

 private:
  uv_connect_t connect_{};
  Handle<uv_tcp_t> tcp_;
};

/// The lower layers alone, to do with them what a peer must not do.
class Rogue {
 public:
  Rogue(Loop& loop, const std::string& address)
      : worker_(UcxWorker::create(loop, "lo", [this] { return turn ? turn() : false; }).value()),
        streams_(*worker_) {
    const HostPort target = parse_address(address).value();
    sockaddr_in to{};
    uv_ip4_addr(target.host.c_str(), target.port, &to);
    stream = UcxStream::connect(streams_, to).value();
  }
  Rogue(const Rogue&) = delete;
  Rogue& operator=(const Rogue&) = delete;
  ~Rogue() {
    stream->abort();
    while (!stream->closed()) worker_->progress();
    stream.reset();
  }

  std::function<bool()> turn;

 private:
  std::unique_ptr<UcxWorker> worker_;
  UcxStreams streams_;

 public:
  std::unique_ptr<UcxStream> stream;
};

base::Buffer preface_of(std::uint8_t version) {
  const auto session = make_plain_session(Role::dialer, base::PeerId{});
  base::Buffer preface;
  session->output(preface);
  preface[8] = std::byte{version};
  return preface;
}

TransportConfig plain() {
  TransportConfig config;
  config.tls = false;
  config.handshake_timeout = std::chrono::milliseconds(300);
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(strangers)

void disturb_with_random_bytes(std::uint64_t seed) {
  Loop loop;
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  base::Rng rng(seed);
  std::vector<std::unique_ptr<TcpClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<TcpClient>(loop, b.transport->address()));
  }
  BOOST_REQUIRE(run_until(loop, [&] {
    return std::ranges::all_of(clients, [](const auto& client) { return client->connected; });
  }));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i % 4 == 3) continue;  // connected and silent
    base::Buffer noise(1 + rng.below(20'000));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
    clients[i]->write(noise);
    BOOST_TEST(clients[i]->written);
    if (i % 2 == 0) clients[i].reset();  // gone at once
  }
  BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(1000), wire::Purpose::delta));
  BOOST_TEST(run_until(loop, [&] { return b.frames == 1; }));
  BOOST_TEST(link_up(loop, a, b));  // new links come in as before
  BOOST_TEST(a.downs.empty());
  BOOST_TEST(b.downs.empty());
}

BOOST_AUTO_TEST_CASE(random_bytes_on_the_port_change_nothing_for_links) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) { disturb_with_random_bytes(seed); }
  }
}

BOOST_AUTO_TEST_CASE(a_dial_to_a_port_that_never_answers_fails_in_time) {
  Loop loop;
  Handle<uv_tcp_t> mute([] {}, [&](uv_tcp_t* tcp) { return uv_tcp_init(loop.raw(), tcp); });
  sockaddr_in any{};
  uv_ip4_addr("127.0.0.1", 0, &any);
  BOOST_REQUIRE(uv_tcp_bind(mute.raw(), reinterpret_cast<const sockaddr*>(&any), 0) == 0);
  BOOST_REQUIRE(
      uv_listen(reinterpret_cast<uv_stream_t*>(mute.raw()), 8, [](uv_stream_t*, int) {}) == 0);
  int size = sizeof any;
  BOOST_REQUIRE(uv_tcp_getsockname(mute.raw(), reinterpret_cast<sockaddr*>(&any), &size) == 0);
  Endpoint a(loop, plain());
  static_cast<void>(a.transport->dial(to_string(any)));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty(); }));
  BOOST_TEST(a.failed[0].second.find("in time") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_silent_stranger_is_cut_after_the_handshake_timeout) {
  Loop loop;
  Endpoint a(loop, plain());
  Rogue rogue(loop, a.transport->address());
  BOOST_REQUIRE(run_until(loop, [&] { return rogue.stream->writable() > 0; }));
  rogue.stream->send(base::Buffer(1, std::byte{'S'}));
  BOOST_TEST(run_until(loop, [&] { return rogue.stream->failure() != UcxStream::Failure::none; }));
  BOOST_TEST(a.ups.empty());
  BOOST_TEST(a.downs.empty());
}

BOOST_AUTO_TEST_CASE(another_version_is_told_ours_and_cut) {
  Loop loop;
  Endpoint a(loop, plain());
  Rogue rogue(loop, a.transport->address());
  rogue.stream->send(preface_of(kPlainVersion + 1));
  BOOST_REQUIRE(run_until(loop, [&] { return rogue.stream->readable(); }));
  const base::Buffer answer = rogue.stream->take();
  const auto session = make_plain_session(Role::dialer, base::PeerId{});
  BOOST_TEST(session->receive(answer).has_value());
  BOOST_TEST(run_until(loop, [&] {
    return rogue.stream->ended() || rogue.stream->failure() != UcxStream::Failure::none;
  }));
  BOOST_TEST(a.ups.empty());
}

BOOST_AUTO_TEST_CASE(a_peer_that_sends_garbage_instead_of_frames_is_cut) {
  constexpr std::uint64_t seed = 1;
  Loop loop;
  Endpoint a(loop, plain());
  Rogue rogue(loop, a.transport->address());
  rogue.stream->send(preface_of(kPlainVersion));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty() && rogue.stream->writable() > 0; }));
  base::Rng rng(seed);
  base::Buffer noise(5000);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
  noise[0] = std::byte{wire::kMajorVersion + 1};
  rogue.stream->send(std::move(noise));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty(); }));
  BOOST_TEST((a.downs[0].end == LinkEnd::protocol_error));
  BOOST_TEST(a.downs[0].text.find("version") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
