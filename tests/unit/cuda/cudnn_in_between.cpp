#include "cudnn_in_between.hpp"

#include <map>

#include <dlfcn.h>

namespace starling::compute::cuda::testing {

namespace {

std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> types;
cudnnBackendDescriptorType_t failing_type{};
cudnnStatus_t failing_status{};
int failing_left = 0;
std::int64_t more_workspace = 0;
int asked = 0;
std::size_t said_version = 0;

/// cuDNN's own.
template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

cudnnStatus_t finish(cudnnBackendDescriptor_t descriptor) {
  const cudnnBackendDescriptorType_t type = types[descriptor];
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) ++asked;
  if (failing_left > 0 && type == failing_type) {
    --failing_left;
    return failing_status;
  }
  static auto* const own = next<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  return own(descriptor);
}

}  // namespace

Failing::Failing(cudnnBackendDescriptorType_t type, cudnnStatus_t status, int count) {
  failing_type = type;
  failing_status = status;
  failing_left = count;
}
Failing::~Failing() { failing_left = 0; }

Greedy::Greedy(std::int64_t bytes) { more_workspace = bytes; }
Greedy::~Greedy() { more_workspace = 0; }

OfVersion::OfVersion(std::size_t version) { said_version = version; }
OfVersion::~OfVersion() { said_version = 0; }

int questions() { return asked; }

}  // namespace starling::compute::cuda::testing

namespace between = starling::compute::cuda::testing;

extern "C" cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                                  cudnnBackendDescriptor_t* made) {
  static auto* const own =
      between::next<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  const cudnnStatus_t status = own(type, made);
  if (status == CUDNN_STATUS_SUCCESS) between::types[*made] = type;
  return status;
}

extern "C" std::size_t CUDNNWINAPI cudnnGetVersion(void) {
  static auto* const own = between::next<decltype(cudnnGetVersion)>("cudnnGetVersion");
  return between::said_version > 0 ? between::said_version : own();
}

extern "C" cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return between::finish(descriptor);
}

extern "C" cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(
    cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* elements) {
  static auto* const own =
      between::next<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  const cudnnStatus_t status = own(descriptor, name, type, wanted, count, elements);
  if (status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<std::int64_t*>(elements) += between::more_workspace;
  }
  return status;
}
