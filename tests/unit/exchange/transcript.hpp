// One protocol core, fed with events by hand; what it does comes back as lines of text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "exchange/core.hpp"

/// Whether the lines that `got` gives are the others.
#define TEST_LINES(got, ...)                                            \
  BOOST_TEST((got) == (::starling::exchange::test::Lines{__VA_ARGS__}), \
             boost::test_tools::per_element())

namespace starling::exchange::test {

using Lines = std::vector<std::string>;

[[nodiscard]] base::PeerId peer_named(char name);

/// One line an action, such as "a: link open", "a: delta 1 of 2", "a: run encode 2 at 4" or
/// "a: run commit 1 w 0.5".
[[nodiscard]] std::string line_of(const Action& action);
[[nodiscard]] Lines lines_of(const Outbox& out);

class Transcript {
 public:
  explicit Transcript(const Options& options)
      : held(std::make_unique<Core>(options, base::Rng(1))), core(*held) {}

  /// The actions that an event caused.
  Lines on(Event event);
  Lines expire();

  // Events in short.
  Lines up(char peer) { return on(NeighbourUp{peer_named(peer)}); }
  Lines down(char peer, bool for_good = false) {
    return on(NeighbourDown{peer_named(peer), for_good});
  }
  Lines link_open(char peer, wire::LinkOpen message) {
    return on(Received{peer_named(peer), message});
  }
  Lines delta(char peer, std::uint64_t t, std::uint16_t degree = 1, bool settled = false);
  Lines keyframe(char peer) {
    return on(Received{peer_named(peer), wire::Keyframe{.samples = 0, .payload = {}}});
  }
  Lines step(std::uint64_t step, double progress = 0.0);
  /// Settling begins where no neighbour wants a tree.
  Lines settle_without_tree();

  /// The outcomes of the jobs that were asked for last, of the kind named.
  Lines encoded(double drift = 0.1, base::Status status = {});
  Lines skipped();
  Lines committed(CommitResult result = CommitResult::applied,
                  base::ErrorCode code = base::ErrorCode::protocol);
  Lines keyframe_made();
  Lines opened(base::Status status = {});

  /// up, both LinkOpens with no progress, and the mirrors set.
  Lines open_fresh(char peer);

  std::unique_ptr<Core> held;  ///< a core stays where it is, a transcript may move
  Core& core;
  base::Time now{};
  std::uint64_t steps = 0;
  base::Duration took{};  ///< of each encode and commit
  Outbox last;            ///< the actions of the last event
  std::optional<wire::LinkOpen> said;
  std::optional<wire::Delta> sent;
  std::optional<EncodeJob> encode;
  std::optional<CommitJob> commit;
  std::optional<KeyframeJob> make_keyframe;
  std::optional<OpenJob> open;

 private:
  Lines lines();
};

/// The core's options in these tests: every second step, a hash every 100 exchanges.
[[nodiscard]] inline Options plain_options() {
  Options options{.elements = 1000, .samples_target = 1'000'000};
  options.config.hash_every = 100;
  return options;
}

}  // namespace starling::exchange::test
