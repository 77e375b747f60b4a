// Runs a plan: a GPU's queue, or in tests the processor.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cuda/kernels/work.hpp"

namespace starling::compute::cuda {

/// Calls and copies run in the order in which they are given, except copies ahead. Used on one
/// thread. Errors (ErrorCode::device) are the device's; after one, the memory is undefined. If it
/// has too little memory: ErrorCode::no_room.
class Queue {
 public:
  /// Writes, or reads, the copied bytes from `offset` on.
  using Fill = std::function<void(std::size_t offset, std::span<std::byte> bytes)>;
  using Take = std::function<void(std::size_t offset, std::span<const std::byte> bytes)>;

  /// The device's memory, freed with the handle.
  using Memory = std::unique_ptr<std::byte, void (*)(std::byte*)>;

  /// The part of the device's memory that libraries take for their kernels, and recordings take,
  /// when they are first used: keep it free, or ignore it.
  enum class Reserve : bool { kept, used };

  virtual ~Queue() = default;

  /// Whether it does an attention of this kind and size as one call; called before planning,
  /// without addresses. If not, a plan does it differently. Error: it could not tell.
  [[nodiscard]] virtual base::Result<bool> fuses(const FusedAttention& attention) = 0;
  /// Reserves the arena, all zeros, aligned to kAlignment; once. Error: there is too little memory.
  [[nodiscard]] virtual base::Result<std::byte*> reserve(std::size_t bytes) = 0;
  /// Takes a list of work with addresses in the arena and chooses how to do it; returns its number.
  /// `names` names each op in errors. After finish(), it may only contain work that needs nothing
  /// beside the arena: kernels, clearing, and lists that were taken before.
  [[nodiscard]] virtual base::Result<std::size_t> add(std::vector<Work> list,
                                                      std::vector<std::string> names) = 0;
  /// Names of the ops with work in a list that the device's libraries do not support, so that a
  /// plain kernel does it, slowly; each once.
  [[nodiscard]] virtual std::vector<std::string> plain_ops(std::size_t list) const = 0;
  /// Reserves the memory that the work of all lists needs beside the arena; once.
  [[nodiscard]] virtual base::Status finish() = 0;

  [[nodiscard]] virtual base::Status run(std::size_t list) = 0;
  /// Good, or why lists are not run as one recording each: the first reason.
  [[nodiscard]] virtual base::Status recorded() const { return {}; }
  /// Copies the bytes that `fill` writes to the device, part after part. Returns once fill is done.
  [[nodiscard]] virtual base::Status copy_in(std::byte* to, std::size_t bytes,
                                             const Fill& fill) = 0;
  /// The same beside running work, for work that is given after join(); runs after earlier calls of
  /// allocate() and copy().
  [[nodiscard]] virtual base::Status copy_ahead(std::byte* to, std::size_t bytes,
                                                const Fill& fill) = 0;
  [[nodiscard]] virtual base::Status join() = 0;
  /// Within the device's memory.
  [[nodiscard]] virtual base::Status copy(std::byte* to, const std::byte* from,
                                          std::size_t bytes) = 0;
  /// Fills with zeros.
  [[nodiscard]] virtual base::Status clear(std::byte* to, std::size_t bytes) = 0;
  /// Waits for everything before it and passes the bytes to `take`, part after part.
  [[nodiscard]] virtual base::Status copy_out(const std::byte* from, std::size_t bytes,
                                              const Take& take) = 0;

  /// Memory beside the arena, all zeros, with the same alignment. `what` names its use in errors.
  /// Error no_room: there is too little memory, beside the reserve if that is kept; nothing else
  /// has changed.
  [[nodiscard]] virtual base::Result<Memory> allocate(std::size_t bytes, const char* what,
                                                      Reserve reserve) = 0;
  /// One kernel.
  [[nodiscard]] virtual base::Status run(const KernelWork& work) = 0;

  /// Bytes of device memory that it holds: the arena, and the lists' memory beside it.
  [[nodiscard]] virtual std::size_t memory_bytes() const noexcept = 0;
};

/// Writes these bytes, which outlive it.
[[nodiscard]] inline Queue::Fill fill_from(std::span<const std::byte> from) {
  return [from](std::size_t offset, std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), from.data() + offset, bytes.size());
  };
}

/// Copies whole vectors.
template <class T>
[[nodiscard]] base::Status copy_in(Queue& queue, void* to, std::span<const T> from) {
  return queue.copy_in(static_cast<std::byte*>(to), from.size_bytes(),
                       fill_from(std::as_bytes(from)));
}
template <class T>
[[nodiscard]] base::Status copy_out(Queue& queue, const void* from, std::span<T> to) {
  return queue.copy_out(static_cast<const std::byte*>(from), to.size_bytes(),
                        [&](std::size_t offset, std::span<const std::byte> bytes) {
                          std::memcpy(std::as_writable_bytes(to).data() + offset, bytes.data(),
                                      bytes.size());
                        });
}

}  // namespace starling::compute::cuda
