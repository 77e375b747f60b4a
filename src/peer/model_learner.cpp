#include "peer/model_learner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.hpp"

namespace starling::peer {

using base::fail;
using base::Result;

namespace {

tl::unexpected<base::Error> no_batch() {
  return fail(base::ErrorCode::internal, "the data thread has stopped");
}

}  // namespace

ModelLearner::ModelLearner(train::Trainer trainer, data::Loader& loader, data::HeldBack held_back,
                           const data::SampleSet& test)
    : trainer_(std::move(trainer)),
      loader_(loader),
      held_back_(std::move(held_back)),
      test_(test) {}

Result<Trained> ModelLearner::step(exchange::Replica& replica, float lr) {
  auto batch = ahead_ ? std::exchange(ahead_, {}) : loader_.next();
  if (!batch) return no_batch();
  if (trainer_.copies_ahead()) ahead_ = loader_.try_next();
  const std::optional<compute::Batch> next = ahead_ ? std::optional(ahead_->view()) : std::nullopt;
  const auto loss = trainer_.step(replica.trained(), replica.buffers().values(), batch->view(), lr,
                                  batch->seed, next ? &*next : nullptr);
  const std::uint32_t samples = batch->count;
  loader_.recycle(std::move(*batch));
  if (!loss) return fail(loss.error());
  return Trained{samples, *loss};
}

Result<BatchGradient> ModelLearner::gradient(exchange::Replica& replica) {
  auto batch = ahead_ ? std::exchange(ahead_, {}) : loader_.next();
  if (!batch) return no_batch();
  const auto loss = trainer_.compute_gradient(replica.trained(), replica.buffers().values(),
                                              batch->view(), batch->seed);
  const std::uint32_t samples = batch->count;
  loader_.recycle(std::move(*batch));
  if (!loss) return fail(loss.error());
  return BatchGradient{{samples, *loss}, trainer_.gradient()};
}

base::Status ModelLearner::apply(exchange::Replica& replica, std::span<const float> gradient,
                                 float lr) {
  ASSERT(gradient.size() == replica.size());
  std::ranges::copy(gradient, trainer_.gradient().begin());
  return trainer_.apply(replica.trained(), lr);
}

base::Status ModelLearner::begin_evaluation(const exchange::Replica& replica,
                                            std::uint32_t samples) {
  const auto read = [&](std::span<float> x) { replica.read(x); };
  if (auto held = trainer_.snapshot(replica.size(), read); !held) return held;
  const std::span<const float> buffers = replica.buffers().values();
  buffers_.assign(buffers.begin(), buffers.end());
  sums_ = {};
  wanted_ = samples == 0 ? test_.size() : std::min(samples, test_.size());
  return {};
}

Result<std::optional<Evaluated>> ModelLearner::evaluate() {
  const std::uint32_t count = std::min(loader_.batch(), wanted_ - sums_.samples);
  test_.fill_spread(sums_.samples, count, wanted_, tested_);
  const auto piece = trainer_.evaluate(buffers_, tested_.view());
  if (!piece) return fail(piece.error());
  sums_.accuracy += piece->accuracy * count;
  sums_.loss += piece->loss * count;
  sums_.samples += count;
  if (sums_.samples < wanted_) return std::nullopt;
  const bool labelled = test_.format().classes != 0;
  return Evaluated{
      .samples = wanted_,
      .whole = wanted_ == test_.size(),
      .accuracy = labelled ? sums_.accuracy / wanted_ : std::numeric_limits<double>::quiet_NaN(),
      .loss = sums_.loss / wanted_};
}

bool ModelLearner::begin_audit(std::uint32_t samples) { return held_back_.next(samples, audited_); }

Result<double> ModelLearner::audit(std::span<const float> x, std::span<const float> buffers) {
  const auto tried = trainer_.evaluate(x, buffers, audited_.view());
  if (!tried) return fail(tried.error());
  return tried->loss;
}

void ModelLearner::set_data(std::vector<std::uint32_t> owned, std::uint32_t batch) {
  held_back_.set_shards(owned);
  loader_.set_shards(std::move(owned));
  loader_.set_batch(batch);
}

}  // namespace starling::peer
