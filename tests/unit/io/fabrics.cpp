#include "io/fabrics.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/descriptor.hpp"
#include "harness.hpp"
#include "io/plain_session.hpp"
#include "io/tcp.hpp"
#include "io/tls.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

TransportConfig with_fabric(const std::string& fabric) {
  TransportConfig config;
  config.fabric = fabric;
  return config;
}

/// Holds up the loading of UCX (slow_ucx.cpp) until it is opened.
class Gate {
 public:
  Gate() {
    BOOST_REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
    setenv("STARLING_TEST_GATE", path_.c_str(), 1);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open() { opened_ = base::Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC)); }

 private:
  testing::TemporaryFolder folder_;
  std::string path_ = folder_ / "gate";
  base::Descriptor opened_{-1};
};

/// Two peers whose link both have accepted.
struct Two {
  explicit Two(const TransportConfig& config_a = {}, const TransportConfig& config_b = {})
      : a(loop, config_a), b(loop, config_b) {
    BOOST_REQUIRE(link_up(loop, a, b));
    a.transport->accept(a.ups[0].link);
    b.transport->accept(b.ups[0].link);
  }
  [[nodiscard]] CarrierKind kind(const Endpoint& end) const {
    return end.transport->carrier(end.ups[0].link).kind;
  }
  [[nodiscard]] std::string why(const Endpoint& end, std::size_t link = 0) const {
    return end.transport->carrier(end.ups[link].link).why;
  }
  [[nodiscard]] bool moved() {
    return run_until(loop,
                     [&] { return kind(a) == CarrierKind::ucx && kind(b) == CarrierKind::ucx; });
  }
  /// Frames both ways arrive.
  void talk() {
    const std::size_t before_a = a.frames;
    const std::size_t before_b = b.frames;
    for (int i = 0; i < 20; ++i) {
      BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(60'000), wire::Purpose::delta));
      BOOST_REQUIRE(b.transport->send(b.ups[0].link, frame_of(60'000), wire::Purpose::delta));
    }
    BOOST_TEST(
        run_until(loop, [&] { return a.frames == before_a + 20 && b.frames == before_b + 20; }));
  }

  Loop loop = make_loop();
  Endpoint a;
  Endpoint b;
};

/// A peer by hand, past its preamble.
class Rogue {
 public:
  Rogue(Loop& loop, const std::string& address)
      : identity_(std::move(Identity::generate().value())),
        tls_(TlsContext::create(identity_, {}).value()),
        session_(tls_.session(Role::dialer).value()),
        stream_(TcpStream::connect(loop, numeric_address(parse_address(address).value()).value())
                    .value()) {
    BOOST_REQUIRE(run_until(loop, [&] { return stream_->connected(); }));
    BOOST_REQUIRE(run_until(loop, [&] {
      const base::Bytes bytes = stream_->take();
      BOOST_REQUIRE((bytes.empty() || session_->receive(bytes).has_value()));
      say({});
      return session_->established();
    }));
    say(encode(Preamble{}));
  }
  void say(base::ByteView plain) {
    base::Bytes bytes;
    session_->output(bytes);
    if (!plain.empty()) BOOST_REQUIRE(session_->write(plain, bytes).has_value());
    stream_->send(std::move(bytes));
  }
  void say_cell(CellType type, base::ByteView cell) {
    base::Bytes whole;
    append_cell_header(whole, type, cell.size());
    whole.insert(whole.end(), cell.begin(), cell.end());
    say(whole);
  }

 private:
  Identity identity_;
  TlsContext tls_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<TcpStream> stream_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(fabrics)

// The first test: UCX is loaded once in a process.
BOOST_AUTO_TEST_CASE(the_loop_turns_while_ucx_is_loaded) {
  constexpr char kLoading[] = "UCX is being loaded";
  BOOST_REQUIRE(std::getenv("STARLING_UCX_MODULE") != nullptr);  // set by `meson test`
  Two two;
  Gate gate;
  auto leaves = std::make_unique<Endpoint>(two.loop);
  BOOST_REQUIRE(link_up(two.loop, *leaves, two.b));
  leaves->transport->accept(leaves->ups[0].link);
  two.b.transport->accept(two.b.ups[1].link);
  BOOST_REQUIRE(run_until(two.loop, [&] {
    return two.why(two.b, 0) == kLoading && two.why(two.b, 1) == kLoading &&
           two.why(*leaves) == "UCX is not connected yet";
  }));
  two.talk();
  BOOST_TEST((two.kind(two.a) == CarrierKind::tcp));
  BOOST_TEST(two.why(two.b) == kLoading);
  // Nor does it hold up the end of a peer, until the transport is destroyed: its thread ends first.
  bool over = false;
  leaves->transport->shutdown([&] { over = true; });
  BOOST_TEST(run_until(two.loop, [&] { return over; }));
  BOOST_TEST(two.why(two.b) == kLoading);
  {
    const std::jthread opener([&] { gate.open(); });
    leaves.reset();
  }
  BOOST_REQUIRE_MESSAGE(two.moved(), two.why(two.a) + " / " + two.why(two.b));
  two.talk();
}

BOOST_AUTO_TEST_CASE(links_of_one_machine_move_to_ucx_by_themselves) {
  Two two;
  BOOST_TEST((two.kind(two.a) == CarrierKind::tcp));
  two.talk();
  BOOST_REQUIRE_MESSAGE(two.moved(), two.why(two.a) + " / " + two.why(two.b));
  two.talk();
  BOOST_TEST(two.why(two.a).empty());
  two.a.transport->close(two.a.ups[0].link);
  BOOST_TEST(run_until(two.loop, [&] { return !two.a.downs.empty() && !two.b.downs.empty(); }));
  BOOST_TEST((two.b.downs[0].end == LinkEnd::closed));
  bool over = false;
  two.a.transport->shutdown([&] { over = true; });
  BOOST_TEST(run_until(two.loop, [&] { return over; }));
}

BOOST_AUTO_TEST_CASE(several_links_share_a_fabric_and_outlive_each_other) {
  Two two;
  Endpoint c(two.loop);
  BOOST_REQUIRE(two.moved());
  BOOST_REQUIRE(link_up(two.loop, c, two.a));
  c.transport->accept(c.ups[0].link);
  two.a.transport->accept(two.a.ups[1].link);
  BOOST_REQUIRE(run_until(two.loop, [&] { return two.kind(c) == CarrierKind::ucx; }));
  c.transport->abort(c.ups[0].link);
  BOOST_REQUIRE(run_until(two.loop, [&] { return !two.a.downs.empty(); }));
  two.talk();
  BOOST_TEST((two.kind(two.a) == CarrierKind::ucx));
  BOOST_TEST(two.b.downs.empty());
}

// Both are let in from one address.
BOOST_AUTO_TEST_CASE(a_link_that_ends_before_it_was_let_in_shuts_out_no_other) {
  Two two;
  BOOST_REQUIRE(two.moved());
  Endpoint c(two.loop);
  BOOST_REQUIRE(link_up(two.loop, two.a, c));
  c.transport->accept(c.ups[0].link);
  BOOST_REQUIRE(
      run_until(two.loop, [&] { return two.why(two.a, 1) == "UCX is not connected yet"; }));
  two.a.transport->abort(two.a.ups[1].link);
  BOOST_REQUIRE(run_until(two.loop, [&] { return !c.downs.empty(); }));
  two.talk();
  BOOST_TEST((two.kind(two.a) == CarrierKind::ucx), two.why(two.a));
  BOOST_TEST((two.kind(two.b) == CarrierKind::ucx), two.why(two.b));
}

struct Keys {
  const char* a;
  const char* b;
  const char* why;  ///< empty: they go over UCX
};
std::ostream& operator<<(std::ostream& out, const Keys& keys) {
  return out << keys.a << " and " << keys.b;
}

BOOST_DATA_TEST_CASE(a_link_stays_on_tcp_where_the_run_files_say_so_and_says_why,
                     boost::unit_test::data::make({
                         Keys{"none", "auto", "none"},
                         Keys{"auto", "none", "none"},
                         Keys{"left", "right", "right"},
                         Keys{"left", "auto", "left"},
                     }),
                     keys) {
  Two two(with_fabric(keys.a), with_fabric(keys.b));
  BOOST_TEST(run_until(two.loop, [&] {
    return two.why(two.a).find(keys.why) != std::string::npos &&
           two.why(two.b).find(keys.why) != std::string::npos;
  }));
  two.talk();
  BOOST_TEST((two.kind(two.a) == CarrierKind::tcp));
}

BOOST_AUTO_TEST_CASE(without_encryption_there_is_no_fabric) {
  TransportConfig plain;
  plain.tls = false;
  Two two(plain, plain);
  BOOST_TEST(run_until(two.loop,
                       [&] { return two.why(two.a).find("security.mode") != std::string::npos; }));
  two.talk();
}

BOOST_AUTO_TEST_CASE(offers_and_doors_that_make_no_sense_end_the_link) {
  const base::Bytes offer(80, std::byte{0});
  base::Bytes door(16, std::byte{0});
  struct Said {
    CellType type;
    base::Bytes cell;
    int times;
  };
  const Said said[] = {
      {CellType::offer, base::Bytes(10), 1}, {CellType::offer, base::Bytes(200), 1},
      {CellType::offer, offer, 2},           {CellType::door, door, 1},
      {CellType::door, base::Bytes(3), 1},
  };
  for (const Said& one : said) {
    Loop loop = make_loop();
    Endpoint a(loop);
    Rogue rogue(loop, a.transport->address());
    BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty(); }));
    for (int i = 0; i < one.times; ++i) rogue.say_cell(one.type, one.cell);
    BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty(); }));
    BOOST_TEST((a.downs[0].end == LinkEnd::protocol_error), a.downs[0].text);
  }
}

// It claims to be on this machine without a proof, and on a subnet of a swarm that has no secret.
BOOST_AUTO_TEST_CASE(nobody_is_let_in_for_an_offer_alone) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Rogue rogue(loop, a.transport->address());
  BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty(); }));
  a.transport->accept(a.ups[0].link);
  base::Bytes offer(80, std::byte{0});
  std::memcpy(offer.data() + 73, "auto", 4);
  offer.resize(77);
  rogue.say_cell(CellType::offer, offer);
  BOOST_TEST(run_until(loop, [&] {
    return a.transport->carrier(a.ups[0].link).why.find("NAT") != std::string::npos;
  }));
}

BOOST_AUTO_TEST_SUITE_END()
