#include "starling/peer.hpp"

#include <algorithm>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hasher.hpp"
#include "data/loader.hpp"
#include "data/sample_set.hpp"
#include "delta/format.hpp"
#include "embed/worker.hpp"
#include "io/blocked_signals.hpp"
#include "runfile/run_file.hpp"
#include "runtime/run.hpp"
#include "train/weights.hpp"

namespace starling {
namespace {

using base::ErrorCode;
using base::fail;
using delta::format::kMagnitudeMax;

ErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return ErrorKind::usage;
    case ErrorCode::run_file:
    case ErrorCode::secret:
      return ErrorKind::run_file;
    case ErrorCode::data:
      return ErrorKind::data;
    case ErrorCode::unreachable:
      return ErrorKind::unreachable;
    case ErrorCode::diverged:
      return ErrorKind::diverged;
    case ErrorCode::device:
    case ErrorCode::no_room:
      return ErrorKind::device;
    case ErrorCode::network:
      return ErrorKind::network;
    case ErrorCode::internal:
    case ErrorCode::protocol:
    case ErrorCode::judged_bad:
    case ErrorCode::unsettled:  // of a run that is done: nothing throws it
      break;
  }
  return ErrorKind::internal;
}

[[noreturn]] void raise(const base::Error& error) { throw Error(kind_of(error.code), error.text); }

template <class T>
T value_or_throw(base::Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The tensors one after another; their sizes are checked against `values`. `what` is named in
/// messages.
base::Result<std::vector<compute::Tensor>> lay_out(std::span<const Tensor> tensors,
                                                   std::size_t values, std::string_view what) {
  if (tensors.size() > train::kTensorsMax) {
    return fail(ErrorCode::usage, "{}: are {} tensors, at most {} are accepted", what,
                tensors.size(), train::kTensorsMax);
  }
  std::vector<compute::Tensor> made;
  std::size_t offset = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.shape.size() > train::kTensorRankMax) {
      return fail(ErrorCode::usage, "{}: '{}' needs a name and at most {} dimensions", what,
                  tensor.name, train::kTensorRankMax);
    }
    const std::size_t left = values - offset;
    std::size_t size = left == 0 ? 0 : 1;  // of a shape without sides; 0: does not fit
    for (const std::uint32_t side : tensor.shape) {
      size = side == 0 || size > left / side ? 0 : size * side;
    }
    if (size == 0) {
      return fail(ErrorCode::usage, "{}: the shapes up to '{}' do not fit {} values", what,
                  tensor.name, values);
    }
    made.push_back({.name = tensor.name, .shape = tensor.shape, .offset = offset, .size = size});
    offset += size;
  }
  if (offset != values) {
    return fail(ErrorCode::usage, "{}: the shapes have {} values together, but there are {}", what,
                offset, values);
  }
  return made;
}

base::Status check_values(std::span<const float> values, std::string_view what) {
  for (const float value : values) {
    if (value >= -kMagnitudeMax && value <= kMagnitudeMax) continue;
    return fail(ErrorCode::usage, "{}: {} is not from {} to {}", what, value, -kMagnitudeMax,
                kMagnitudeMax);
  }
  return {};
}

/// The program's buffers for the exchange.
base::Result<exchange::BufferSpec> buffer_spec(std::span<const Buffer> buffers) {
  exchange::BufferSpec spec;
  for (const Buffer& buffer : buffers) {
    if (auto checked = check_values(buffer.initial, buffer.tensor.name); !checked) {
      return fail(checked.error());
    }
    if (buffer.never_negative &&
        std::ranges::any_of(buffer.initial, [](float v) { return v < 0; })) {
      return fail(ErrorCode::usage, "{}: begins with a value below 0", buffer.tensor.name);
    }
    spec.initial.insert(spec.initial.end(), buffer.initial.begin(), buffer.initial.end());
    spec.least.resize(spec.initial.size(), buffer.never_negative ? 0.0F : -kMagnitudeMax);
  }
  return spec;
}

/// XXH3 of everything that peers must agree on to send each other buffers.
std::uint64_t hash_of(std::span<const Buffer> buffers) {
  base::Hasher hasher;
  for (const Buffer& buffer : buffers) {
    const std::string about = fmt::format("[{}] {};", fmt::join(buffer.tensor.shape, ", "),
                                          buffer.never_negative ? "never negative" : "any");
    hasher.update(base::bytes_of(about.data(), about.size()));
    hasher.update(std::as_bytes(std::span(buffer.initial)));
  }
  return hasher.digest();
}

struct Layout {
  std::vector<compute::Tensor> parameters;
  std::vector<compute::Tensor> buffers;
};

/// A checkpoint has all tensors in one file: better refused now than when it is written.
base::Status check_file(const PeerOptions& options, const Layout& layout) {
  auto views = train::tensor_views(layout.parameters, options.parameters);
  for (const Buffer& buffer : options.buffers) {
    views.push_back({buffer.tensor.name, buffer.tensor.shape, std::span(buffer.initial)});
  }
  return train::check_tensors(views);
}

base::Result<Layout> layout_of(const PeerOptions& options) {
  std::vector<Tensor> tensors = options.tensors;
  const std::size_t count = options.parameters.size();
  if (count == 0 || count > compute::kParametersMax) {
    return fail(ErrorCode::usage, "parameters: are {}, from 1 to {} are accepted", count,
                compute::kParametersMax);
  }
  if (tensors.empty()) tensors.push_back({"parameters", {static_cast<std::uint32_t>(count)}});
  auto parameters = lay_out(tensors, count, "parameters");
  if (!parameters) return fail(parameters.error());
  Layout layout{std::move(*parameters), {}};
  for (const Buffer& buffer : options.buffers) {
    auto one = lay_out(std::span(&buffer.tensor, 1), buffer.initial.size(), "buffers");
    if (!one) return fail(one.error());
    one->front().offset =
        layout.buffers.empty() ? 0 : layout.buffers.back().offset + layout.buffers.back().size;
    layout.buffers.push_back(std::move(one->front()));
  }
  const std::size_t values =
      layout.buffers.empty() ? 0 : layout.buffers.back().offset + layout.buffers.back().size;
  if (values > compute::kParametersMax) {
    return fail(ErrorCode::usage, "buffers: are {} values, at most {} are accepted", values,
                compute::kParametersMax);
  }
  if (auto checked = check_file(options, layout); !checked) return fail(checked.error());
  return layout;
}

/// Takes the parameters out of the options.
base::Result<runtime::Task> task_of(PeerOptions& options, const Layout& layout) {
  if (options.samples == 0 || options.samples > data::kSamplesMax) {
    return fail(ErrorCode::usage, "samples: are {}, from 1 to {} are accepted", options.samples,
                data::kSamplesMax);
  }
  if (auto checked = check_values(options.parameters, "parameters"); !checked) {
    return fail(checked.error());
  }
  auto buffers = buffer_spec(options.buffers);
  if (!buffers) return fail(buffers.error());
  const std::string data = fmt::format("{} of {}", options.samples, options.dataset);
  runfile::Identity identity{base::xxh3_128(data),
                             base::xxh3(std::as_bytes(std::span(options.parameters)))};
  if (!options.buffers.empty()) identity.buffers = hash_of(options.buffers);
  return runtime::Task{.parameters = std::move(options.parameters),
                       .buffers = std::move(*buffers),
                       .tensors = layout.parameters,
                       .buffer_tensors = layout.buffers,
                       .identity = identity,
                       .samples = options.samples};
}

}  // namespace

struct Peer::Impl {
  const pid_t process = getpid();  ///< that has the loop's thread
  Layout layout;
  std::unique_ptr<runtime::Run> run;
  std::optional<embed::Worker> worker;
  std::thread loop;
  std::optional<io::NodeEnd> end;  ///< written by the loop's thread; read when it was joined
  std::optional<Summary> summary;

  explicit Impl(PeerOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start(runtime::Task task);
  base::Status make_worker(Evaluate evaluate);
  void fail_with(base::Error error);
  void join();
};

Peer::Impl::Impl(PeerOptions options) : layout(value_or_throw(layout_of(options))) {
  auto task = value_or_throw(task_of(options, layout));
  run = value_or_throw(runtime::Run::open(
      value_or_throw(runfile::read_run_file(options.run_file, options.set, true)),
      {.join = std::move(options.join),
       .listen = std::move(options.listen),
       .announce = std::move(options.announce),
       .proxy = std::move(options.proxy),
       .port_mapping = options.port_mapping,
       .lan = options.lan,
       .name = std::move(options.name),
       .dir = std::move(options.dir),
       .require_peers = options.require_peers,
       .signals = false,
       .quiet = options.quiet}));
  start(std::move(task));
  // If the constructor failed while the thread runs, the thread would end the program.
  try {
    value_or_throw(make_worker(std::move(options.evaluate)));
  } catch (const std::exception& error) {
    fail_with({ErrorCode::internal, error.what()});
    throw;
  }
}

base::Status Peer::Impl::make_worker(Evaluate evaluate) {
  auto replica = run->make_replica();
  if (!replica) return fail(replica.error());
  const runfile::RunFile& run_file = run->run_file();
  data::SampleOrder order(
      run->shards(), data::Loader::peer_seed(run_file.run.seed, run->id(), run->samples_before()));
  worker.emplace(
      run->trainer(), std::move(*replica), std::move(order), run_file.train.batch,
      std::move(evaluate), [this](const peer::Snapshot& snapshot) { return run->save(snapshot); },
      run->steps_before(), run->samples_before());
  return {};
}

Peer::Impl::~Impl() {
  if (loop.joinable()) {
    fail_with({ErrorCode::internal, "the program that trains has ended before the run"});
  }
}

// On the loop's thread from the beginning, because UCX must be called on a single thread. Signals
// belong to the program: its threads take them, not this one.
void Peer::Impl::start(runtime::Task task) {
  std::promise<base::Status> prepared;
  auto ready = prepared.get_future();
  try {
    const io::BlockedSignals blocked;
    loop = std::thread([this, prepared = std::move(prepared), task = std::move(task)]() mutable {
      base::Status status = run->prepare(std::move(task));
      const bool goes_on = status.has_value();
      prepared.set_value(std::move(status));
      if (goes_on) end = run->run();
    });
  } catch (const std::system_error& error) {
    raise({ErrorCode::internal, fmt::format("no thread can be started: {}", error.what())});
  }
  if (const base::Status status = ready.get(); !status) {
    loop.join();
    raise(status.error());
  }
}

void Peer::Impl::fail_with(base::Error error) {
  std::vector<peer::Outcome> outcomes{peer::Failed{std::move(error)}};
  run->trainer().hand_back(outcomes);
  join();
}

// Once the peer has ended, or is about to.
void Peer::Impl::join() {
  if (!loop.joinable()) return;
  loop.join();
  const report::PeerSummary made = run->finish(*end);
  summary = Summary{.left = end->reason == peer::EndReason::left,
                    .steps = made.steps,
                    .samples = made.samples,
                    .exchanges = made.exchanges,
                    .bytes_sent = made.bytes_sent.total,
                    .bytes_received = made.bytes_received.total};
}

Peer::Peer(PeerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

// A child of fork() has neither the loop's thread nor a peer that could end. It has a copy of the
// parent's peer, whose descriptors are also the parent's.
Peer::~Peer() {
  if (impl_->process != getpid()) static_cast<void>(impl_.release());
}

const std::string& Peer::address() const noexcept { return impl_->run->address(); }

const std::string& Peer::dir() const noexcept { return impl_->run->dir(); }

bool Peer::resumed() const noexcept { return impl_->run->checkpoint().has_value(); }

std::span<float> Peer::parameters() noexcept { return impl_->worker->replica().trained(); }

std::span<float> Peer::buffers() noexcept { return impl_->worker->replica().buffers().values(); }

void Peer::read(std::span<float> out) const {
  const exchange::Replica& replica = impl_->worker->replica();
  if (out.size() != replica.size()) {
    throw std::logic_error(fmt::format("starling::Peer::read: {} parameters, but room for {}",
                                       replica.size(), out.size()));
  }
  replica.read(out);
}

std::optional<Step> Peer::next_step() {
  embed::Worker& worker = *impl_->worker;
  if (worker.stepping()) {
    throw std::logic_error("starling::Peer::next_step: the last step is not done");
  }
  if (auto step = worker.next_step()) return step;
  impl_->join();
  const io::NodeEnd& end = *impl_->end;
  if (end.reason == peer::EndReason::failed) {
    const std::string& refusal = impl_->run->refusal();
    raise({end.error.code,
           refusal.empty() ? end.error.text : fmt::format("{}\n{}", end.error.text, refusal)});
  }
  return std::nullopt;
}

void Peer::step_done(float loss) {
  if (!impl_->worker->stepping()) {
    throw std::logic_error("starling::Peer::step_done: no step is under way");
  }
  impl_->worker->step_done(loss);
}

void Peer::leave() { impl_->run->trainer().leave(); }

Summary Peer::summary() const {
  if (!impl_->summary) {
    throw std::logic_error("starling::Peer::summary: the peer has not ended");
  }
  return *impl_->summary;
}

}  // namespace starling
