#include "data/loader.hpp"

#include <new>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"

namespace starling::data {

Loader::Loader(const SampleSet& set, const Shards& shards, std::uint32_t batch, std::uint64_t seed,
               std::span<const std::uint32_t> owned, const Augmentation& augmentation)
    : stream_(set, shards, augmentation, batch, seed, owned), batch_(batch), pending_batch_(batch) {
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  stop();
  thread_.join();
}

std::optional<BatchBuffer> Loader::next() {
  std::call_once(begun_, [this] { begin(); });
  auto batch = full_.pop();
  if (!batch && out_of_memory_) throw std::bad_alloc();
  return batch;
}

void Loader::recycle(BatchBuffer&& batch) {
  ASSERT(batch.count >= 1 && batch.count <= batch_, "only batches of this loader come back");
  // Refused only after stop(), when the memory is no longer needed.
  const bool kept = empty_.try_push(std::move(batch));
  ASSERT(kept || empty_.size() < kPool, "more batches come back than went out");
}

void Loader::set_shards(std::vector<std::uint32_t> owned) {
  const std::lock_guard lock(mutex_);
  pending_ = std::move(owned);
}

void Loader::set_batch(std::uint32_t samples) {
  ASSERT(samples >= 1 && samples <= batch_);
  const std::lock_guard lock(mutex_);
  pending_batch_ = samples;
}

void Loader::stop() {
  empty_.close();
  full_.close();
  while (full_.try_pop()) {
  }
}

std::uint64_t Loader::peer_seed(std::uint64_t run_seed, const base::PeerId& id,
                                std::uint64_t samples) noexcept {
  return base::xxh3(std::as_bytes(std::span(id.bytes)), run_seed) + samples;
}

void Loader::begin() {
  for (std::size_t i = 0; i < kPool; ++i) {
    BatchBuffer buffer;
    buffer.resize(stream_.format(), batch_);
    if (!empty_.try_push(std::move(buffer))) return;  // after stop()
  }
}

void Loader::run() {
  try {
    fill();
  } catch (const std::bad_alloc&) {  // for the order of more samples
    out_of_memory_ = true;
    stop();
  }
}

void Loader::fill() {
  while (auto batch = empty_.pop()) {
    std::optional<std::vector<std::uint32_t>> owned;
    {
      const std::lock_guard lock(mutex_);
      owned = std::exchange(pending_, std::nullopt);
      stream_.set_batch(pending_batch_);
    }
    if (owned) stream_.set_shards(*owned);
    stream_.next(*batch);
    if (!full_.push(std::move(*batch))) return;
  }
}

}  // namespace starling::data
