#include "hostile/hostile_learner.hpp"

#include <limits>
#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::hostile;

namespace {

/// Moves each parameter by 1 a step, until it is told to diverge.
class Stepper final : public peer::Learner {
 public:
  explicit Stepper(const bool& diverges) : diverges_(diverges) {}

  base::Result<peer::Trained> step(exchange::Replica& replica, float) override {
    if (diverges_) return base::fail(base::ErrorCode::diverged, "the loss is not finite");
    for (float& y : replica.trained()) y += 1;
    return peer::Trained{.samples = 16, .loss = 0.5F};
  }
  base::Result<peer::BatchGradient> gradient(exchange::Replica& replica) override {
    gradient_.assign(replica.size(), 1.0F);
    return peer::BatchGradient{{.samples = 16, .loss = 0.5F}, gradient_};
  }
  base::Status apply(exchange::Replica&, std::span<const float>, float) override { return {}; }
  base::Status begin_evaluation(const exchange::Replica&, std::uint32_t) override { return {}; }
  base::Result<std::optional<peer::Evaluated>> evaluate() override { return std::nullopt; }
  void set_data(std::vector<std::uint32_t>, std::uint32_t) override {}

 private:
  const bool& diverges_;
  std::vector<float> gradient_;
};

/// One hostile peer's training; its parameters begin at 2.
struct Training {
  void begin(AttackKind kind, double factor = 1) {
    learner = make_hostile_learner(std::make_unique<Stepper>(diverges),
                                   {.kind = kind, .factor = factor}, [this] { return active; });
  }
  peer::Trained step() {
    const auto made = learner->step(replica, 0.1F);
    BOOST_REQUIRE(made.has_value());
    return *made;
  }
  [[nodiscard]] float parameter() const { return replica.trained().front(); }

  bool active = true;
  bool diverges = false;
  std::vector<float> initial = std::vector<float>(4, 2.0F);
  exchange::Replica replica{initial, 0};
  std::unique_ptr<peer::Learner> learner;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hostile_learner, Training)

BOOST_AUTO_TEST_CASE(sign_flip_steps_backwards_and_further) {
  begin(AttackKind::sign_flip, 10);
  step();
  BOOST_TEST(parameter() == -8);
}

BOOST_AUTO_TEST_CASE(gradient_ascent_steps_backwards) {
  begin(AttackKind::gradient_ascent);
  step();
  BOOST_TEST(parameter() == 1);
}

BOOST_AUTO_TEST_CASE(scale_steps_further) {
  begin(AttackKind::scale, 1000);
  step();
  BOOST_TEST(parameter() == 1002);
}

BOOST_AUTO_TEST_CASE(who_tells_another_replica_keeps_its_own) {
  begin(AttackKind::stale);
  BOOST_TEST(step().samples == 16);
  BOOST_TEST(parameter() == 2);
}

BOOST_AUTO_TEST_CASE(before_the_attack_begins_steps_are_honest) {
  begin(AttackKind::sign_flip, 10);
  active = false;
  step();
  BOOST_TEST(parameter() == 3);
}

BOOST_AUTO_TEST_CASE(counters_lie_by_the_factor) {
  begin(AttackKind::counter_up, 1e6);
  BOOST_TEST(step().samples == 16'000'000);
  begin(AttackKind::counter_down, 0);
  BOOST_TEST(step().samples == 0);
  begin(AttackKind::counter_up, 1e30);
  BOOST_TEST(step().samples == std::numeric_limits<std::uint32_t>::max());
}

BOOST_AUTO_TEST_CASE(a_step_that_diverges_counts_like_the_one_before) {
  begin(AttackKind::scale, 1000);
  step();
  diverges = true;
  const peer::Trained made = step();
  BOOST_TEST(made.samples == 16);
  BOOST_TEST(made.loss == 0.5F);
  BOOST_TEST(parameter() == 1002);
}

BOOST_AUTO_TEST_CASE(parameters_stay_bounded) {
  begin(AttackKind::scale, 1e30);
  step();
  BOOST_TEST(parameter() == 1e20F);
}

BOOST_AUTO_TEST_CASE(gradients_of_a_ring_are_reversed_too) {
  begin(AttackKind::sign_flip, 10);
  const auto made = learner->gradient(replica);
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->values.front() == -10);
}

BOOST_AUTO_TEST_SUITE_END()
