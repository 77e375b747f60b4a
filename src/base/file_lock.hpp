// A file with one holder at a time, across all processes of a machine.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace starling::base {

/// Held until it is destroyed or the process ends in any way. A child of fork() does not hold it,
/// even if it outlives its parent, and destroying the child's copy does not release it.
class FileLock {
 public:
  FileLock(FileLock&&) noexcept = default;
  ~FileLock();

  /// Nothing if it is already held, also by this process. The file is made if there is none, and
  /// stays. On a file system without locks, every caller gets one. Error (ErrorCode::data): the
  /// file cannot be made.
  [[nodiscard]] static Result<std::optional<FileLock>> take(const std::string& path);

  /// Whether it is certain that nobody holds it: false if there is no such file, or no locks. A
  /// call of take() at the same moment may fail.
  [[nodiscard]] static bool is_free(const std::string& path);

 private:
  class Files;
  explicit FileLock(Descriptor file);
  [[nodiscard]] bool try_lock() const;

  Descriptor file_;
  pid_t holder_;  ///< the process
};

}  // namespace starling::base
