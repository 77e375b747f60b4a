// Memory of a queue that grows as needed.
#pragma once

#include <cstddef>
#include <utility>

#include "cuda/device/queue.hpp"

namespace starling::compute::cuda {

/// Has no memory at first, and frees its memory at its end. Used on the queue's thread.
class DeviceBuffer {
 public:
  /// `what` names the use in errors; both outlive it.
  DeviceBuffer(Queue& queue, const char* what) : queue_(&queue), what_(what) {}

  /// Has at least this many bytes from now on; the old content may be gone. After a failure, it has
  /// as many as before.
  [[nodiscard]] base::Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return {};
    const std::size_t had = bytes_;
    free();                                 // before more is requested
    std::size_t taken = bytes + bytes / 2;  // room for slightly larger requests
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
  /// Frees it, with its content.
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
  /// Takes back the former size. It had this memory a moment ago, so the reserve does not shrink.
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
