// A listener against programs that are not peers, and against peers that break the rules.
#include <algorithm>
#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.hpp"
#include "harness.hpp"
#include "io/address.hpp"
#include "io/cells.hpp"
#include "io/control.hpp"
#include "io/plain_session.hpp"
#include "io/raw_address.hpp"
#include "io/tcp.hpp"
#include "io/tls.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// Connects to a listener and sends the test's bytes; above TCP, it is not a peer.
std::unique_ptr<TcpStream> connect(Loop& loop, const std::string& address) {
  auto stream = TcpStream::connect(loop, base::parse_ip_port(address).value()).value();
  BOOST_REQUIRE(run_until(loop, [&] { return stream->connected(); }));
  return stream;
}

/// A peer until its session is established, which then breaks the rules.
class Rogue {
 public:
  Rogue(Loop& loop, const std::string& address,
        std::unique_ptr<Session> session = make_plain_session(Role::dialer, base::PeerId{}))
      : stream(connect(loop, address)), session_(std::move(session)) {
    BOOST_REQUIRE(run_until(loop, [&] {
      const base::Bytes bytes = stream->take();
      BOOST_REQUIRE(bytes.empty() || session_->receive(bytes).has_value());
      say({});
      return session_->established();
    }));
  }

  /// Inside the session.
  void say(base::ByteView plain) {
    base::Bytes bytes;
    session_->output(bytes);
    if (!plain.empty()) BOOST_REQUIRE(session_->write(plain, bytes).has_value());
    stream->send(std::move(bytes));
  }

  std::unique_ptr<TcpStream> stream;

 private:
  std::unique_ptr<Session> session_;
};

/// Bytes that a link takes for a part of the stream of frames.
base::Bytes data_cell(base::ByteView bytes) {
  base::Bytes cell;
  append_cell_header(cell, CellType::data, bytes.size());
  cell.insert(cell.end(), bytes.begin(), bytes.end());
  return cell;
}

base::Bytes preface_of(std::uint8_t version) {
  const auto session = make_plain_session(Role::dialer, base::PeerId{});
  base::Bytes preface;
  session->output(preface);
  preface[8] = std::byte{version};
  return preface;
}

/// The tested event ends a handshake in a test, not the handshake's timeout.
TransportConfig patient() {
  TransportConfig config;
  config.handshake_timeout = 3 * kPatience;
  return config;
}

TransportConfig plain() {
  TransportConfig config = patient();
  config.tls = false;
  return config;
}

/// For tests of that timeout.
TransportConfig impatient() {
  TransportConfig config = plain();
  config.handshake_timeout = std::chrono::milliseconds(300);
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(strangers)

void disturb_with_random_bytes(std::uint64_t seed) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  base::Rng rng(seed);
  std::vector<std::unique_ptr<TcpStream>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(connect(loop, b.transport->address()));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i % 4 == 3) continue;  // connected and silent
    base::Bytes noise(1 + rng.below(20'000));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
    clients[i]->send(std::move(noise));
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
  Loop loop = make_loop();
  Handle<uv_tcp_t> mute([] {}, [&](uv_tcp_t* tcp) { return uv_tcp_init(loop.raw(), tcp); });
  BOOST_REQUIRE(bind_to(*mute.raw(), {base::Ip::loopback(), 0}) == 0);
  BOOST_REQUIRE(
      uv_listen(reinterpret_cast<uv_stream_t*>(mute.raw()), 8, [](uv_stream_t*, int) {}) == 0);
  Endpoint a(loop, impatient());
  static_cast<void>(a.transport->dial(to_string(name_of(*mute.raw(), uv_tcp_getsockname).value())));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty(); }));
  BOOST_TEST(a.failed[0].second.find("in time") != std::string::npos);
}

/// Sends something, ends its side, and cuts the connection: a later write to it raises SIGPIPE.
void speak_and_cut(const std::string& address, const std::string& text) {
  const RawAddress to(base::parse_ip_port(address).value());
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BOOST_REQUIRE(::connect(client, to.get(), to.size()) == 0);
  BOOST_REQUIRE(::send(client, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  BOOST_REQUIRE(::shutdown(client, SHUT_WR) == 0);
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  BOOST_REQUIRE(::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  ::close(client);
}

BOOST_AUTO_TEST_CASE(who_cuts_the_connection_before_the_answer_does_not_end_the_program) {
  Loop loop = make_loop();
  Endpoint a(loop, plain());
  const base::Bytes preface = preface_of(kPlainVersion);
  const std::string text(reinterpret_cast<const char*>(preface.data()), preface.size());
  for (int i = 0; i < 20; ++i) speak_and_cut(a.transport->address(), text);
  Endpoint b(loop, plain());
  BOOST_TEST(link_up(loop, b, a));
  const auto control = Control::create(loop, "127.0.0.1:0", [](const ControlRequest&) {
    return ControlReply{200, "an answer", "text/plain"};
  });
  BOOST_REQUIRE(control);
  for (int i = 0; i < 20; ++i) speak_and_cut((*control)->address(), "GET / HTTP/1.1\r\n\r\n");
  const auto last = connect(loop, (*control)->address());
  last->send(base::Bytes(10));
  BOOST_TEST(run_until(loop, [&] { return last->ended(); }));
  (*control)->close();
  static_cast<void>(link_up(loop, b, a));  // turns the loop until it has closed
}

BOOST_AUTO_TEST_CASE(strangers_that_were_turned_away_and_stay_leave_room_for_dials) {
  Loop loop = make_loop();
  TransportConfig config;
  config.links_max = kStrangersMax + 1;
  Endpoint a(loop, config);
  Endpoint b(loop);
  std::vector<std::unique_ptr<TcpStream>> strangers;
  for (std::size_t i = 0; i < kStrangersMax + 8; ++i) {
    strangers.push_back(connect(loop, a.transport->address()));
    strangers.back()->send(base::Bytes(16, std::byte{'x'}));
  }
  BOOST_TEST(link_up(loop, a, b));
  BOOST_TEST(a.failed.empty());
}

BOOST_AUTO_TEST_CASE(one_host_alone_does_not_take_all_places_of_strangers) {
  Loop loop = make_loop();
  Endpoint a(loop, patient());
  std::vector<std::unique_ptr<TcpStream>> silent;
  for (std::size_t i = 0; i <= kStrangersPerHostMax; ++i) {
    silent.push_back(connect(loop, a.transport->address()));
  }
  BOOST_TEST(run_until(loop, [&] { return silent.back()->ended(); }));
  const auto waiting = [](const auto& stream) { return !stream->ended(); };
  BOOST_TEST(std::ranges::count_if(silent, waiting) == std::ptrdiff_t{kStrangersPerHostMax});
}

// Without a secret, anybody's link comes up.
BOOST_AUTO_TEST_CASE(links_that_are_not_accepted_leave_room_for_dials) {
  Loop loop = make_loop();
  TransportConfig config;
  config.links_max = kStrangersMax + 1;
  Endpoint a(loop, config);
  Endpoint b(loop);
  for (std::size_t i = 0; i < kStrangersMax; ++i) BOOST_REQUIRE(link_up(loop, b, a));
  static_cast<void>(b.transport->dial(a.transport->address()));
  BOOST_TEST(run_until(loop, [&] { return !b.failed.empty(); }));
  a.transport->accept(a.ups.front().link);
  BOOST_TEST(link_up(loop, a, b));
  BOOST_TEST(a.failed.empty());
}

BOOST_AUTO_TEST_CASE(zeros_are_hung_up_on) {
  Loop loop = make_loop();
  Endpoint a(loop, patient());
  const auto stranger = connect(loop, a.transport->address());
  stranger->send(base::Bytes(4096));
  BOOST_TEST(run_until(loop, [&] { return stranger->ended(); }));
  BOOST_TEST(a.ups.empty());
}

BOOST_AUTO_TEST_CASE(a_silent_stranger_is_cut_after_the_handshake_timeout) {
  Loop loop = make_loop();
  Endpoint a(loop, impatient());
  const auto stranger = connect(loop, a.transport->address());
  stranger->send(base::Bytes(1, std::byte{'S'}));
  BOOST_TEST(run_until(loop, [&] { return stranger->ended(); }));
  BOOST_TEST(a.ups.empty());
  BOOST_TEST(a.downs.empty());
}

BOOST_AUTO_TEST_CASE(what_follows_the_preamble_at_once_is_read) {
  Loop loop = make_loop();
  Endpoint a(loop, plain());
  const auto stranger = connect(loop, a.transport->address());
  base::Bytes bytes = preface_of(kPlainVersion);
  for (const base::Bytes& part : {encode(Preamble{}), data_cell(frame_of(10))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  stranger->send(std::move(bytes));
  BOOST_TEST(run_until(loop, [&] { return a.frames == 1; }));
}

BOOST_AUTO_TEST_CASE(another_version_is_told_ours_and_cut) {
  Loop loop = make_loop();
  Endpoint a(loop, plain());
  const auto stranger = connect(loop, a.transport->address());
  stranger->send(preface_of(kPlainVersion + 1));
  base::Bytes answer;
  BOOST_TEST(run_until(loop, [&] {
    const base::Bytes more = stranger->take();
    answer.insert(answer.end(), more.begin(), more.end());
    return stranger->ended();
  }));
  const auto session = make_plain_session(Role::dialer, base::PeerId{});
  BOOST_TEST(session->receive(answer).has_value());
  BOOST_TEST(session->established());
  BOOST_TEST(a.ups.empty());
}

BOOST_AUTO_TEST_CASE(a_preamble_that_makes_no_sense_fails_the_dial) {
  for (const std::size_t wrong : {0U, 1U}) {
    BOOST_TEST_CONTEXT("byte " << wrong) {
      Loop loop = make_loop();
      const auto listener = TcpListener::create(loop, {base::Ip::loopback(), 0}).value();
      Endpoint a(loop, plain());
      static_cast<void>(a.transport->dial(listener->address()));
      std::vector<std::unique_ptr<TcpStream>> came;
      BOOST_REQUIRE(run_until(loop, [&] {
        if (came.empty()) came = listener->take();
        return !came.empty();
      }));
      base::Bytes preamble = encode(Preamble{});
      preamble[wrong] = std::byte{99};
      came[0]->send(preface_of(kPlainVersion));
      came[0]->send(std::move(preamble));
      BOOST_REQUIRE(run_until(loop, [&] {
        static_cast<void>(came[0]->take());
        return !a.failed.empty();
      }));
      BOOST_TEST(a.failed[0].second.find("99") != std::string::npos, a.failed[0].second);
      BOOST_TEST(a.ups.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_dialer_that_says_nothing_in_its_session_is_cut_after_the_handshake_timeout) {
  Loop loop = make_loop();
  Endpoint a(loop, impatient());
  const auto stranger = connect(loop, a.transport->address());
  stranger->send(preface_of(kPlainVersion));
  BOOST_TEST(run_until(loop, [&] {
    static_cast<void>(stranger->take());
    return stranger->ended();
  }));
  BOOST_TEST(a.ups.empty());
}

BOOST_AUTO_TEST_CASE(a_carrier_for_a_link_that_does_not_exist_is_cut) {
  Loop loop = make_loop();
  Endpoint a(loop, plain());
  Endpoint b(loop, plain());
  BOOST_REQUIRE(link_up(loop, a, b));
  for (const std::uint64_t token : {std::uint64_t{0}, std::uint64_t{77}}) {
    Rogue rogue(loop, a.transport->address());
    rogue.say(encode(Preamble{SessionUse::carrier, token}));
    BOOST_TEST(run_until(loop, [&] {
      static_cast<void>(rogue.stream->take());
      return rogue.stream->ended();
    }));
  }
  BOOST_TEST(a.ups.size() == 1U);
  BOOST_TEST(a.downs.empty());
}

// Whoever is in between can write them, too.
BOOST_AUTO_TEST_CASE(bytes_that_tls_refuses_break_the_link_and_blame_nobody) {
  Loop loop = make_loop();
  Endpoint a(loop);
  const Identity identity = std::move(Identity::generate().value());
  const TlsContext tls = TlsContext::create(identity, {}).value();
  Rogue rogue(loop, a.transport->address(), tls.session(Role::dialer).value());
  rogue.say(encode(Preamble{}));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty(); }));
  // A record of application data in TLS's form, but not made with any key.
  base::Bytes record(200, std::byte{0x5a});
  record[0] = std::byte{23};
  record[1] = record[2] = std::byte{3};
  record[3] = std::byte{0};
  record[4] = static_cast<std::byte>(record.size() - 5);
  rogue.stream->send(std::move(record));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty(); }));
  BOOST_TEST((a.downs[0].end == LinkEnd::reset), a.downs[0].text);
}

BOOST_AUTO_TEST_CASE(a_peer_that_sends_garbage_instead_of_frames_is_cut) {
  constexpr std::uint64_t seed = 1;
  base::Rng rng(seed);
  base::Bytes noise(5000);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(rng());
  noise[0] = std::byte{wire::kMajorVersion + 1};
  for (const base::Bytes& said : {data_cell(noise), noise}) {
    Loop loop = make_loop();
    Endpoint a(loop, plain());
    Rogue rogue(loop, a.transport->address());
    rogue.say(encode(Preamble{}));
    BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty(); }));
    for (base::ByteView rest = said; !rest.empty();) {
      const base::ByteView part = rest.first(std::min(rest.size(), kRecordMax));
      rogue.say(part);
      rest = rest.subspan(part.size());
    }
    BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty(); }));
    BOOST_TEST((a.downs[0].end == LinkEnd::protocol_error));
  }
}

// Each requests a window's bytes: they would be sent again forever.
BOOST_AUTO_TEST_CASE(a_peer_that_asks_for_the_same_again_and_again_is_cut) {
  Loop loop = make_loop();
  Endpoint a(loop, plain());
  Rogue rogue(loop, a.transport->address());
  rogue.say(encode(Preamble{}));
  for (std::size_t i = 0; i < 2000; ++i) rogue.say(number_cell(CellType::again, 0));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty(); }));
  BOOST_TEST((a.downs[0].end == LinkEnd::protocol_error));
}

BOOST_AUTO_TEST_SUITE_END()
