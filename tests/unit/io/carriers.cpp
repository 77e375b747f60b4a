// One suite for all carriers: the properties on which links rely.
#include <memory>
#include <utility>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "harness.hpp"
#include "io/address.hpp"
#include "io/circuits.hpp"
#include "io/tcp_carrier.hpp"
#include "io/ucx/fabric.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// Two carriers that are each other's other end.
class Pair {
 public:
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  virtual ~Pair() = default;
  /// Lets data in flight arrive.
  virtual void turn() = 0;

  bool until(const std::function<bool()>& done) {
    const base::Time late = Loop::now() + kPatience;
    while (!done() && Loop::now() < late) turn();
    return done();
  }

  std::unique_ptr<Carrier> a;
  std::unique_ptr<Carrier> b;

 protected:
  void close() {
    a->abort();
    b->abort();
    BOOST_TEST(until([this] { return a->closed() && b->closed(); }));
  }
};

class TcpPair final : public Pair {
 public:
  TcpPair() {
    const base::IpPort any{base::Ip::loopback(), 0};
    const auto listener = TcpListener::create(loop_, any).value();
    const HostPort at = parse_address(listener->address()).value();
    auto dialed = TcpStream::connect(loop_, numeric_address(at).value()).value();
    std::vector<std::unique_ptr<TcpStream>> came;
    BOOST_REQUIRE(run_until(loop_, [&] {
      if (came.empty()) came = listener->take();
      return !came.empty() && dialed->connected();
    }));
    a = std::make_unique<TcpCarrier>(std::move(dialed));
    b = std::make_unique<TcpCarrier>(std::move(came.front()));
  }
  ~TcpPair() override { close(); }
  void turn() override { uv_run(loop_.raw(), UV_RUN_NOWAIT); }

 private:
  Loop loop_ = make_loop();
};

class UcxPair final : public Pair {
 public:
  UcxPair() {
    for (auto& fabric : fabrics_) {
      fabric = ucx::Fabric::start(loop_, {"lo", kLoopback, {}}).value();
      BOOST_REQUIRE(fabric->allow({&kLoopback, 1}).has_value());
    }
    a = fabrics_[0]->connect(kLoopback, fabrics_[1]->port()).value();
    a->send(base::Bytes(1));
    BOOST_REQUIRE(until([&] { return b && b->readable(); }));
    static_cast<void>(b->take());
  }
  ~UcxPair() override { close(); }
  void turn() override {
    for (const auto& fabric : fabrics_) fabric->progress();
    for (auto& carrier : fabrics_[1]->take_incoming(1)) b = std::move(carrier);
  }

 private:
  const base::Ip kLoopback = base::Ip::loopback();
  Loop loop_ = make_loop();
  std::array<std::unique_ptr<ucx::Fabric>, 2> fabrics_;
};

/// Two ends and a relay between them; frames on links arrive at once.
class CircuitPair final : public Pair {
 public:
  CircuitPair() {
    relay_.circuits.relay(kToA, 5, kToB, 9, Loop::now());
    a = end_a_.circuits.open(kToRelay, 5);
    b = end_b_.circuits.open(kToRelay, 9);
  }
  ~CircuitPair() override { close(); }
  void turn() override {
    const base::Time now = Loop::now();
    const auto carry = [&](Place& from, base::LinkId out, Place& to, base::LinkId in) {
      for (base::Bytes& frame : std::exchange(from.sent[out], {})) {
        wire::FrameReader reader;
        base::ByteView rest = frame;
        const auto read = reader.read(rest);
        BOOST_REQUIRE((read && *read));
        BOOST_REQUIRE(to.circuits.on_frame(in, (*read)->payload(), now));
      }
    };
    carry(end_a_, kToRelay, relay_, kToA);
    carry(end_b_, kToRelay, relay_, kToB);
    static_cast<void>(relay_.circuits.pump(now));
    carry(relay_, kToA, end_a_, kToRelay);
    carry(relay_, kToB, end_b_, kToRelay);
  }

 private:
  struct Place final : CircuitLinks {
    bool send_circuit_frame(base::LinkId link, base::Bytes frame) override {
      sent[link].push_back(std::move(frame));
      return true;
    }
    std::optional<std::size_t> waiting_on(base::LinkId link) const override {
      std::size_t sum = 0;
      if (const auto found = sent.find(link); found != sent.end()) {
        for (const base::Bytes& frame : found->second) sum += frame.size();
      }
      return sum;
    }
    std::map<base::LinkId, std::vector<base::Bytes>> sent;
    Circuits circuits{*this, 1'000'000'000};
  };

  static constexpr base::LinkId kToRelay{1, 1};
  static constexpr base::LinkId kToA{2, 1};
  static constexpr base::LinkId kToB{3, 1};
  Place end_a_;
  Place end_b_;
  Place relay_;
};

std::unique_ptr<Pair> make_pair_of(CarrierKind kind) {
  switch (kind) {
    case CarrierKind::tcp:
      return std::make_unique<TcpPair>();
    case CarrierKind::ucx:
      return std::make_unique<UcxPair>();
    case CarrierKind::circuit:
      return std::make_unique<CircuitPair>();
  }
  return nullptr;
}

const auto kKinds =
    boost::unit_test::data::make({CarrierKind::tcp, CarrierKind::ucx, CarrierKind::circuit});

/// Takes all readable data.
void drain(Carrier& carrier, base::Bytes& into) {
  while (carrier.readable()) {
    const base::Bytes part = carrier.take();
    into.insert(into.end(), part.begin(), part.end());
  }
  carrier.send_credit();
}

}  // namespace

namespace starling::io {
std::ostream& operator<<(std::ostream& out, CarrierKind kind) { return out << to_string(kind); }
}  // namespace starling::io

BOOST_AUTO_TEST_SUITE(carriers)

BOOST_DATA_TEST_CASE(bytes_come_in_order_both_ways_whatever_their_pieces, kKinds, kind) {
  const auto pair = make_pair_of(kind);
  base::Rng rng(1);
  base::Bytes all(3UL << 20);
  for (std::byte& byte : all) byte = static_cast<std::byte>(rng());
  std::array<base::Bytes, 2> got;
  std::array<std::size_t, 2> sent{};
  const std::array<Carrier*, 2> ends{pair->a.get(), pair->b.get()};
  BOOST_TEST(pair->until([&] {
    for (const std::size_t i : {0U, 1U}) {
      const std::size_t room = std::min(ends[i]->writable(), all.size() - sent[i]);
      if (room > 0) {
        const std::size_t size = 1 + rng.below(room);
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(sent[i]);
        ends[i]->send(base::Bytes(from, from + static_cast<std::ptrdiff_t>(size)));
        sent[i] += size;
      }
      drain(*ends[i], got[1 - i]);
    }
    return got[0].size() == all.size() && got[1].size() == all.size();
  }));
  BOOST_TEST((got[0] == all));
  BOOST_TEST((got[1] == all));
  BOOST_TEST((ends[0]->failure() == Carrier::Failure::none));
}

BOOST_DATA_TEST_CASE(a_reader_that_takes_nothing_holds_the_sender_back, kKinds, kind) {
  const auto pair = make_pair_of(kind);
  constexpr std::size_t kFarTooMuch = 256UL << 20;
  std::size_t sent = 0;
  int quiet = 0;
  while (quiet < 200 && sent < kFarTooMuch) {
    const std::size_t room = pair->a->writable();
    if (room > 0) {
      pair->a->send(base::Bytes(room));
      sent += room;
    }
    quiet = room > 0 ? 0 : quiet + 1;
    pair->turn();
  }
  BOOST_TEST(sent < kFarTooMuch);
  base::Bytes got;
  BOOST_TEST(pair->until([&] {
    drain(*pair->b, got);
    return got.size() == sent;
  }));
  BOOST_TEST(pair->until([&] { return pair->a->writable() > 0; }));
}

BOOST_DATA_TEST_CASE(an_end_that_lets_go_is_noticed_at_the_other, kKinds, kind) {
  const auto pair = make_pair_of(kind);
  pair->a->send(base::Bytes(100));
  BOOST_TEST(pair->until([&] { return pair->b->readable(); }));
  pair->a->abort();
  base::Bytes got;
  BOOST_TEST(pair->until([&] {
    drain(*pair->b, got);
    return pair->b->ended() || pair->b->failure() != Carrier::Failure::none;
  }));
  BOOST_TEST(got.size() == 100U);
  BOOST_TEST(pair->a->writable() == 0U);
}

BOOST_DATA_TEST_CASE(letting_go_with_bytes_under_way_leaves_nothing_behind, kKinds, kind) {
  for (int i = 0; i < 5; ++i) {
    const auto pair = make_pair_of(kind);
    for (int j = 0; j < 3 && pair->a->writable() > 0; ++j) {
      pair->a->send(base::Bytes(pair->a->writable()));
    }
    if (i % 2 == 0) pair->turn();
    pair->b->abort();
    pair->a->abort();
    BOOST_TEST(pair->until([&] { return pair->a->closed() && pair->b->closed(); }));
  }
}

BOOST_AUTO_TEST_SUITE_END()
