#include "cuda/kernels/launch.hpp"

#include <utility>

namespace starling::compute::cuda {
namespace {

using EachPart = std::make_index_sequence<kKernelParts>;

template <std::size_t... parts>
cudaError_t load_parts(std::index_sequence<parts...>) {
  cudaError_t answer = cudaSuccess;
  static_cast<void>(((answer = KernelPart<parts>::load(), answer == cudaSuccess) && ...));
  return answer;
}

template <std::size_t... parts>
cudaError_t launch_in_part(const KernelWork& work, cudaStream_t stream,
                           std::index_sequence<parts...>) {
  using Launch = cudaError_t (*)(const KernelWork&, cudaStream_t);
  constexpr Launch kLaunches[] = {&KernelPart<parts>::launch...};
  return kLaunches[work.kernel.index() % kKernelParts](work, stream);
}

}  // namespace

cudaError_t load_kernels() { return load_parts(EachPart{}); }

cudaError_t launch(const KernelWork& work, cudaStream_t stream) {
  return work.count == 0 ? cudaSuccess : launch_in_part(work, stream, EachPart{});
}

}  // namespace starling::compute::cuda
