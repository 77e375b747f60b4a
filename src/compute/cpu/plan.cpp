#include "compute/cpu/plan.hpp"

#include <algorithm>
#include <limits>

namespace starling::compute::cpu {

namespace {
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
}

Plan::Plan() : engine_(dnnl::engine::kind::cpu, 0), step_(std::make_unique<Step>()) {}

BufferId Plan::add_buffer(std::size_t bytes) {
  lifetimes_.push_back({bytes, kNever, 0});
  return lifetimes_.size() - 1;
}

dnnl::memory Plan::memory_in(BufferId buffer, const dnnl::memory::desc& desc) {
  lifetimes_[buffer].bytes = std::max(lifetimes_[buffer].bytes, desc.get_size());
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  memories_.push_back({memory, buffer});
  return memory;
}

void Plan::touch(BufferId buffer) {
  Lifetime& life = lifetimes_[buffer];
  life.first = std::min(life.first, now_);
  life.last = std::max(life.last, now_);
}

bool Plan::allocate() {
  for (Lifetime& life : lifetimes_) {
    if (life.first == kNever) life = {0, 0, 0};  // reserved but never needed
  }
  arena_plan_ = plan_arena(lifetimes_);
  arena_ = Arena(arena_plan_.bytes);
  if (arena_.data() == nullptr) return false;
  for (ArenaMemory& item : memories_) {
    item.memory.set_data_handle(arena_.data() + arena_plan_.offsets[item.buffer]);
  }
  return true;
}

float* Plan::floats(BufferId buffer) noexcept {
  return reinterpret_cast<float*>(arena_.data() + arena_plan_.offsets[buffer]);
}

std::span<std::int32_t> Plan::tokens(BufferId buffer, std::size_t count) noexcept {
  return {reinterpret_cast<std::int32_t*>(arena_.data() + arena_plan_.offsets[buffer]), count};
}

}  // namespace starling::compute::cpu
