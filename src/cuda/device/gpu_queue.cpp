#include "cuda/device/gpu_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "cuda/kernels/launch.hpp"

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// The size of each of the two pieces of pinned memory: while one is copied, the other is filled. A
/// delta of a million elements takes three pieces, and larger pieces would not copy faster.
constexpr std::size_t kStageBytes = std::size_t{512} << 10;

/// Queue::Reserve: kernels of cuDNN and cuBLAS take a few MB each, recordings of steps some more,
/// and kernels' local memory grows with the first one that needs more of it.
constexpr std::size_t kReserve = std::size_t{256} << 20;

/// A thread that sleeps until an event wakes up to 0.1 ms late, and an exchange waits about five
/// times, no longer than this. So it polls first, and lets other threads run meanwhile. Most steps
/// take longer, and a thread that only polled would keep a processor busy until their end.
constexpr auto kAsking = std::chrono::milliseconds(2);

bool asked_to_check() {
  const char* const value = std::getenv("STARLING_CUDA_CHECK");
  return value != nullptr && std::string_view(value) == "1";
}

/// cudaFree need not wait for work that still uses the memory, and the thread may have another GPU.
void free_unused(std::byte* owned) {
  cudaPointerAttributes about{};
  if (cudaPointerGetAttributes(&about, owned) == cudaSuccess &&
      cudaSetDevice(about.device) == cudaSuccess) {
    static_cast<void>(cudaDeviceSynchronize());
  }
  static_cast<void>(cudaFree(owned));
}

}  // namespace

Result<std::unique_ptr<Queue>> GpuQueue::create(int device) {
  std::unique_ptr<GpuQueue> queue(new GpuQueue(device));
  if (auto opened = queue->open(); !opened) {
    return fail(opened.error().in(fmt::format("cuda:{}", device)));
  }
  return queue;
}

GpuQueue::~GpuQueue() {
  // Nothing may be freed under work that still runs; an error here has been reported before.
  if (!take_device()) return;
  for (const Stream* const stream : {&ahead_, &stream_}) {
    if (*stream) static_cast<void>(cudaStreamSynchronize(stream->get()));
  }
}

Status GpuQueue::open() {
  checking_ = asked_to_check();
  if (auto taken = take_device(); !taken) return taken;
  if (auto loaded = checked(load_kernels(), "loading kernels"); !loaded) return loaded;
  for (Stream* const stream : {&stream_, &ahead_}) {
    auto made = make_stream();
    if (!made) return fail(made.error());
    *stream = std::move(*made);
  }
  for (Event* const event : {&copied_ahead_, &copied_}) {
    auto made = make_event();
    if (!made) return fail(made.error());
    *event = std::move(*made);
  }
  for (Stages* const stages : {&stages_, &ahead_stages_}) {
    if (auto made = make(*stages); !made) return made;
  }
  auto blas = Blas::create();
  if (!blas) return fail(blas.error());
  blas_ = std::make_unique<Blas>(std::move(*blas));
  auto dnn = Dnn::create(stream_.get(), device_);
  if (!dnn) return fail(dnn.error());
  dnn_ = std::make_unique<Dnn>(std::move(*dnn));
  return {};
}

Result<GpuQueue::Stream> GpuQueue::make_stream() {
  cudaStream_t stream = nullptr;
  auto made = checked(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  if (!made) return fail(made.error());
  return Stream(stream);
}

Result<GpuQueue::Event> GpuQueue::make_event() {
  cudaEvent_t event = nullptr;
  auto made =
      checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
              "making an event");
  if (!made) return fail(made.error());
  return Event(event);
}

Status GpuQueue::make(Stages& stages) {
  for (Stage& stage : stages) {
    void* memory = nullptr;
    auto pinned = checked(cudaMallocHost(&memory, kStageBytes), "pinning memory for copies");
    if (!pinned) return pinned;
    stage.memory.reset(memory);
    auto event = make_event();
    if (!event) return fail(event.error());
    stage.passed = std::move(*event);
  }
  return {};
}

// A thread has one current device; another program may have changed it.
Status GpuQueue::take_device() const { return checked(cudaSetDevice(device_), "choosing the GPU"); }

Result<GpuQueue::DeviceMemory> GpuQueue::reserve(std::size_t bytes, const char* what,
                                                 Reserve reserve) const {
  std::size_t free = 0;
  std::size_t total = 0;
  auto asked = checked(cudaMemGetInfo(&free, &total), "asking how much memory is free");
  if (!asked) return fail(asked.error());
  void* memory = nullptr;
  const bool keeps = reserve == Reserve::kept;
  const bool fits = !keeps || free >= bytes + kReserve;
  const cudaError_t answer = fits ? cudaMalloc(&memory, bytes) : cudaErrorMemoryAllocation;
  if (answer == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is told here, not at the next call
    const std::string beside =
        keeps
            ? fmt::format(", beside {} MB that stay free for the libraries' kernels and recordings",
                          kReserve / 1'000'000)
            : "";
    return fail(ErrorCode::no_room, "cuda:{} has {} of {} MB free, and {} MB are needed for {}{}",
                device_, free / 1'000'000, total / 1'000'000, bytes / 1'000'000, what, beside);
  }
  if (auto done = checked(answer, "reserving memory"); !done) return fail(done.error());
  return DeviceMemory(memory);
}

Result<bool> GpuQueue::fuses(const FusedAttention& attention) {
  if (auto taken = take_device(); !taken) return fail(taken.error());
  const auto prepared = dnn_->prepare(attention);
  if (!prepared) return fail(prepared.error());
  return prepared->has_value();
}

Result<std::byte*> GpuQueue::reserve(std::size_t bytes) {
  if (auto taken = take_device(); !taken) return fail(taken.error());
  auto memory = reserve(bytes, "parameters and activations", Reserve::used);
  if (!memory) return fail(memory.error());
  auto* const arena = static_cast<std::byte*>(memory->get());
  if (auto cleared = clear(arena, bytes); !cleared) return fail(cleared.error());
  arena_ = std::move(*memory);
  arena_bytes_ = bytes;
  return arena;
}

Result<Queue::Memory> GpuQueue::allocate(std::size_t bytes, const char* what, Reserve reserve) {
  if (auto taken = take_device(); !taken) return fail(taken.error());
  auto reserved = this->reserve(bytes, what, reserve);
  if (!reserved) return fail(reserved.error());
  Memory memory(static_cast<std::byte*>(reserved->release()), free_unused);
  auto cleared = clear(memory.get(), bytes);
  if (cleared) cleared = let_copies_follow();
  if (!cleared) return fail(cleared.error());
  return memory;
}

// Copies ahead from now on come after the work that the stream was given so far.
Status GpuQueue::let_copies_follow() {
  return checked(cudaEventRecord(copied_.get(), stream_.get()), "recording an event");
}

Status GpuQueue::wait_for(const Event& event, std::string_view what) {
  cudaError_t answer = cudaEventQuery(event.get());
  const auto until = std::chrono::steady_clock::now() + kAsking;
  while (answer == cudaErrorNotReady && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    answer = cudaEventQuery(event.get());
  }
  if (answer == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // CUDA counts it as an error
    answer = cudaEventSynchronize(event.get());
  }
  return checked(answer, what);
}

Result<std::size_t> GpuQueue::add(std::vector<Work> list, std::vector<std::string> names) {
  if (auto taken = take_device(); !taken) return fail(taken.error());
  List made{.names = std::move(names)};
  for (const Work& work : list) {
    auto prepared = prepare(work);
    if (!prepared) return fail(prepared.error().in(made.names[work.op]));
    made.work.push_back(std::move(*prepared));
  }
  lists_.push_back(std::move(made));
  return lists_.size() - 1;
}

Result<GpuQueue::Prepared> GpuQueue::prepare(const Work& work) {
  if (const auto* kernel = std::get_if<KernelWork>(&work.what)) return Prepared{*kernel, work.op};
  if (const auto* clear = std::get_if<Clear>(&work.what)) return Prepared{*clear, work.op};
  if (const auto* sublist = std::get_if<Sublist>(&work.what)) return Prepared{*sublist, work.op};
  ASSERT(!finished_, "the work space is reserved");
  if (const auto* gemm = std::get_if<Gemm>(&work.what)) {
    auto prepared = blas_->prepare(*gemm);
    if (!prepared) return fail(prepared.error());
    workspace_bytes_ = std::max(workspace_bytes_, prepared->workspace);
    return Prepared{std::move(*prepared), work.op};
  }
  if (const auto* attention = std::get_if<FusedAttention>(&work.what)) {
    auto prepared = dnn_->prepare(*attention);
    if (!prepared) return fail(prepared.error());
    ASSERT(*prepared, "fuses() has said that there is an engine");
    workspace_bytes_ = std::max(workspace_bytes_, (*prepared)->workspace);
    return Prepared{std::move(**prepared), work.op};
  }
  const Convolution& convolution = std::get<Convolution>(work.what);
  auto prepared = dnn_->prepare(convolution);
  if (!prepared) return fail(prepared.error());
  if (!*prepared) return Prepared{plain(convolution), work.op, true};
  workspace_bytes_ = std::max(workspace_bytes_, (*prepared)->workspace);
  return Prepared{std::move(**prepared), work.op};
}

std::vector<std::string> GpuQueue::plain_ops(std::size_t list) const {
  std::vector<std::string> names;
  for (const Prepared& item : lists_[list].work) {
    const std::string& name = lists_[list].names[item.op];
    if (item.plain && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

Status GpuQueue::finish() {
  finished_ = true;
  if (workspace_bytes_ == 0) return {};
  if (auto taken = take_device(); !taken) return taken;
  auto memory = reserve(workspace_bytes_, "work space of products, convolutions and attention",
                        Reserve::used);
  if (!memory) return fail(memory.error());
  workspace_ = std::move(*memory);
  return {};
}

Status GpuQueue::run(std::size_t number) {
  if (auto taken = take_device(); !taken) return taken;
  List& list = lists_[number];
  if (checking_) return run_calls(list);
  if (!list.warm) {
    list.warm = true;
    return run_calls(list);
  }
  if (!list.recording) record(list);
  if (!list.recording) return run_calls(list);
  return checked(cudaGraphLaunch(list.recording.get(), stream_.get()), "running a recorded step");
}

// A library's call that cannot be recorded never can; but memory may become available.
void GpuQueue::record(List& list) {
  const bool is_final = !list.recorded && list.recorded.error().code != ErrorCode::no_room;
  if (is_final || !list.retry.is_due()) return;
  auto made = make_recording(list);
  if (made) {
    list.recording = std::move(*made);
    list.recorded = {};
  } else {
    list.recorded = fail(made.error());
    list.retry.failed();
  }
}

Status GpuQueue::recorded() const {
  const auto failed = std::ranges::find_if(lists_, [](const List& list) { return !list.recorded; });
  return failed == lists_.end() ? Status{} : failed->recorded;
}

Status GpuQueue::run(const KernelWork& work) {
  if (auto taken = take_device(); !taken) return taken;
  auto done = perform(work);
  if (done && checking_) done = checked(cudaStreamSynchronize(stream_.get()), "waiting for it");
  return done;
}

Status GpuQueue::run_calls(const List& list) {
  for (const Prepared& item : list.work) {
    auto done = std::visit([this](const auto& what) { return perform(what); }, item.what);
    if (done && checking_) done = checked(cudaStreamSynchronize(stream_.get()), "waiting for it");
    if (!done) return fail(done.error().in(list.names[item.op]));
  }
  return {};
}

// With all memory that it needs to run. Error no_room: there was too little.
Result<GpuQueue::Recording> GpuQueue::make_recording(const List& list) {
  auto done = checked(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
                      "recording a step");
  if (!done) return fail(done.error());
  done = run_calls(list);
  cudaGraph_t raw = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &raw);
  const std::unique_ptr<CUgraph_st, Freed<cudaGraphDestroy>> graph(raw);
  if (done) done = checked(ended, "the end of recording a step");
  if (!done) return fail(done.error());
  cudaGraphExec_t made = nullptr;
  cudaError_t answer = cudaGraphInstantiate(&made, graph.get(), 0);
  Recording recording(made);
  if (answer == cudaSuccess) answer = cudaGraphUpload(made, stream_.get());
  if (auto prepared = checked(answer, "preparing a recorded step"); !prepared) {
    if (answer == cudaErrorMemoryAllocation) prepared.error().code = ErrorCode::no_room;
    return fail(prepared.error());
  }
  return recording;
}

Status GpuQueue::perform(const KernelWork& work) {
  return checked(launch(work, stream_.get()), "starting a kernel");
}

Status GpuQueue::perform(const BlasGemm& gemm) {
  auto done = spoil_workspace();
  if (done) done = blas_->run(gemm, workspace_.get(), stream_.get());
  return done && gemm.rest ? perform(*gemm.rest) : done;
}

Status GpuQueue::perform(const DnnConvolution& convolution) {
  auto done = spoil_workspace();
  return done ? dnn_->run(convolution, workspace_.get()) : done;
}

Status GpuQueue::perform(const DnnAttention& attention) {
  auto done = spoil_workspace();
  return done ? dnn_->run(attention, workspace_.get()) : done;
}

// If calls are checked, a call that reads what it has not written there should show.
Status GpuQueue::spoil_workspace() const {
  if (!checking_ || workspace_bytes_ == 0) return {};
  return checked(cudaMemsetAsync(workspace_.get(), 0xff, workspace_bytes_, stream_.get()),
                 "filling the work space");
}

Status GpuQueue::perform(const Clear& clear) {
  return checked(cudaMemsetAsync(clear.to, 0, clear.count * sizeof(float), stream_.get()),
                 "clearing memory");
}

Status GpuQueue::perform(const Sublist& sublist) { return run_calls(lists_[sublist.list]); }

Status GpuQueue::copy_in(std::byte* to, std::size_t bytes, const Fill& fill) {
  if (auto taken = take_device(); !taken) return taken;
  return copy_in(to, bytes, fill, stages_, stream_.get());
}

Status GpuQueue::copy_in(std::byte* to, std::size_t bytes, const Fill& fill, const Stages& stages,
                         cudaStream_t stream) {
  for (std::size_t offset = 0, part = 0; offset < bytes; offset += kStageBytes, ++part) {
    const std::size_t size = std::min(kStageBytes, bytes - offset);
    const Stage& stage = stages[part % stages.size()];
    auto* const memory = static_cast<std::byte*>(stage.memory.get());
    // Earlier copies from here, by this call or another, have arrived.
    auto done = wait_for(stage.passed, "copying to the GPU");
    if (!done) return done;
    fill(offset, {memory, size});
    done = checked(cudaMemcpyAsync(to + offset, memory, size, cudaMemcpyHostToDevice, stream),
                   "copying to the GPU");
    if (done) done = checked(cudaEventRecord(stage.passed.get(), stream), "copying to the GPU");
    if (!done) return done;
  }
  return {};
}

Status GpuQueue::copy_ahead(std::byte* to, std::size_t bytes, const Fill& fill) {
  if (auto taken = take_device(); !taken) return taken;
  auto done = checked(cudaStreamWaitEvent(ahead_.get(), copied_.get(), 0), "copying ahead");
  if (done) done = copy_in(to, bytes, fill, ahead_stages_, ahead_.get());
  if (done) done = checked(cudaEventRecord(copied_ahead_.get(), ahead_.get()), "copying ahead");
  return done;
}

Status GpuQueue::join() {
  if (auto taken = take_device(); !taken) return taken;
  return checked(cudaStreamWaitEvent(stream_.get(), copied_ahead_.get(), 0), "joining copies");
}

Status GpuQueue::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (auto taken = take_device(); !taken) return taken;
  auto done = checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()),
                      "copying on the GPU");
  return done ? let_copies_follow() : done;
}

Status GpuQueue::clear(std::byte* to, std::size_t bytes) {
  if (auto taken = take_device(); !taken) return taken;
  return checked(cudaMemsetAsync(to, 0, bytes, stream_.get()), "clearing memory");
}

Status GpuQueue::copy_out(const std::byte* from, std::size_t bytes, const Take& take) {
  if (auto taken = take_device(); !taken) return taken;
  const auto memory_of = [this](std::size_t part) {
    return static_cast<std::byte*>(stages_[part % stages_.size()].memory.get());
  };
  const auto start = [&](std::size_t part) -> Status {
    const std::size_t offset = part * kStageBytes;
    if (offset >= bytes) return {};
    const std::size_t size = std::min(kStageBytes, bytes - offset);
    auto done = checked(cudaMemcpyAsync(memory_of(part), from + offset, size,
                                        cudaMemcpyDeviceToHost, stream_.get()),
                        "copying from the GPU");
    if (!done) return done;
    return checked(cudaEventRecord(stages_[part % stages_.size()].passed.get(), stream_.get()),
                   "copying from the GPU");
  };
  if (auto started = start(0); !started) return started;
  for (std::size_t part = 0; part * kStageBytes < bytes; ++part) {
    if (auto started = start(part + 1); !started) return started;
    auto done = wait_for(stages_[part % stages_.size()].passed, "waiting for the GPU");
    if (!done) return done;
    const std::size_t offset = part * kStageBytes;
    take(offset, {memory_of(part), std::min(kStageBytes, bytes - offset)});
  }
  return {};
}

}  // namespace starling::compute::cuda
