// One GPU's queue: its memory, a stream for work and one for copies ahead of it, and everything
// else to run a plan's work on them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cuda/device/queue.hpp"
#include "cuda/libraries/blas.hpp"
#include "cuda/libraries/dnn.hpp"
#include "cuda/libraries/retry.hpp"

namespace starling::compute::cuda {

/// A list of work runs call by call the first time, so that libraries load what they need; the
/// second time it is recorded, together with the lists in it, and from then on the recording (a
/// CUDA graph) is run. If it cannot be recorded, it still runs call by call, and recorded() says
/// why; if memory was short, only until there is some. With the environment variable
/// STARLING_CUDA_CHECK=1, nothing is recorded, the queue waits for each call, so that an error
/// names its layer, and each call finds its work space full of NaN.
class GpuQueue final : public Queue {
 public:
  /// The queue of GPU number `device`.
  [[nodiscard]] static base::Result<std::unique_ptr<Queue>> create(int device);
  ~GpuQueue() override;
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  base::Result<bool> fuses(const FusedAttention& attention) override;
  base::Result<std::byte*> reserve(std::size_t bytes) override;
  base::Result<std::size_t> add(std::vector<Work> list, std::vector<std::string> names) override;
  std::vector<std::string> plain_ops(std::size_t list) const override;
  base::Status finish() override;
  base::Status run(std::size_t list) override;
  base::Status recorded() const override;
  base::Status run(const KernelWork& work) override;
  base::Result<Memory> allocate(std::size_t bytes, const char* what, Reserve reserve) override;
  base::Status copy_in(std::byte* to, std::size_t bytes, const Fill& fill) override;
  base::Status copy_ahead(std::byte* to, std::size_t bytes, const Fill& fill) override;
  base::Status join() override;
  base::Status copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  base::Status clear(std::byte* to, std::size_t bytes) override;
  base::Status copy_out(const std::byte* from, std::size_t bytes, const Take& take) override;
  std::size_t memory_bytes() const noexcept override { return arena_bytes_ + workspace_bytes_; }

 private:
  using DeviceMemory = std::unique_ptr<void, Freed<cudaFree>>;
  using PinnedMemory = std::unique_ptr<void, Freed<cudaFreeHost>>;
  using Stream = std::unique_ptr<CUstream_st, Freed<cudaStreamDestroy>>;
  using Event = std::unique_ptr<CUevent_st, Freed<cudaEventDestroy>>;
  using Recording = std::unique_ptr<CUgraphExec_st, Freed<cudaGraphExecDestroy>>;

  struct Prepared {
    std::variant<KernelWork, BlasGemm, DnnConvolution, DnnAttention, Clear, Sublist> what;
    std::size_t op = 0;
    bool plain = false;  ///< a kernel, because a library does not support it
  };
  struct List {
    std::vector<Prepared> work;
    std::vector<std::string> names;
    bool warm = false;
    Recording recording;
    base::Status recorded;  ///< or why it could not be recorded
    Retry retry;
  };
  /// Pinned memory for copies; free again once its event has passed.
  struct Stage {
    PinnedMemory memory;
    Event passed;
  };

  /// Two, so that one is filled while the other is copied.
  using Stages = std::array<Stage, 2>;

  explicit GpuQueue(int device) : device_(device) {}

  [[nodiscard]] base::Status open();
  [[nodiscard]] base::Status take_device() const;
  [[nodiscard]] base::Result<DeviceMemory> reserve(std::size_t bytes, const char* what,
                                                   Reserve reserve) const;
  [[nodiscard]] base::Result<Prepared> prepare(const Work& work);
  [[nodiscard]] base::Status run_calls(const List& list);
  void record(List& list);
  [[nodiscard]] base::Result<Recording> make_recording(const List& list);
  [[nodiscard]] base::Status perform(const KernelWork& work);
  [[nodiscard]] base::Status perform(const BlasGemm& gemm);
  [[nodiscard]] base::Status perform(const DnnConvolution& convolution);
  [[nodiscard]] base::Status perform(const DnnAttention& attention);
  [[nodiscard]] base::Status perform(const Clear& clear);
  [[nodiscard]] base::Status perform(const Sublist& sublist);
  [[nodiscard]] base::Status spoil_workspace() const;
  [[nodiscard]] base::Status let_copies_follow();
  [[nodiscard]] static base::Status wait_for(const Event& event, std::string_view what);
  [[nodiscard]] static base::Result<Stream> make_stream();
  [[nodiscard]] static base::Result<Event> make_event();
  [[nodiscard]] static base::Status make(Stages& stages);
  [[nodiscard]] static base::Status copy_in(std::byte* to, std::size_t bytes, const Fill& fill,
                                            const Stages& stages, cudaStream_t stream);

  const int device_;
  bool checking_ = false;
  bool finished_ = false;
  Stream stream_;
  Stages stages_;
  Stream ahead_;         ///< of copies ahead
  Stages ahead_stages_;  ///< for copies ahead
  Event copied_ahead_;   ///< the last of them
  Event copied_;         ///< the last copy within the memory, or clearing of new memory
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Dnn> dnn_;
  DeviceMemory arena_;
  DeviceMemory workspace_;
  std::size_t arena_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::vector<List> lists_;
};

}  // namespace starling::compute::cuda
