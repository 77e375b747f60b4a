// A layer between the backend and cuDNN in a test: the program has cuDNN's calls itself and passes
// them on, so that cuDNN can be made to fail, or to need more.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cudnn.h>

namespace starling::compute::cuda::testing {

/// While this lives, this many descriptors of a type cannot be finished. One at a time.
class Failing {
 public:
  static constexpr int kAll = 1 << 30;

  Failing(cudnnBackendDescriptorType_t type, cudnnStatus_t status, int count = kAll);
  ~Failing();
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

/// While this lives, engines need this many more bytes of work space. One at a time.
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
