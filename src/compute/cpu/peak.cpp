#include "compute/cpu/peak.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "base/assert.hpp"

namespace starling::compute::cpu {

double peak_gflops(double seconds, std::uint32_t threads) {
  using Clock = std::chrono::steady_clock;
  constexpr dnnl_dim_t kSide = 1024;
  constexpr double kFlops = 2.0 * kSide * kSide * kSide;
  omp_set_num_threads(static_cast<int>(threads));
  const std::vector<float> a(kSide * kSide, 0.5F);
  const std::vector<float> b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  double best = 0;
  const auto start = Clock::now();
  for (int round = 0;; ++round) {
    const auto before = Clock::now();
    const dnnl_status_t status = dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1.0F, a.data(), kSide,
                                            b.data(), kSide, 0.0F, c.data(), kSide);
    ASSERT(status == dnnl_success, "the arguments are constant");
    const auto after = Clock::now();
    best = std::max(best, kFlops / std::chrono::duration<double>(after - before).count() * 1e-9);
    if (round >= 2 && std::chrono::duration<double>(after - start).count() >= seconds) return best;
  }
}

}  // namespace starling::compute::cpu
