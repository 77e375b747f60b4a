// The team of row kernels on the processor (shared.hpp defines teams).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/kernels/choose.hpp"
#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::cuda_on_cpu {

/// A team of one.
struct HostTeam {
  template <class F>
  auto sum(std::size_t count, const F& f) const {
    decltype(f(std::size_t{})) sum{};
    for (std::size_t i = 0; i < count; ++i) sum += f(i);
    return sum;
  }
  template <class F>
  compute::cuda::Largest largest(std::size_t count, const F& f) const {
    compute::cuda::Largest most{f(0), 0};
    for (std::size_t i = 1; i < count; ++i) {
      if (f(i) > most.value) most = {f(i), i};
    }
    return most;
  }
  template <class F>
  void each(std::size_t count, const F& f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  template <class F>
  auto once(const F& f) const {
    return f();
  }
  template <class T>
  T& shared() const {
    static thread_local T memory;
    return memory;
  }
  void meet() const {}
  template <class F, class G>
  auto running_sum(std::size_t count, const F& f, const G& g) const {
    decltype(f(std::size_t{})) before{};
    for (std::size_t i = 0; i < count; ++i) {
      g(i, before);
      before += f(i);
    }
    return before;
  }
  template <class F, class Hit, class Place, class G>
  void sift(std::size_t count, const F& f, const Hit& hit, const Place& place, const G& g) const {
    using compute::cuda::kFour;
    std::vector<compute::cuda::Four> held;
    std::uint32_t hits = 0;
    for (std::size_t i = 0; i < count; i += kFour) {
      held.push_back(f(i, compute::cuda::in_four(i, count)));
      for (const float value : held.back().of) hits += hit(value) ? 1 : 0;
    }
    std::size_t to = place(hits);
    if (to == compute::cuda::kNowhere) return;
    for (std::size_t i = 0; i < kFour * held.size(); ++i) {
      const float value = held[i / kFour].of[i % kFour];
      if (hit(value)) g(to++, i, value);
    }
  }
  [[nodiscard]] bool leads() const { return true; }
};

}  // namespace starling::cuda_on_cpu
