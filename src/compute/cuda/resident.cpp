#include "compute/cuda/resident.hpp"

#include <numeric>
#include <utility>

#include "base/assert.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

Result<std::unique_ptr<CudaResident>> CudaResident::create(Runner& runner,
                                                           const Residence& wanted) {
  std::unique_ptr<CudaResident> resident(new CudaResident(runner));
  if (auto reserved = resident->reserve(wanted); !reserved) {
    return fail(reserved.error().in(fmt::format(
        "a replica of {} parameters beside a batch of {} samples (make train.batch smaller, or "
        "train.accumulate larger)",
        runner.parameter_count(), runner.batch())));
  }
  return resident;
}

Status CudaResident::reserve(const Residence& wanted) {
  const std::size_t n = runner_.parameter_count();
  auto replica = DeviceReplica::create(runner_.queue(), n, wanted.mirrors);
  if (!replica) return fail(replica.error());
  replica_ = std::move(*replica);

  std::vector<TensorPlace> places;
  for (const Segment& segment : runner_.layout().segments) {
    places.push_back({segment.host, segment.device, wanted.decays.at(places.size())});
  }
  tensor_count_ = places.size();
  auto reserved = allocate(places.size() * sizeof(TensorPlace), "the places of tensors");
  if (!reserved) return fail(reserved.error());
  places_ = std::move(*reserved);
  const std::span<const TensorPlace> all(places);
  if (auto copied = copy_in(runner_.queue(), places_.get(), all); !copied) return copied;

  for (std::size_t which = 0; which < wanted.states; ++which) {
    reserved = allocate(n * sizeof(float), "the optimizer's state");
    if (!reserved) return fail(reserved.error());
    states_.push_back(std::move(*reserved));
  }
  if (wanted.accumulates) {
    reserved = allocate(gradient_size() * sizeof(float), "the sum of gradients");
    if (!reserved) return fail(reserved.error());
    sum_ = std::move(*reserved);
  }
  squares_.resize((gradient_size() + RowSquares::kRow - 1) / RowSquares::kRow);
  reserved = allocate(squares_.size() * sizeof(double), "the gradient's norm");
  if (!reserved) return fail(reserved.error());
  parts_ = std::move(*reserved);
  return {};
}

Result<Queue::Memory> CudaResident::allocate(std::size_t bytes, const char* what) {
  auto memory = runner_.queue().allocate(bytes, what);
  if (memory) bytes_ += bytes;
  return memory;
}

TensorPlaces CudaResident::tensors() const {
  return {reinterpret_cast<const TensorPlace*>(places_.get()), tensor_count_};
}

float* CudaResident::gradient() const {
  return sum_ ? reinterpret_cast<float*>(sum_.get()) : runner_.gradient();
}

float* CudaResident::state(std::size_t which) const {
  return reinterpret_cast<float*>(states_.at(which).get());
}

std::size_t CudaResident::memory_bytes() const noexcept {
  return bytes_ + replica_->memory_bytes();
}

/// The network's copy of the parameters: y, or with r what x is.
Status CudaResident::spread(const float* r) {
  return runner_.queue().run(KernelWork{
      SpreadParameters{tensors(), replica_->y(), r, runner_.parameters()}, replica_->size()});
}

Result<float> CudaResident::forward_backward(std::span<float> buffers, const Batch& batch,
                                             std::uint64_t seed, Share share, const Batch* next) {
  ASSERT(sum_ || (share.share == 1.0F && !share.add), "the residence was told of several pieces");
  auto done = runner_.begin(batch, buffers, seed);
  if (done) done = spread(nullptr);
  if (done) done = runner_.train();
  if (done && sum_) {
    done = runner_.queue().run(KernelWork{
        AddShare{runner_.gradient(), gradient(), share.share, share.add}, gradient_size()});
  }
  // All of this batch is under way: what follows waits for it.
  if (done && next != nullptr) done = runner_.prepare(*next);
  if (!done) return fail(done.error());
  const auto sums = runner_.totals();
  if (!sums) return fail(sums.error());
  if (done = runner_.copy_out_buffers(buffers); !done) return fail(done.error());
  return mean_loss(*sums);
}

Result<double> CudaResident::gradient_squares() {
  auto* const parts = reinterpret_cast<double*>(parts_.get());
  auto done = runner_.queue().run(KernelWork{RowSquares{gradient(), gradient_size(), parts},
                                             squares_.size(), RowSquares::kRow});
  if (done) done = copy_out(runner_.queue(), parts, std::span(squares_));
  if (!done) return fail(done.error());
  return std::accumulate(squares_.begin(), squares_.end(), 0.0);
}

Status CudaResident::update(const SgdUpdate& by) {
  return runner_.queue().run(
      KernelWork{UpdateSgd{tensors(), by, gradient(), replica_->y(), state(0)}, replica_->size()});
}

Status CudaResident::update(const AdamUpdate& by) {
  return runner_.queue().run(KernelWork{
      UpdateAdam{tensors(), by, gradient(), replica_->y(), state(0), state(1)}, replica_->size()});
}

Status CudaResident::read_state(std::size_t which, std::span<float> to) {
  ASSERT(to.size() == replica_->size());
  return copy_out(runner_.queue(), state(which), to);
}

Status CudaResident::write_state(std::size_t which, std::span<const float> from) {
  ASSERT(from.size() == replica_->size());
  return copy_in(runner_.queue(), state(which), from);
}

Status CudaResident::hold_still() { return spread(replica_->r()); }

Result<Evaluation> CudaResident::evaluate(std::span<const float> buffers, const Batch& batch) {
  auto done = runner_.begin(batch, buffers, 0);
  if (done) done = runner_.evaluate();
  if (!done) return fail(done.error());
  return runner_.totals();
}

Result<std::span<const float>> CudaResident::outputs(std::span<const float> buffers,
                                                     const Batch& batch) {
  auto done = runner_.begin(unlabelled(batch), buffers, 0);
  if (done) done = runner_.evaluate();
  if (!done) return fail(done.error());
  return runner_.outputs();
}

}  // namespace starling::compute::cuda
