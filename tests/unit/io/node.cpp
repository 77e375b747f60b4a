#include "io/node.hpp"

#include <future>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "../peer/world.hpp"
#include "harness.hpp"
#include "io/record_signer.hpp"
#include "membership/record.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A node with its own loop and thread that waits for a link before its first step, and that has no
/// trainer.
class WaitingNode {
 public:
  explicit WaitingNode(const peer::testing::Problem& problem)
      : config(peer::testing::config_for(problem, exchange::Mode::tracked)),
        thread_([this, &problem] { run(problem); }) {
    address = opened_.get_future().get();
  }
  WaitingNode(const WaitingNode&) = delete;
  WaitingNode& operator=(const WaitingNode&) = delete;
  ~WaitingNode() { port_->leave(); }

  peer::Config config;
  std::string address;

 private:
  void run(const peer::testing::Problem& problem) {
    const Identity identity = std::move(Identity::generate().value());
    RecordSigner signer(identity);
    Node::Options options;
    options.transport.listen = "127.0.0.1:0";
    options.observer = {.note = [](base::Severity, const std::string&) {},
                        .report = [](const peer::Status&, const peer::Report&) {},
                        .remember = [](const std::vector<std::string>&) {},
                        .refused = [](const peer::Refused&) {}};
    options.signals = false;
    const auto node = std::move(Node::create(identity, std::move(options)).value());
    const wire::MemberRecord self{
        .id = identity.id(), .name = "waiting", .addresses = {node->address()}, .incarnation = 1};
    config.membership.wait_timeout = std::chrono::hours(1);
    auto core = std::make_unique<peer::Core>(config, self, problem.shards, peer::Resume{}, signer,
                                             base::Rng(1));
    port_ = &node->trainer();
    opened_.set_value(node->address());
    static_cast<void>(node->run(std::move(core)));
  }

  std::promise<std::string> opened_;
  TrainerPort* port_ = nullptr;
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace

BOOST_AUTO_TEST_SUITE(node)

BOOST_AUTO_TEST_CASE(who_sends_what_cannot_be_read_is_told_so_and_then_turned_away) {
  const peer::testing::Problem problem(51);
  Loop loop = make_loop();
  Endpoint rogue(loop);
  WaitingNode node(problem);
  std::vector<wire::Message> heard;
  rogue.when_frame = [&](base::LinkId, wire::Frame&& frame) {
    heard.push_back(std::move(*wire::decode(std::move(frame)).value()));
  };
  wire::Hello hello{.run = node.config.run, .parameters_hash = node.config.parameters_hash};
  hello.self = {.id = rogue.identity.id(),
                .name = "rogue",
                .addresses = {"192.0.2.1:1"},  // no peer is there
                .incarnation = 1};
  RecordSigner signer(rogue.identity);
  membership::sign(hello.self, signer);
  const auto link_up = [&] {
    const std::size_t before = rogue.ups.size();
    static_cast<void>(rogue.transport->dial(node.address));
    BOOST_REQUIRE(run_until(loop, [&] { return rogue.ups.size() > before; }));
    heard.clear();
    BOOST_REQUIRE(rogue.transport->send(rogue.ups.back().link, wire::encode(wire::Message(hello)),
                                        wire::Purpose::other));
  };
  const auto says_goodbye = [&] {
    const auto* bye = heard.empty() ? nullptr : std::get_if<wire::Bye>(&heard.back());
    return bye != nullptr && bye->reason == wire::ByeReason::misbehaved;
  };
  link_up();
  const wire::Message request = wire::Neighbour{wire::NeighbourKind::request};
  const base::LinkId link = rogue.ups.back().link;
  BOOST_REQUIRE(rogue.transport->send(link, wire::encode(request), wire::Purpose::other));
  BOOST_REQUIRE(run_until(loop, [&] {
    return std::ranges::any_of(heard, [](const wire::Message& message) {
      const auto* answer = std::get_if<wire::Neighbour>(&message);
      return answer != nullptr && answer->kind == wire::NeighbourKind::accept;
    });
  }));
  BOOST_REQUIRE(rogue.transport->send(link, frame_of(16), wire::Purpose::delta));
  BOOST_REQUIRE(run_until(loop, [&] { return !rogue.downs.empty(); }));
  BOOST_TEST((rogue.downs[0].end == LinkEnd::closed));  // and no reset, which would be suspicious
  BOOST_TEST(says_goodbye());

  link_up();
  BOOST_REQUIRE(run_until(loop, [&] { return rogue.downs.size() == 2; }));
  BOOST_TEST(says_goodbye());
}

BOOST_AUTO_TEST_SUITE_END()
