#include "base/file_lock.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.hpp"

namespace starling::base {

FileLock::FileLock(Descriptor file) noexcept : file_(std::move(file)), holder_(::getpid()) {}

// Closing the file would not do where a child has it open, too: the lock is of them all.
FileLock::~FileLock() {
  if (file_.valid() && holder_ == ::getpid()) ::flock(file_.get(), LOCK_UN);
}

Result<std::optional<FileLock>> FileLock::take(const std::string& path) {
  // For writing: NFS makes these locks of others, which ask for that.
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kNewFileMode));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path,
                std::generic_category().message(errno));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return FileLock(std::move(file));
}

bool FileLock::is_free(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace starling::base
