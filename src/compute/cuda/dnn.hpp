// Convolutions and attention by cuDNN's graph interface, through its backend calls: graphs of one
// operation and of some twenty that an engine does as one. Sums are in single precision (no TF32);
// a convolution's tensors too, or all three in bfloat16: cuDNN 9 has no engine that would take
// bfloat16 and give float32. Attention is in bfloat16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/cuda/attention.hpp"
#include "compute/cuda/dnn_graph.hpp"
#include "compute/cuda/images.hpp"

namespace starling::compute::cuda {

/// A convolution with its engine; its addresses stay.
struct DnnConvolution {
  Convolution convolution;
  DnnDescriptor plan;
  std::size_t workspace = 0;  ///< bytes
};

/// How cuDNN does a graph.
struct DnnPlan {
  DnnDescriptor descriptor;
  std::size_t workspace = 0;  ///< bytes
};

/// An attention with its engine; its addresses stay.
struct DnnAttention {
  FusedAttention attention;
  std::shared_ptr<const DnnPlan> plan;  ///< calls of the same sizes share it
  std::size_t workspace = 0;            ///< bytes
};

/// A tensor's number in a graph, and where it lies.
struct DnnAddress {
  std::int64_t number = 0;
  const void* data = nullptr;
};

class Dnn {
 public:
  [[nodiscard]] static base::Result<Dnn> create(cudaStream_t stream);
  /// For GPUs that are not there: prepares as for the one that cuDNN's JSON describes, and cannot
  /// run.
  [[nodiscard]] static base::Result<Dnn> create_for(const std::string& device_json);

  /// Chooses an engine that rounds no more than the tensors' type does (no transforms) and gives
  /// the same bits each time; nothing where cuDNN has none.
  [[nodiscard]] base::Result<std::optional<DnnConvolution>> prepare(
      const Convolution& convolution) const;
  /// As above; which engine that is, sizes and kind decide. Takes a second the first time that it
  /// sees them: engines of attention are compiled.
  [[nodiscard]] base::Result<std::optional<DnnAttention>> prepare(const FusedAttention& attention);
  /// `workspace` has at least the bytes that prepare asked for.
  [[nodiscard]] base::Status run(const DnnConvolution& convolution, void* workspace) const;
  [[nodiscard]] base::Status run(const DnnAttention& attention, void* workspace) const;

 private:
  using Handle = std::unique_ptr<cudnnContext, Freed<cudnnDestroy>>;

  Dnn(Handle handle, std::optional<DnnDescriptor> device)
      : handle_(std::move(handle)), device_(std::move(device)) {}

  /// The first engine that will do; of bfloat16, tensor cores will.
  [[nodiscard]] std::optional<DnnPlan> best_plan(const DnnDescriptor& graph, bool rounded,
                                                 std::int64_t workspace_max) const;
  [[nodiscard]] std::optional<DnnPlan> first_plan(const DnnDescriptor& graph, bool rounded,
                                                  std::int64_t workspace_max,
                                                  cudnnBackendHeurMode_t mode) const;
  [[nodiscard]] std::optional<DnnPlan> plan_of(DnnDescriptor& choice,
                                               std::int64_t workspace_max) const;
  [[nodiscard]] base::Status execute(const DnnDescriptor& plan, std::span<const DnnAddress> tensors,
                                     void* workspace, std::string_view what) const;

  /// What prepare has found before; no plan: there is no engine.
  struct KnownAttention {
    FusedAttention::Kind kind;
    AttentionSizes sizes;
    std::shared_ptr<const DnnPlan> plan;
  };

  Handle handle_;
  std::optional<DnnDescriptor> device_;
  std::vector<KnownAttention> known_;
};

}  // namespace starling::compute::cuda
