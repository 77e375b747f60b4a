// Fills batches ahead of the trainer, on a separate thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/peer_id.hpp"
#include "data/batch_stream.hpp"

namespace starling::data {

/// Prefetches batches of a peer's own samples, once the first one was requested. It only ever
/// allocates its pool of kPool buffers.
class Loader {
 public:
  static constexpr std::size_t kPool = 4;

  /// Starts the data thread on the samples of the `owned` shards, unless set_shards() names others
  /// before the first next(). With no shards it takes the full set, so that the peer is not idle.
  /// `set` and `shards` must outlive this. `batch`: samples in each batch, at least 1. `seed`:
  /// derive it with peer_seed, so that peers differ.
  Loader(const SampleSet& set, const Shards& shards, std::uint32_t batch, std::uint64_t seed,
         std::span<const std::uint32_t> owned, const Augmentation& augmentation = {});
  /// Stops and waits for the data thread.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; waits for one. The first call lets the data thread begin: until then, the
  /// shards of a peer's first batches are not known. Nothing after stop(). Throws std::bad_alloc if
  /// the data thread has run out of memory. Any thread.
  [[nodiscard]] std::optional<BatchBuffer> next();
  /// The next batch if one is ready; none before the first next(). Any thread, never blocks.
  [[nodiscard]] std::optional<BatchBuffer> try_next() { return full_.try_pop(); }
  /// Gives a batch back to be filled again. Any thread, never blocks. A caller that keeps kPool
  /// batches and calls next() waits forever.
  void recycle(BatchBuffer&& batch);
  /// Trains on other shards from the next batch that is filled: up to kPool batches already
  /// filled still hold the old ones. Any thread, never blocks for long.
  void set_shards(std::vector<std::uint32_t> owned);
  /// The same for the samples of a batch: 1 to batch().
  void set_batch(std::uint32_t samples);
  /// Ends the data thread; next() returns nothing from now on. Any thread, any number of times.
  void stop();

  /// Samples of a batch, at most.
  [[nodiscard]] std::uint32_t batch() const noexcept { return batch_; }
  /// The seed of a peer's order of samples. `samples`: how many it has trained on before, so that a
  /// peer that comes back does not repeat the same order.
  [[nodiscard]] static std::uint64_t peer_seed(std::uint64_t run_seed, const base::PeerId& id,
                                               std::uint64_t samples = 0) noexcept;

 private:
  void begin();
  void run();
  void fill();

  BatchStream stream_;  ///< of the data thread
  const std::uint32_t batch_;
  std::once_flag begun_;
  base::BoundedQueue<BatchBuffer> empty_{kPool};
  base::BoundedQueue<BatchBuffer> full_{kPool};
  std::mutex mutex_;
  std::optional<std::vector<std::uint32_t>> pending_;  ///< guarded by mutex_
  std::uint32_t pending_batch_;                        ///< guarded by mutex_
  std::atomic<bool> out_of_memory_ = false;
  std::thread thread_;
};

}  // namespace starling::data
