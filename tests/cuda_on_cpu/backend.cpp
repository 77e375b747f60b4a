#include "backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "attention.hpp"
#include "base/assert.hpp"
#include "compute/arena.hpp"
#include "cuda/device/queue.hpp"
#include "cuda/plans/program.hpp"
#include "team.hpp"

namespace starling::cuda_on_cpu {

using namespace compute;
using namespace compute::cuda;

namespace {

void perform(const KernelWork& work) {
  std::visit(
      [&](const auto& kernel) {
        using K = std::remove_cvref_t<decltype(kernel)>;
        for (std::size_t i = 0; i < work.count; i += elements_a_call<K>()) {
          if constexpr (RowKernel<K>) {
            kernel(HostTeam{}, i);
          } else {
            kernel(i);
          }
        }
      },
      work.kernel);
}

/// How far apart an operand's neighbours along rows and columns lie.
struct Steps {
  std::size_t row;
  std::size_t column;
};

Steps steps_of(const ColumnMatrix& m, bool transposed, std::size_t rows, std::size_t columns) {
  ASSERT(m.rows == transposed ? columns : rows);
  ASSERT(m.columns == transposed ? rows : columns);
  const auto stride = static_cast<std::size_t>(m.stride);
  ASSERT(stride >= m.rows);
  return transposed ? Steps{stride, 1} : Steps{1, stride};
}

float bias_of(const Gemm& gemm, std::size_t column) {
  return gemm.result_rounded ? widened(gemm.rounded_bias[column]) : gemm.bias[column];
}

/// By cuBLAS's description of it, so that this is tested, too; elements of factors are Ts.
template <class T>
void perform_as(const Gemm& gemm) {
  const ColumnGemm g = by_columns(gemm);
  const Steps a = steps_of(g.a, g.transpose_a, gemm.columns, gemm.depth);
  const Steps b = steps_of(g.b, g.transpose_b, gemm.depth, gemm.rows);
  const Steps d = steps_of(g.d, false, gemm.columns, gemm.rows);
  for (std::size_t n = 0; n < gemm.batch; ++n) {
    const T* const left =
        static_cast<const T*>(gemm.right.data) + n * static_cast<std::size_t>(g.a.step);
    const T* const right =
        static_cast<const T*>(gemm.left.data) + n * static_cast<std::size_t>(g.b.step);
    const FloatsTo result =
        floats_to(gemm.result, gemm.result_rounded).from(n * static_cast<std::size_t>(g.d.step));
    for (std::size_t c = 0; c < g.d.columns; ++c) {
      for (std::size_t r = 0; r < g.d.rows; ++r) {
        float sum = 0;
        for (std::size_t k = 0; k < gemm.depth; ++k) {
          sum +=
              value_of(left[r * a.row + k * a.column]) * value_of(right[k * b.row + c * b.column]);
        }
        if (gemm.bias != nullptr) sum += bias_of(gemm, r);
        if (gemm.also != nullptr) sum += gemm.also[r * d.row + c * d.column];
        result.put(r * d.row + c * d.column, gemm.relu && sum < 0 ? 0.0F : sum);
      }
    }
  }
}

void perform(const Gemm& gemm) {
  gemm.rounded ? perform_as<std::uint16_t>(gemm) : perform_as<float>(gemm);
}

void perform(const Convolution& convolution) { perform(plain(convolution)); }

void perform(const FusedAttention& attention) { attend(attention); }

void perform(const Clear& clear) { std::fill_n(clear.to, clear.count, 0.0F); }

/// Copies a few floats at a time, so that the parts of a copy are tested.
class HostQueue final : public Queue {
 public:
  HostQueue(Calls* calls, const Faults& faults) : calls_(calls), faults_(faults) {}

  /// As on a GPU not all sizes: the plan without is tested, too.
  base::Result<bool> fuses(const FusedAttention& attention) override {
    return attention.sizes.size % 2 == 0;
  }
  base::Result<std::byte*> reserve(std::size_t bytes) override {
    arena_ = Arena(bytes + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(arena_.data());
    return arena_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }
  base::Result<std::size_t> add(std::vector<Work> list, std::vector<std::string> names) override {
    lists_.push_back(std::move(list));
    names_.push_back(std::move(names));
    return lists_.size() - 1;
  }
  /// No library does convolutions here.
  std::vector<std::string> plain_ops(std::size_t list) const override {
    std::vector<std::string> found;
    for (const Work& work : lists_[list]) {
      const std::string& name = names_[list][work.op];
      if (!std::holds_alternative<Convolution>(work.what)) continue;
      if (std::ranges::find(found, name) == found.end()) found.push_back(name);
    }
    return found;
  }
  base::Status finish() override { return {}; }
  base::Status run(std::size_t list) override {
    count(&Calls::lists);
    perform_list(list);
    return {};
  }
  base::Status copy_in(std::byte* to, std::size_t bytes, const Fill& fill) override {
    for (std::size_t offset = 0; offset < bytes; offset += kPart) {
      fill(offset, {to + offset, std::min(kPart, bytes - offset)});
    }
    return {};
  }
  base::Status copy_ahead(std::byte* to, std::size_t bytes, const Fill& fill) override {
    return copy_in(to, bytes, fill);
  }
  base::Status join() override { return {}; }
  base::Status copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  base::Status clear(std::byte* to, std::size_t bytes) override {
    std::memset(to, 0, bytes);
    return {};
  }
  base::Status copy_out(const std::byte* from, std::size_t bytes, const Take& take) override {
    if (bytes > 0) count(&Calls::waits);
    for (std::size_t offset = 0; offset < bytes; offset += kPart) {
      take(offset, {from + offset, std::min(kPart, bytes - offset)});
    }
    return {};
  }
  base::Result<Memory> allocate(std::size_t bytes, const char* what, Reserve reserve) override {
    count(&Calls::allocations);
    const bool keeps = reserve == Reserve::kept && faults_.reserve != nullptr;
    const std::size_t left = faults_.room - *taken_;
    const std::size_t kept = keeps ? std::min(*faults_.reserve, left) : 0;
    const std::size_t free = std::min(faults_.piece_max, left - kept);
    if (bytes > free) {
      return base::fail(base::ErrorCode::no_room,
                        "{} bytes are needed for {}, and {} are to be had", bytes, what, free);
    }
    // How many they are stands in front of them, for the count.
    const std::size_t whole = (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    ASSERT(memory != nullptr);
    std::memset(memory, 0, whole);
    *taken_ += bytes;
    new (memory) Piece{bytes, taken_};
    return Memory(memory + kAlignment, [](std::byte* owned) {
      auto* const piece = reinterpret_cast<Piece*>(owned - kAlignment);
      *piece->taken -= piece->bytes;
      piece->~Piece();
      std::free(piece);
    });
  }
  base::Status run(const KernelWork& work) override {
    count(&Calls::kernels);
    perform(work);
    return {};
  }
  base::Status recorded() const override {
    if (faults_.recording.empty()) return {};
    return base::fail(base::ErrorCode::device, "{}", faults_.recording);
  }
  std::size_t memory_bytes() const noexcept override { return arena_.size(); }

 private:
  static constexpr std::size_t kPart = 37 * sizeof(float);

  /// In front of memory that was taken, which may be freed after the queue.
  struct Piece {
    std::size_t bytes;
    std::shared_ptr<std::size_t> taken;
  };

  void count(std::size_t Calls::*which) {
    if (calls_ != nullptr) ++(calls_->*which);
  }
  void perform_list(std::size_t list) {
    for (const Work& work : lists_[list]) {
      std::visit(
          [this](const auto& what) {
            if constexpr (std::is_same_v<decltype(what), const Sublist&>) {
              perform_list(what.list);
            } else {
              perform(what);
            }
          },
          work.what);
    }
  }

  Calls* const calls_;
  const Faults faults_;
  std::shared_ptr<std::size_t> taken_ = std::make_shared<std::size_t>(0);
  Arena arena_;
  std::vector<std::vector<Work>> lists_;
  std::vector<std::vector<std::string>> names_;
};

class HostBackend final : public Backend {
 public:
  HostBackend(Calls* calls, Faults faults) : calls_(calls), faults_(std::move(faults)) {}

  base::Result<std::unique_ptr<Program>> compile(const Graph& graph,
                                                 const CompileOptions& options) override {
    return cuda::compile(graph, options, std::make_unique<HostQueue>(calls_, faults_), kFewScores);
  }

  bool has_bfloat16() const noexcept override { return true; }

 private:
  /// So that the wide cases' attention takes several parts.
  static constexpr std::size_t kFewScores = std::size_t{128} << 10;

  Calls* const calls_;
  const Faults faults_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Calls* calls, Faults faults) {
  return std::make_unique<HostBackend>(calls, std::move(faults));
}

}  // namespace starling::cuda_on_cpu
