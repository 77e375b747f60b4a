#include "io/link.hpp"

#include <cstring>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "io/plain_session.hpp"
#include "memory_carrier.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

constexpr std::size_t kMemory = 16UL << 20;

/// Two links that are each other's other end, over pipes in memory.
class Ends {
 public:
  struct End {
    base::PeerId id;
    std::unique_ptr<Link> link{};
    std::uint64_t sent = 0;      ///< frames
    std::uint64_t received = 0;  ///< frames
    std::vector<std::string> lost{};
  };

  Ends() {
    for (std::size_t i = 0; i < 2; ++i) ends[i].id.bytes.fill(static_cast<std::uint8_t>(i + 1));
    const auto pipe = std::make_shared<Pipe>();
    pipes.push_back(pipe);
    for (const int side : {0, 1}) {
      ends[static_cast<std::size_t>(side)].link = std::make_unique<Link>(
          side == 0 ? 1 : 0, "memory:1", bootstrap(CarrierKind::tcp, pipe, side), kMemory,
          base::Time::max());
    }
    until([&] {
      return ends[0].link->state() == Link::State::up && ends[1].link->state() == Link::State::up;
    });
    for (End& end : ends) end.link->set_payload_max(kMemory);
  }
  ~Ends() {
    for (End& end : ends) end.link->finish(LinkEnd::closed, "the test is over");
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  /// Another pipe between the two.
  std::shared_ptr<Pipe> add(CarrierKind kind) {
    const auto pipe = std::make_shared<Pipe>();
    for (const int side : {0, 1}) {
      ends[static_cast<std::size_t>(side)].link->add(bootstrap(kind, pipe, side),
                                                     base::Time::max());
    }
    pipes.push_back(pipe);
    return pipe;
  }

  /// The same, until both ends have it; bytes in flight elsewhere stay there.
  std::shared_ptr<Pipe> add_and_open(CarrierKind kind) {
    const auto pipe = add(kind);
    constexpr int kRounds = 6;  // of a handshake and the preambles
    for (int round = 0; round < kRounds; ++round) {
      for (const int side : {0, 1}) pipe->arrive(side, 8);
      for (const std::size_t at : {0U, 1U}) pump(at);
    }
    return pipe;
  }

  /// Queues a frame that has its number in it, `size` bytes beside.
  bool send(std::size_t from, std::size_t size, wire::FrameType type = wire::FrameType::delta) {
    base::Bytes payload(sizeof(std::uint64_t) + size, std::byte{7});
    std::memcpy(payload.data(), &ends[from].sent, sizeof(std::uint64_t));
    if (!ends[from].link->send(wire::make_frame(type, {}, payload), wire::Purpose::delta)) {
      return false;
    }
    ++ends[from].sent;
    return true;
  }

  void pump(std::size_t at) {
    End& end = ends[at];
    const Link::Reports reports{
        .frame =
            [&](wire::Frame&& frame, base::Duration) {
              std::uint64_t number = 0;
              std::memcpy(&number, frame.payload().data(), sizeof number);
              BOOST_REQUIRE(number == end.received);
              ++end.received;
            },
        .part = [](std::uint8_t, std::size_t) {},
        .cell = [](CellType, base::ByteView) { return base::Status{}; },
        .lost = [&](CarrierKind, const std::string& why) { end.lost.push_back(why); },
    };
    static_cast<void>(end.link->pump(base::Time{}, reports));
  }

  /// Lets everything arrive until `done`.
  template <class Done>
  void until(Done done) {
    constexpr int kRounds = 20'000;
    for (int round = 0; !done(); ++round) {
      BOOST_REQUIRE(round < kRounds);
      for (const auto& pipe : pipes) {
        for (const int side : {0, 1}) pipe->arrive(side, 4);
      }
      for (const std::size_t at : {0U, 1U}) pump(at);
    }
  }
  void until_all_came() {
    until([&] { return ends[0].received == ends[1].sent && ends[1].received == ends[0].sent; });
  }

  std::array<End, 2> ends;
  std::vector<std::shared_ptr<Pipe>> pipes;

 private:
  std::unique_ptr<Bootstrap> bootstrap(CarrierKind kind, const std::shared_ptr<Pipe>& pipe,
                                       int side) {
    const Role role = side == 0 ? Role::dialer : Role::listener;
    return std::make_unique<Bootstrap>(
        kind, std::make_unique<MemoryCarrier>(pipe, side),
        make_plain_session(role, ends[static_cast<std::size_t>(side)].id), Preamble{});
  }
};

/// A hundred carriers that come and go, at any moment, with data under way.
void move_about(std::uint64_t seed) {
  base::Rng rng(seed);
  Ends ends;
  std::vector<std::shared_ptr<Pipe>> alive = ends.pipes;
  std::vector<std::pair<std::shared_ptr<Pipe>, int>> unnoticed;  // a break, by an end
  const auto notice = [&] {
    for (const auto& [pipe, side] : std::exchange(unnoticed, {})) pipe->break_at(side);
    for (const std::size_t at : {0U, 1U}) ends.pump(at);
  };
  constexpr int kMoves = 100;
  for (int moves = 0; moves < kMoves;) {
    const auto side = static_cast<int>(rng.below(2));
    switch (rng.below(8)) {
      case 0:
      case 1:
        static_cast<void>(ends.send(rng.below(2), rng.below(rng.below(8) == 0 ? 30'000 : 300)));
        break;
      case 2:
      case 3:
        ends.pump(rng.below(2));
        break;
      case 4:
      case 5:
        alive[rng.below(alive.size())]->arrive(side, rng.below(4));
        break;
      case 6:
        if (alive.size() >= 3) break;
        notice();
        alive.push_back(ends.add_and_open(static_cast<CarrierKind>(rng.below(3))));
        ++moves;
        break;
      case 7: {
        if (alive.size() < 2) break;  // a link without any carrier is over
        const auto victim = alive.begin() + static_cast<std::ptrdiff_t>(rng.below(alive.size()));
        (*victim)->break_at(side);
        unnoticed.emplace_back(*victim, 1 - side);
        if (rng.below(2) == 0) notice();
        alive.erase(victim);
        ++moves;
        break;
      }
    }
    for (const auto& end : ends.ends) {
      BOOST_REQUIRE_MESSAGE(end.link->state() == Link::State::up,
                            (end.link->verdict() ? end.link->verdict()->text : "not up"));
    }
  }
  ends.until_all_came();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(links)

BOOST_AUTO_TEST_CASE(a_better_carrier_is_used_as_soon_as_it_is_there) {
  Ends ends;
  BOOST_TEST(to_string(ends.ends[0].link->carrier()) == "tcp");
  BOOST_REQUIRE(ends.send(0, 100'000));
  ends.pump(0);
  ends.add(CarrierKind::ucx);
  ends.until([&] {
    return ends.ends[0].link->carrier() == CarrierKind::ucx &&
           ends.ends[1].link->carrier() == CarrierKind::ucx;
  });
  ends.add_and_open(CarrierKind::circuit);
  BOOST_REQUIRE(ends.send(1, 1000));
  ends.until_all_came();
  BOOST_TEST(ends.ends[0].link->has(CarrierKind::circuit));
  BOOST_TEST(to_string(ends.ends[0].link->carrier()) == "ucx");
}

BOOST_AUTO_TEST_CASE(bytes_under_way_on_a_carrier_that_breaks_go_again_on_another) {
  Ends ends;
  const auto fast = ends.add(CarrierKind::ucx);
  ends.until([&] { return ends.ends[0].link->carrier() == CarrierKind::ucx; });
  BOOST_REQUIRE(ends.send(0, 8UL << 20));  // more than may be under way
  for (int i = 0; i < 20; ++i) {
    ends.pump(0);
    fast->arrive(0, 1);
    ends.pump(1);
  }
  BOOST_TEST(ends.ends[1].received == 0U);
  fast->break_at(0);
  fast->break_at(1);
  ends.until_all_came();
  BOOST_TEST(to_string(ends.ends[0].link->carrier()) == "tcp");
  BOOST_TEST(ends.ends[0].lost.size() == 1U);
}

// Its other end may think for long that all is well: so its bytes are requested again.
BOOST_AUTO_TEST_CASE(a_break_that_one_end_alone_notices_loses_nothing) {
  for (const int side : {0, 1}) {
    Ends ends;
    const auto fast = ends.add(CarrierKind::ucx);
    ends.until([&] {
      return ends.ends[0].link->carrier() == CarrierKind::ucx &&
             ends.ends[1].link->carrier() == CarrierKind::ucx;
    });
    for (int i = 0; i < 10; ++i) {
      BOOST_REQUIRE(ends.send(0, 1000));
      BOOST_REQUIRE(ends.send(1, 1000));
    }
    ends.pump(0);
    ends.pump(1);
    fast->break_at(side);
    ends.until_all_came();
  }
}

BOOST_AUTO_TEST_CASE(the_last_carrier_that_breaks_ends_the_link) {
  Ends ends;
  ends.pipes[0]->break_at(1);
  ends.pump(1);
  BOOST_REQUIRE(ends.ends[1].link->verdict());
  BOOST_TEST((ends.ends[1].link->verdict()->end == LinkEnd::reset));
  BOOST_TEST(ends.ends[1].link->verdict()->text == "the pipe broke");
}

BOOST_AUTO_TEST_CASE(no_more_is_under_way_than_may_go_again) {
  Ends ends;
  ends.pipes[0]->room = 16UL << 20;
  BOOST_REQUIRE(ends.send(0, 4UL << 20));
  for (int i = 0; i < 1000; ++i) ends.pump(0);
  std::size_t sent = 0;
  for (const base::Bytes& data : ends.pipes[0]->from[0].flying) sent += data.size();
  BOOST_TEST(sent >= kWindow);
  BOOST_TEST(sent < kWindow * 101 / 100);
  ends.until_all_came();
}

BOOST_AUTO_TEST_CASE(a_close_comes_after_all_that_was_sent_on_whatever_carrier) {
  Ends ends;
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(ends.send(0, 10'000));
  ends.pump(0);
  ends.add(CarrierKind::ucx);
  ends.until([&] { return ends.ends[0].link->carrier() == CarrierKind::ucx; });
  ends.ends[0].link->close(base::Time::max());
  ends.until([&] { return ends.ends[0].link->gone() && ends.ends[1].link->gone(); });
  BOOST_TEST(ends.ends[1].received == 100U);
  BOOST_TEST((ends.ends[0].link->verdict()->end == LinkEnd::closed));
  BOOST_TEST((ends.ends[1].link->verdict()->end == LinkEnd::closed));
}

// The bytes sent to it are forgotten by then.
BOOST_AUTO_TEST_CASE(who_has_ended_its_stream_and_asks_for_bytes_again_gets_none) {
  Ends ends;
  Pipe& pipe = *ends.pipes[0];
  BOOST_REQUIRE(ends.send(1, 1000));
  ends.pump(1);
  pipe.from[0].arrived.push_back(number_cell(CellType::end, 0));
  ends.pump(1);
  BOOST_REQUIRE(ends.ends[1].link->verdict());
  pipe.from[1].flying.clear();
  pipe.from[0].arrived.push_back(number_cell(CellType::again, 0));
  ends.pump(1);
  BOOST_TEST(pipe.from[1].flying.empty());
  BOOST_TEST((ends.ends[1].link->state() == Link::State::closing));
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_moves_and_breaks_lose_double_and_reorder_no_frame) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) { move_about(seed); }
  }
}

BOOST_AUTO_TEST_SUITE_END()
