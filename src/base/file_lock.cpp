#include "base/file_lock.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace starling::base {

Result<std::optional<FileLock>> FileLock::take(const std::string& path) {
  // For writing: NFS makes these locks of others, which ask for that.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path,
                std::generic_category().message(errno));
  }
  FileLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace starling::base
