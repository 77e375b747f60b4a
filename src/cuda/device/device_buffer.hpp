// Memory of a queue that grows with what it is used for.
#pragma once

#include <cstddef>
#include <utility>

#include "cuda/device/queue.hpp"

namespace starling::compute::cuda {

/// Has no memory at first, and gives it back at its end. Used on the queue's thread.
class DeviceBuffer {
 public:
  /// `what` says for errors what needs it; both outlive it.
  DeviceBuffer(Queue& queue, const char* what) : queue_(&queue), what_(what) {}

  /// Has this many bytes at least from now on; what was there may be gone. On failure as many as
  /// before.
  [[nodiscard]] base::Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return {};
    const std::size_t had = bytes_;
    free();                                 // before more is asked for
    std::size_t taken = bytes + bytes / 2;  // for what is a little larger
    auto memory = queue_->allocate(taken, what_, Queue::Reserve::kept);
    if (!memory) {
      taken = bytes;
      memory = queue_->allocate(taken, what_, Queue::Reserve::kept);
    }
    if (!memory) {
      if (had > 0) get_back(had);
      return base::fail(memory.error());
    }
    memory_ = std::move(*memory);
    bytes_ = taken;
    return {};
  }
  /// Gives it back, with what was there.
  void free() noexcept {
    memory_.reset();
    bytes_ = 0;
  }

  template <class T>
  [[nodiscard]] T* at(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(memory_.get() + offset);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  /// For what is not as large. It had this memory a moment ago, so the reserve is no smaller for
  /// it.
  void get_back(std::size_t bytes) {
    auto memory = queue_->allocate(bytes, what_, Queue::Reserve::used);
    if (!memory) return;
    memory_ = std::move(*memory);
    bytes_ = bytes;
  }

  Queue* queue_;
  const char* what_;
  Queue::Memory memory_{nullptr, nullptr};
  std::size_t bytes_ = 0;
};

}  // namespace starling::compute::cuda
