// Convolutions and attention by cuDNN's graph interface, through its backend calls: graphs of one
// operation and of some twenty that an engine does as one. Sums are in single precision (no TF32);
// a convolution's tensors are, too, or all three are in bfloat16: cuDNN 9 has no engine that takes
// bfloat16 and gives float32. Attention is in bfloat16.
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

/// cuDNN's plan for a graph. It has no addresses: calls of the same sizes share it.
struct DnnPlan {
  DnnDescriptor descriptor;
  std::size_t workspace = 0;  ///< bytes
};

/// A convolution with its engine; its addresses do not change.
struct DnnConvolution {
  Convolution convolution;
  std::shared_ptr<const DnnPlan> plan;
  std::size_t workspace = 0;  ///< bytes
};

/// An attention with its engine; its addresses do not change.
struct DnnAttention {
  FusedAttention attention;
  std::shared_ptr<const DnnPlan> plan;
  std::size_t workspace = 0;  ///< bytes
};

/// A tensor's number in a graph, and its address.
struct DnnAddress {
  std::int64_t number = 0;
  const void* data = nullptr;
};

/// cuDNN for one queue: made by the queue, on its thread, for its stream, and destroyed before the
/// stream.
class Dnn {
 public:
  /// On GPU number `device`. Error: cuDNN is too old, or does not start.
  [[nodiscard]] static base::Result<Dnn> create(cudaStream_t stream, int device);
  /// Without a GPU: prepares as for the one that cuDNN's JSON describes, with this compute
  /// capability (its first number), and cannot run.
  [[nodiscard]] static base::Result<Dnn> create_for(const std::string& device_json, int capability);

  /// Chooses an engine that rounds no more than the tensors' type does (no transforms) and gives
  /// the same bits each time; nothing if cuDNN has none. Error (ErrorCode::device): cuDNN has
  /// engines, but none could be prepared, because one failed, or lacks a library or a driver.
  /// Sizes, type and kind determine the engine: cuDNN is asked the first time that these are seen.
  [[nodiscard]] base::Result<std::optional<DnnConvolution>> prepare(const Convolution& convolution);
  /// Like the above. The first time takes a second: engines of attention are compiled.
  [[nodiscard]] base::Result<std::optional<DnnAttention>> prepare(const FusedAttention& attention);
  /// `workspace` has at least the bytes that prepare() requested.
  [[nodiscard]] base::Status run(const DnnConvolution& convolution, void* workspace) const;
  [[nodiscard]] base::Status run(const DnnAttention& attention, void* workspace) const;

 private:
  using Handle = std::unique_ptr<cudnnContext, Freed<cudnnDestroy>>;

  Dnn(Handle handle, std::optional<DnnDescriptor> device, int capability)
      : handle_(std::move(handle)), device_(std::move(device)), capability_(capability) {}

  /// A search for an engine among those that cuDNN proposes for a graph.
  struct Search {
    bool rounded = false;  ///< bfloat16: tensor cores are suitable
    std::int64_t workspace_max = 0;
    std::optional<DnnPlan> beyond;      ///< the least of those with more work space
    std::optional<base::Error> failed;  ///< the first failure, reported if nothing is found
  };
  using Found = base::Result<std::optional<DnnPlan>>;

  /// The first suitable engine; if there is none within the limit, the smallest beyond it.
  [[nodiscard]] Found best_plan(const DnnDescriptor& graph, bool rounded,
                                std::int64_t workspace_max) const;
  [[nodiscard]] Found first_plan(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                 Search& search) const;
  /// Nothing if the engine does not take the graph.
  [[nodiscard]] Found plan_of(const DnnDescriptor& choice, Search& search) const;
  [[nodiscard]] static Found refused(cudnnStatus_t answer, std::string_view what, Search& search);
  [[nodiscard]] base::Status execute(const DnnDescriptor& plan, std::span<const DnnAddress> tensors,
                                     void* workspace, std::string_view what) const;

  // Earlier results of prepare(); no plan: there is no engine.
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
