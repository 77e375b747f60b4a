#include "cuda/libraries/dnn.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace starling::compute::cuda {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

/// Any convolution may have this much work space.
constexpr std::int64_t kWorkspaceFree = std::int64_t{256} << 20;
/// Engines for bfloat16 fill channels up to a multiple of 8: copies of x and y.
constexpr std::int64_t kWorkspaceCopies = 2;
constexpr std::size_t kEnginesMax = 64;
/// The oldest version that may be loaded: the same as meson.build's for the headers.
constexpr std::size_t kVersionMin = 91100;
static_assert(CUDNN_VERSION >= kVersionMin);

/// Numbers of the three tensors in cuDNN's graphs.
constexpr std::int64_t kX = 1;
constexpr std::int64_t kW = 2;
constexpr std::int64_t kY = 3;

/// "9.11.0", as cuDNN numbers versions since its ninth.
std::string words_of_version(std::size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

/// One of a convolution's tensors.
DnnDescriptor tensor(std::int64_t number, std::initializer_list<std::size_t> sides,
                     const Convolution& c) {
  DnnShape::Sides made{};
  std::ranges::transform(sides, made.begin(),
                         [](std::size_t side) { return static_cast<std::int64_t>(side); });
  return dnn_tensor(number, c.last ? DnnShape::channels_last(made) : DnnShape::dense(made),
                    c.rounded ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT);
}

DnnDescriptor windows_of(const Convolution& c) {
  const auto both = [](std::size_t side) {
    return std::array<std::int64_t, 2>{static_cast<std::int64_t>(side),
                                       static_cast<std::int64_t>(side)};
  };
  const auto dilation = both(c.dilation);
  const auto stride = both(c.stride);
  const auto padding = both(c.padding);
  DnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilation.data(), 2)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, stride.data(), 2)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding.data(), 2)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding.data(), 2);
  return made;
}

/// The names of an operation's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t windows, x, w, y, alpha, beta;
};

OperationNames names_of(Convolution::Kind kind) {
  switch (kind) {
    case Convolution::Kind::source_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Convolution::Kind::weight_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case Convolution::Kind::forward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

/// A graph of the one operation. Groups follow from the sides.
Result<DnnDescriptor> graph_of(const Convolution& c, cudnnHandle_t handle) {
  DnnDescriptor x = tensor(kX, {c.samples, c.in_channels, c.height, c.width}, c);
  DnnDescriptor w = tensor(kW, {c.out_channels, c.group_in(), c.kernel, c.kernel}, c);
  DnnDescriptor y = tensor(kY, {c.samples, c.out_channels, c.out_height, c.out_width}, c);
  DnnDescriptor windows = windows_of(c);
  for (DnnDescriptor* part : {&x, &w, &y, &windows}) {
    if (auto done = checked(part->finish(), "describing a convolution"); !done) {
      return fail(done.error());
    }
  }
  const OperationNames names = names_of(c.kind);
  DnnDescriptor operation(names.type);
  operation.set(names.windows, windows)
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, y)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  if (auto done = checked(operation.finish(), "a convolution"); !done) return fail(done.error());
  std::vector<DnnDescriptor> operations;
  operations.push_back(std::move(operation));
  return dnn_graph(operations, handle, "the graph of a convolution");
}

std::int64_t workspace_max(const Convolution& c) {
  const std::size_t elements = c.x_size() + c.w_size() + c.y_size();
  const std::size_t bytes = elements * (c.rounded ? sizeof(std::uint16_t) : sizeof(float));
  return std::max(kWorkspaceFree, kWorkspaceCopies * static_cast<std::int64_t>(bytes));
}

/// If cuDNN could not prepare an engine: whether that is a failure, or something is missing on this
/// machine, and the request is not the cause.
bool is_failure(cudnnStatus_t answer) {
  switch (answer) {
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
    case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
      return true;
    default:
      return CUDNN_STATUS_CATEGORY(answer) != CUDNN_STATUS_NOT_SUPPORTED;
  }
}

/// Whether an engine sums in single precision, and repeatably: tensor cores do for rounded tensors,
/// but round others.
Result<bool> is_exact(const DnnDescriptor& choice, bool rounded) {
  DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::int64_t count = 0;
  cudnnBackendDescriptor_t raw = engine.raw();
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  auto read = checked(cudnnBackendGetAttribute(choice.raw(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
                      "asking for an engine");
  if (read) {
    read = checked(
        cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count, notes.data()),
        "asking how an engine rounds");
  }
  if (!read) return fail(read.error());
  const auto known = notes.begin() + std::min<std::int64_t>(count, notes.size());
  return std::all_of(notes.begin(), known, [=](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP ||
           (rounded && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

}  // namespace

Result<Dnn> Dnn::create(cudaStream_t stream, int device) {
  if (const std::size_t version = cudnnGetVersion(); version < kVersionMin) {
    return fail(ErrorCode::device,
                "the loader finds cuDNN {}, but {} or newer is needed: install that, or "
                "set train.device to \"cpu\"",
                words_of_version(version), words_of_version(kVersionMin));
  }
  cudnnHandle_t raw = nullptr;
  if (auto made = checked(cudnnCreate(&raw), "its start"); !made) return fail(made.error());
  Handle handle(raw);
  if (auto set = checked(cudnnSetStream(raw, stream), "taking a stream"); !set) {
    return fail(set.error());
  }
  int capability = 0;
  const auto asked =
      checked(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device),
              "asking what the GPU is");
  if (!asked) return fail(asked.error());
  return Dnn(std::move(handle), std::nullopt, capability);
}

Result<Dnn> Dnn::create_for(const std::string& device_json, int capability) {
  DnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, device_json.data(),
             static_cast<std::int64_t>(device_json.size()));
  if (auto made = checked(device.finish(), "describing a device"); !made) {
    return fail(made.error());
  }
  return Dnn(nullptr, std::move(device), capability);
}

Result<std::optional<DnnConvolution>> Dnn::prepare(const Convolution& convolution) {
  Convolution sizes = convolution;
  sizes.x = sizes.w = sizes.y = nullptr;
  const auto known = std::ranges::find(known_convolutions_, sizes, &KnownConvolution::sizes);
  std::shared_ptr<const DnnPlan> plan;
  if (known != known_convolutions_.end()) {
    plan = known->plan;
  } else {
    const auto graph = graph_of(sizes, handle_.get());
    if (!graph) return fail(graph.error());
    auto found = best_plan(*graph, sizes.rounded, workspace_max(sizes));
    if (!found) return fail(found.error());
    if (*found) plan = std::make_shared<const DnnPlan>(std::move(**found));
    known_convolutions_.push_back({sizes, plan});
  }
  if (!plan) return std::optional<DnnConvolution>{};
  const std::size_t workspace = plan->workspace;
  return DnnConvolution{convolution, std::move(plan), workspace};
}

Dnn::Found Dnn::best_plan(const DnnDescriptor& graph, bool rounded,
                          std::int64_t workspace_max) const {
  Search search{.rounded = rounded, .workspace_max = workspace_max, .beyond = {}, .failed = {}};
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto found = first_plan(graph, mode, search);
    if (!found || *found) return found;
  }
  if (!search.beyond && search.failed) return fail(*search.failed);
  return std::move(search.beyond);
}

// The first suitable engine of those that cuDNN proposes, best first.
Dnn::Found Dnn::first_plan(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                           Search& search) const {
  DnnDescriptor adviser(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  adviser.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (device_) adviser.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device_);
  std::vector<DnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::size_t i = 0; i < kEnginesMax; ++i) {
    choices.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(choices.back().raw());
  }
  std::int64_t count = 0;
  cudnnStatus_t answer = adviser.finish();
  if (answer == CUDNN_STATUS_SUCCESS) {
    answer =
        cudnnBackendGetAttribute(adviser.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kEnginesMax, &count, raw.data());
  }
  if (answer != CUDNN_STATUS_SUCCESS) return refused(answer, "proposing engines", search);
  for (std::size_t i = 0; i < std::min<std::size_t>(kEnginesMax, count); ++i) {
    const auto exact = is_exact(choices[i], search.rounded);
    if (!exact) return fail(exact.error());
    if (!*exact) continue;
    auto plan = plan_of(choices[i], search);
    if (!plan || *plan) return plan;
  }
  return std::optional<DnnPlan>{};
}

// Nothing: another engine may be suitable.
Dnn::Found Dnn::refused(cudnnStatus_t answer, std::string_view what, Search& search) {
  if (is_failure(answer) && !search.failed) search.failed = checked(answer, what).error();
  return std::optional<DnnPlan>{};
}

Dnn::Found Dnn::plan_of(const DnnDescriptor& choice, Search& search) const {
  DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice);
  if (device_) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device_);
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_.get());
  }
  // An engine may turn out not to take these sides: then the next one is tried.
  const cudnnStatus_t answer = plan.finish();
  if (answer != CUDNN_STATUS_SUCCESS) return refused(answer, "preparing an engine", search);
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  const auto read =
      checked(cudnnBackendGetAttribute(plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &bytes),
              "asking for an engine's work space");
  if (!read) return fail(read.error());
  DnnPlan made{std::move(plan), static_cast<std::size_t>(bytes)};
  if (bytes <= search.workspace_max) return made;
  if (!search.beyond || made.workspace < search.beyond->workspace) search.beyond = std::move(made);
  return std::optional<DnnPlan>{};
}

Status Dnn::run(const DnnConvolution& convolution, void* workspace) const {
  const Convolution& c = convolution.convolution;
  const std::array<DnnAddress, 3> tensors{{{kX, c.x}, {kW, c.w}, {kY, c.y}}};
  return execute(convolution.plan->descriptor, tensors, workspace, "a convolution");
}

Status Dnn::execute(const DnnDescriptor& plan, std::span<const DnnAddress> tensors, void* workspace,
                    std::string_view what) const {
  std::vector<std::int64_t> numbers;
  std::vector<const void*> addresses;
  for (const auto& [number, data] : tensors) {
    numbers.push_back(number);
    addresses.push_back(data);
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, numbers.data(), count)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses.data(), count)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  if (auto packed = checked(pack.finish(), fmt::format("the addresses of {}", what)); !packed) {
    return packed;
  }
  return checked(cudnnBackendExecute(handle_.get(), plan.raw(), pack.raw()), what);
}

}  // namespace starling::compute::cuda
