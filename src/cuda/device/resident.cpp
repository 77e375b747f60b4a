#include "cuda/device/resident.hpp"

#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/integer.hpp"

namespace starling::compute::cuda {

using base::fail;
using base::Result;
using base::Status;

namespace {

/// A list of work, each with its name.
struct NamedWork {
  std::vector<Work> list;
  std::vector<std::string> names;

  void add(std::string name, const decltype(Work::what)& what) {
    list.push_back({what, names.size()});
    names.push_back(std::move(name));
  }
};

}  // namespace

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

  return wanted.update == UpdateKind::none ? Status{} : reserve_training(wanted);
}

Status CudaResident::reserve_training(const Residence& wanted) {
  const std::size_t states = wanted.update == UpdateKind::adamw ? 2 : 1;
  for (std::size_t which = 0; which < states; ++which) {
    auto reserved = allocate(replica_->size() * sizeof(float), "the optimizer's state");
    if (!reserved) return fail(reserved.error());
    states_.push_back(std::move(*reserved));
  }
  if (wanted.accumulates) {
    auto reserved = allocate(gradient_size() * sizeof(float), "the sum of gradients");
    if (!reserved) return fail(reserved.error());
    sum_ = std::move(*reserved);
  }
  auto squares = allocate(gradient_rows() * sizeof(double), "the gradient's norm");
  if (!squares) return fail(squares.error());
  squares_ = std::move(*squares);
  auto figures = allocate(sizeof(StepFigures), "a step's figures");
  if (!figures) return fail(figures.error());
  figures_ = std::move(*figures);
  return add_lists(wanted.update);
}

// All addresses are known, and do not change; values that change from step to step are read from
// memory.
Status CudaResident::add_lists(UpdateKind kind) {
  Queue& queue = runner_.queue();
  const StepState* const step = runner_.step_on_device();
  NamedWork piece;
  piece.add("the parameters", spread_work(nullptr));
  piece.add("the network", Sublist{runner_.lists().training});
  if (sum_) {
    piece.add("the sum of gradients",
              KernelWork{AddShare{step, runner_.gradient(), gradient()}, gradient_size()});
  }
  piece.add("the mean loss",
            KernelWork{
                AddLoss{step, runner_.totals_on_device(), runner_.terms_a_sample(), figures()}, 1});
  const auto piece_list = queue.add(std::move(piece.list), std::move(piece.names));
  if (!piece_list) return fail(piece_list.error());

  auto* const squares = reinterpret_cast<double*>(squares_.get());
  NamedWork whole;
  whole.add("a piece", Sublist{*piece_list});
  whole.add("the gradient's squares", KernelWork{RowSquares{gradient(), gradient_size(), squares},
                                                 gradient_rows(), RowSquares::kRow});
  whole.add("the gradient's norm",
            KernelWork{FinishNorm{step, squares, gradient_rows(), figures()}, 1, gradient_rows()});
  whole.add("the update", update_work(kind));
  const auto step_list = queue.add(std::move(whole.list), std::move(whole.names));
  if (!step_list) return fail(step_list.error());
  lists_ = Lists{*piece_list, *step_list};
  return {};
}

Result<Queue::Memory> CudaResident::allocate(std::size_t bytes, const char* what) {
  auto memory = runner_.queue().allocate(bytes, what, Queue::Reserve::kept);
  if (memory) bytes_ += bytes;
  return memory;
}

TensorPlaces CudaResident::tensors() const {
  return {reinterpret_cast<const TensorPlace*>(places_.get()), tensor_count_, replica_->size()};
}

float* CudaResident::gradient() const {
  return sum_ ? reinterpret_cast<float*>(sum_.get()) : runner_.gradient();
}

// The rows of RowSquares.
std::size_t CudaResident::gradient_rows() const {
  return base::ceil_div(gradient_size(), RowSquares::kRow);
}

float* CudaResident::state(std::size_t which) const {
  return reinterpret_cast<float*>(states_.at(which).get());
}

std::size_t CudaResident::memory_bytes() const noexcept {
  return bytes_ + replica_->memory_bytes();
}

StepFigures* CudaResident::figures() const {
  return reinterpret_cast<StepFigures*>(figures_.get());
}

// The network's copy of the parameters: y, or x if r is given.
KernelWork CudaResident::spread_work(const float* r) const {
  return {SpreadParameters{tensors(), replica_->y(), r, runner_.parameters()}, replica_->size()};
}

KernelWork CudaResident::update_work(UpdateKind kind) const {
  const StepState* const step = runner_.step_on_device();
  if (kind == UpdateKind::sgd) {
    return {UpdateSgd{tensors(), step, figures(), gradient(), replica_->y(), state(0)},
            replica_->size()};
  }
  return {UpdateAdam{tensors(), step, figures(), gradient(), replica_->y(), state(0), state(1)},
          replica_->size()};
}

Result<StepResult> CudaResident::step(std::span<float> buffers, std::span<const Piece> pieces,
                                      const Update& update, const Batch* next) {
  ASSERT(lists_ && !pieces.empty());
  ASSERT(sum_ || (pieces.size() == 1 && pieces[0].share == 1.0F),
         "the residence was told of several pieces");
  auto done = runner_.copy_in_buffers(buffers);
  for (std::size_t i = 0; done && i < pieces.size(); ++i) {
    const auto& [batch, share, seed] = pieces[i];
    const bool is_last = i + 1 == pieces.size();
    done = runner_.begin(batch, {.seed = seed, .share = share, .add = i > 0, .update = update});
    if (done) done = runner_.queue().run(is_last ? lists_->step : lists_->piece);
    // All of this piece is under way: the next copies wait for it.
    const Batch* const following = is_last ? next : &pieces[i + 1].batch;
    if (done && following != nullptr) done = runner_.prepare(*following);
  }
  StepFigures figures;
  if (done) done = copy_out(runner_.queue(), figures_.get(), std::span(&figures, 1));
  if (done) done = runner_.copy_out_buffers(buffers);
  if (!done) return fail(done.error());
  return StepResult{.loss = figures.loss, .squares = figures.squares};
}

Status CudaResident::read_state(std::size_t which, std::span<float> to) {
  ASSERT(to.size() == replica_->size());
  return copy_out(runner_.queue(), state(which), to);
}

Status CudaResident::write_state(std::size_t which, std::span<const float> from) {
  ASSERT(from.size() == replica_->size());
  return copy_in(runner_.queue(), state(which), from);
}

Status CudaResident::snapshot() { return runner_.queue().run(spread_work(replica_->r())); }

Status CudaResident::run_evaluation(std::span<const float> buffers, const Batch& batch) {
  auto done = runner_.begin(batch, {});
  if (done) done = runner_.copy_in_buffers(buffers);
  return done ? runner_.evaluate() : done;
}

Result<Evaluation> CudaResident::evaluate(std::span<const float> buffers, const Batch& batch) {
  if (auto ran = run_evaluation(buffers, batch); !ran) return fail(ran.error());
  return runner_.totals();
}

Result<std::span<const float>> CudaResident::outputs(std::span<const float> buffers,
                                                     const Batch& batch) {
  if (auto ran = run_evaluation(buffers, unlabelled(batch)); !ran) return fail(ran.error());
  return runner_.outputs();
}

}  // namespace starling::compute::cuda
