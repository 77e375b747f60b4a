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

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/images.hpp"
#include "cuda/libraries/dnn_graph.hpp"

namespace starling::compute::cuda {

/// How cuDNN does a graph. It has no addresses: calls of the same sizes share it.
struct DnnPlan {
  DnnDescriptor descriptor;
  std::size_t workspace = 0;  ///< bytes
};

/// A convolution with its engine; its addresses stay.
struct DnnConvolution {
  Convolution convolution;
  std::shared_ptr<const DnnPlan> plan;
  std::size_t workspace = 0;  ///< bytes
};

/// An attention with its engine; its addresses stay.
struct DnnAttention {
  FusedAttention attention;
  std::shared_ptr<const DnnPlan> plan;
  std::size_t workspace = 0;  ///< bytes
};

/// A tensor's number in a graph, and where it lies.
struct DnnAddress {
  std::int64_t number = 0;
  const void* data = nullptr;
};

/// cuDNN as one queue uses it: made by it, on its thread, for its stream, and gone before that is.
class Dnn {
 public:
  /// On GPU number `device`. Error: cuDNN is too old, or does not start.
  [[nodiscard]] static base::Result<Dnn> create(cudaStream_t stream, int device);
  /// For GPUs that are not there: prepares as for the one that cuDNN's JSON describes, of this
  /// compute capability (its first number), and cannot run.
  [[nodiscard]] static base::Result<Dnn> create_for(const std::string& device_json, int capability);

  /// Chooses an engine that rounds no more than the tensors' type does (no transforms) and gives
  /// the same bits each time; nothing where cuDNN has none. Error (ErrorCode::device): none of
  /// those that it has could be made ready, for one of them failed, or lacks a library or a driver.
  /// Which engine that is, sizes, type and kind decide: cuDNN is asked the first time that these
  /// are seen.
  [[nodiscard]] base::Result<std::optional<DnnConvolution>> prepare(const Convolution& convolution);
  /// As above. The first time takes a second: engines of attention are compiled.
  [[nodiscard]] base::Result<std::optional<DnnAttention>> prepare(const FusedAttention& attention);
  /// `workspace` has at least the bytes that prepare asked for.
  [[nodiscard]] base::Status run(const DnnConvolution& convolution, void* workspace) const;
  [[nodiscard]] base::Status run(const DnnAttention& attention, void* workspace) const;

 private:
  using Handle = std::unique_ptr<cudnnContext, Freed<cudnnDestroy>>;

  Dnn(Handle handle, std::optional<DnnDescriptor> device, int capability)
      : handle_(std::move(handle)), device_(std::move(device)), capability_(capability) {}

  /// A search for an engine, of those that cuDNN proposes for a graph.
  struct Search {
    bool rounded = false;  ///< of bfloat16, tensor cores will do
    std::int64_t workspace_max = 0;
    std::optional<DnnPlan> beyond;      ///< of those with more work space the one with the least
    std::optional<base::Error> failed;  ///< the first failure, told where nothing is found
  };
  using Found = base::Result<std::optional<DnnPlan>>;

  /// The first engine that will do; where there is none within the limit, the smallest beyond.
  [[nodiscard]] Found best_plan(const DnnDescriptor& graph, bool rounded,
                                std::int64_t workspace_max) const;
  [[nodiscard]] Found first_plan(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                 Search& search) const;
  /// Nothing, where the engine does not take the graph.
  [[nodiscard]] Found plan_of(const DnnDescriptor& choice, Search& search) const;
  [[nodiscard]] static Found refused(cudnnStatus_t answer, std::string_view what, Search& search);
  [[nodiscard]] base::Status execute(const DnnDescriptor& plan, std::span<const DnnAddress> tensors,
                                     void* workspace, std::string_view what) const;

  // What prepare has found before; no plan: there is no engine.
  struct KnownConvolution {
    Convolution sizes;  ///< without addresses
    std::shared_ptr<const DnnPlan> plan;
  };
  struct KnownAttention {
    FusedAttention::Kind kind;
    AttentionSizes sizes;
    std::shared_ptr<const DnnPlan> plan;
  };

  /// Whether cuDNN has engines for it that give the same bits each time.
  [[nodiscard]] bool is_taken(const FusedAttention& attention) const;

  Handle handle_;
  std::optional<DnnDescriptor> device_;
  int capability_;
  std::vector<KnownConvolution> known_convolutions_;
  std::vector<KnownAttention> known_attentions_;
};

}  // namespace starling::compute::cuda
