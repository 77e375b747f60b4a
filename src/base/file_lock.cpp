#include "base/file_lock.hpp"

#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.hpp"

namespace starling::base {

// The lock belongs to all who have the file open, and when a process is killed, the copies of its
// children keep the lock. So children close their copies when they begin.
class FileLock::Files {
 public:
  static Files& all() {
    static auto* const files = new Files;  // forever: children may begin at any time
    return *files;
  }

  void add(int fd) {
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
  }
  void remove(int fd) {
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
  }

 private:
  Files() {
    ::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                     [] { all().close_in_child(); });
  }

  void close_in_child() {
    for (const int fd : open_) ::close(fd);
    open_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<int> open_;
};

FileLock::FileLock(Descriptor file) : file_(std::move(file)), holder_(::getpid()) {
  Files::all().add(file_.get());
}

FileLock::~FileLock() {
  if (!file_.valid()) return;
  if (holder_ != ::getpid()) {
    file_.release();  // closed when this process began; another file may have its number
    return;
  }
  Files::all().remove(file_.get());
  ::flock(file_.get(), LOCK_UN);  // some child may have been made without fork()
}

Result<std::optional<FileLock>> FileLock::take(const std::string& path) {
  // Opened for writing: NFS implements these locks with others that require it.
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kNewFileMode));
  if (!file.valid()) {
    return fail(ErrorCode::data, "{}: cannot be opened: {}", path,
                std::generic_category().message(errno));
  }
  std::optional<FileLock> lock(FileLock(std::move(file)));
  if (!lock->try_lock() && errno == EWOULDBLOCK) lock.reset();
  return lock;
}

bool FileLock::is_free(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.valid() && FileLock(std::move(file)).try_lock();
}

bool FileLock::try_lock() const { return ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0; }

}  // namespace starling::base
