// A replica in the processor's memory and its twin on a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "checks.hpp"
#include "compute/resident.hpp"
#include "exchange/replica.hpp"
#include "harness.hpp"
#include "tests/unit/compute/networks.hpp"
#include "tests/unit/exchange/replica_pair.hpp"

namespace starling::conformance {

using compute::testing::need;

/// Two dense layers.
inline compute::Graph layers(std::uint32_t inputs, std::uint32_t width) {
  auto builder = need(compute::GraphBuilder::start({inputs}));
  need(builder.linear(width, {}));
  need(builder.linear(2, {}));
  return need(std::move(builder).finish(2));
}

/// A replica in the processor's memory and its twin on the device.
class Twins {
 public:
  Twins(const std::string& device, const compute::Graph& graph, std::vector<float> initial,
        float lambda, exchange::Averaging averaging)
      : program_(compile(device, graph, 1)),
        initial_(std::move(initial)),
        host_(initial_, lambda, {}, averaging),
        moved_(initial_, lambda, {}, averaging) {
    compute::Resident* const resident = need(program_->move_to_device(
        {.mirrors = averaging.mirror, .decays = std::vector<bool>(graph.tensors.size())}));
    BOOST_REQUIRE(resident != nullptr);
    memory_ = &resident->replica();
    moved_.move_to(*memory_);
    need(moved_.status());
  }

  [[nodiscard]] const std::vector<float>& initial() const { return initial_; }

  void both(const std::function<void(exchange::Replica&)>& act) {
    act(host_);
    act(moved_);
    need(moved_.status());
  }

  /// As a step of training does: y changes, and r stays.
  void train(base::Rng& rng, float scale) {
    base::LargeFloats target(initial_.size());
    moved_.read(target);
    for (float& value : target) value += scale * exchange::test::noise(rng);
    set(std::move(target));
  }
  void set(base::LargeFloats target) {
    const auto y = host_.trained();
    const auto from = need(memory_->add_mirror({y.begin(), y.end()}));
    const auto to = need(memory_->add_mirror(std::move(target)));
    const auto nothing = memory_->make_delta();
    const delta::ReplicaMemory::CommitStep step{.mine = from,
                                                .theirs = to,
                                                .own = nothing.get(),
                                                .their = nothing.get(),
                                                .w = 1,
                                                .moves_mirrors = false};
    need(memory_->commit({&step, 1}));
    const auto before = need(memory_->mirror(from));  // which may be narrower
    const auto after = need(memory_->mirror(to));
    for (const auto mirror : {from, to}) memory_->free_mirror(mirror);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += after[i] - before[i];
  }

  /// The same delta from both, with drifts that agree.
  base::Bytes encode(const base::PeerId& to, const delta::Options& options) {
    base::Bytes payloads[2];
    const auto here = need(host_.encode(to, options, payloads[0]));
    const auto there = need(moved_.encode(to, options, payloads[1]));
    BOOST_TEST_REQUIRE((payloads[0] == payloads[1]));
    check_close(Doubles{there}, Doubles{here}, 1.0, "drift", kTolerance);
    return payloads[0];
  }

  void check_same(std::initializer_list<base::PeerId> links) {
    std::vector<float> x[2] = {initial_, initial_};
    host_.read(x[0]);
    moved_.read(x[1]);
    BOOST_TEST(same_bits(x[0], x[1]));
    for (const base::PeerId& link : links) {
      for (const exchange::MirrorOf which :
           {exchange::MirrorOf::mine, exchange::MirrorOf::theirs}) {
        BOOST_TEST(same_bits(host_.mirror(link, which), moved_.mirror(link, which)));
        BOOST_TEST(host_.mirror_hash(link, which) == moved_.mirror_hash(link, which));
      }
    }
    need(moved_.status());
  }

 private:
  std::unique_ptr<compute::Program> program_;
  std::vector<float> initial_;
  exchange::Replica host_;
  exchange::Replica moved_;
  delta::ReplicaMemory* memory_ = nullptr;
};

}  // namespace starling::conformance
