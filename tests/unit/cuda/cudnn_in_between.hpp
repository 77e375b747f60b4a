// What stands between the backend and cuDNN in a test, whose program has cuDNN's calls itself and
// hands them on: so cuDNN fails, or wants more, where it would not.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cudnn.h>

namespace starling::compute::cuda::testing {

/// As long as this lives, so many of the descriptors of a type cannot be finished. One at a time.
class Failing {
 public:
  static constexpr int kAll = 1 << 30;

  Failing(cudnnBackendDescriptorType_t type, cudnnStatus_t status, int count = kAll);
  ~Failing();
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

/// As long as this lives, engines want so many bytes of work space more. One at a time.
class Greedy {
 public:
  explicit Greedy(std::int64_t bytes);
  ~Greedy();
  Greedy(const Greedy&) = delete;
  Greedy& operator=(const Greedy&) = delete;
};

/// As long as this lives, cuDNN says that it is of this version. One at a time.
class OfVersion {
 public:
  explicit OfVersion(std::size_t version);
  ~OfVersion();
  OfVersion(const OfVersion&) = delete;
  OfVersion& operator=(const OfVersion&) = delete;
};

/// How often cuDNN was asked for engines.
[[nodiscard]] int questions();

}  // namespace starling::compute::cuda::testing
