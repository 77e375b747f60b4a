#include "io/port_mapping.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.hpp"

namespace starling::io {
namespace {

namespace fs = std::filesystem;

constexpr char kProgramName[] = "starling";
constexpr char kVariable[] = "STARLING_PROGRAM";
constexpr std::size_t kReadSize = 1024;

/// posix_spawn's descriptions of the new process.
struct Spawning {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};

  Spawning() {
    ASSERT(posix_spawn_file_actions_init(&files) == 0 && posix_spawnattr_init(&attributes) == 0);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;
  ~Spawning() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

/// Both ends are closed in programs that this process starts.
bool make_pipe(base::Descriptor& reading, base::Descriptor& writing) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  reading = base::Descriptor(ends[0]);
  writing = base::Descriptor(ends[1]);
  return true;
}

}  // namespace

base::Result<std::string> find_mapper() {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    return std::string(named);
  }
  std::error_code ignored;
  const fs::path own = fs::read_symlink(kOwnProgram, ignored);
  if (own.filename() == kProgramName) return std::string(kOwnProgram);
  const fs::path folder = own.parent_path();
  std::vector<fs::path> places{folder / kProgramName, folder.parent_path() / "bin" / kProgramName};
  // A build folder has programs one to four folders deep.
  fs::path above = folder;
  for (int depth = 0; depth < 4; ++depth) {
    above = above.parent_path();
    places.push_back(above / "peers" / kProgramName);
  }
  std::string looked;
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, ignored)) return place.string();
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  return base::fail(base::ErrorCode::usage,
                    "the program `starling`, which talks to the router, is not there: looked for "
                    "{}; name it in {}",
                    looked, kVariable);
}

PortMapping::PortMapping(Loop& loop, std::string program, std::string listen, Observer observer)
    : loop_(loop),
      program_(std::move(program)),
      listen_(std::move(listen)),
      observer_(std::move(observer)),
      restart_(loop, [this] { start(); }),
      expiry_(loop, [this] { on_timer(); }) {
  start();
}

PortMapping::~PortMapping() {
  end();
  if (process_ == 0) return;
  // Its output ends when it does.
  const base::Time patience = Loop::now() + kMapperEnd;
  std::array<char, kReadSize> bytes;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience - Loop::now()).count();
    pollfd polled{output_.get(), POLLIN, 0};
    if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) break;
    if (::read(output_.get(), bytes.data(), bytes.size()) <= 0) break;
  }
  stop({});
}

void PortMapping::end() {
  over_ = true;
  restart_.stop();
  expiry_.stop();
  readable_.reset();
  input_ = base::Descriptor(-1);  // this tells it
}

void PortMapping::start() {
  reports_.start_over();
  started_ = Loop::now();
  if (auto spawned = spawn(); !spawned) {
    observer_.note(fmt::format("no port is mapped on the router: {}", spawned.error().text));
    return;  // a missing program will still be missing later
  }
  readable_ = std::make_unique<Handle<uv_poll_t>>(
      [this] { read(); },
      [this](uv_poll_t* handle) { return uv_poll_init(loop_.raw(), handle, output_.get()); });
  ASSERT(uv_poll_start(readable_->raw(), UV_READABLE, Handle<uv_poll_t>::call<int, int>) == 0);
}

base::Status PortMapping::spawn() {
  const auto failed = [this](int error) {
    return base::fail(base::ErrorCode::internal, "{} cannot be started: {}", program_,
                      std::strerror(error));
  };
  base::Descriptor input(-1);
  base::Descriptor output(-1);
  if (!make_pipe(input, input_) || !make_pipe(output_, output)) return failed(errno);
  Spawning how;
  posix_spawn_file_actions_adddup2(&how.files, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&how.files, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&how.files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&how.files, STDERR_FILENO + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&how.attributes, &none);
  posix_spawnattr_setsigdefault(&how.attributes, &all);
  // In its own process group: Ctrl-C is for this process.
  posix_spawnattr_setpgroup(&how.attributes, 0);
  posix_spawnattr_setflags(&how.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::array<std::string, 3> words{kProgramName, "map-port", listen_};
  std::array<char*, 4> arguments{words[0].data(), words[1].data(), words[2].data(), nullptr};
  // Only this variable may tell where the program's libraries lie; no other is passed on.
  std::string libraries = "LD_LIBRARY_PATH=";
  const char* const set = std::getenv("LD_LIBRARY_PATH");
  if (set != nullptr) libraries += set;
  std::array<char*, 2> environment{set == nullptr ? nullptr : libraries.data(), nullptr};
  const int error = posix_spawn(&process_, program_.c_str(), &how.files, &how.attributes,
                                arguments.data(), environment.data());
  if (error != 0) {
    process_ = 0;
    return failed(error);
  }
  const int flags = fcntl(output_.get(), F_GETFL);
  fcntl(output_.get(), F_SETFL, flags | O_NONBLOCK);
  return {};
}

void PortMapping::read() {
  std::array<std::byte, kReadSize> bytes;
  const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    stop("it ended");
    return settle();
  }
  const auto taken =
      reports_.take(base::ByteView(bytes).first(static_cast<std::size_t>(got)), Loop::now());
  if (!taken) stop(taken.error().text);
  settle();
}

/// Reports changes, and sets the timer.
void PortMapping::settle() {
  for (const std::string& text : reports_.take_notes()) observer_.note(text);
  expiry_.stop();
  if (const auto next = reports_.next_deadline()) expiry_.start(*next - Loop::now());
  if (auto now = addresses(); now != told_) {
    told_ = std::move(now);
    observer_.changed();
  }
}

void PortMapping::on_timer() {
  reports_.expire(Loop::now());
  settle();
}

/// After this, the process is gone. `why`: it was not asked to end, and another one follows.
void PortMapping::stop(const std::string& why) {
  readable_.reset();
  input_ = base::Descriptor(-1);
  output_ = base::Descriptor(-1);
  // The embedding program may have waited for it already, and its number may belong to another
  // process by now.
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) == 0) {
    kill(process_, SIGKILL);
    waitpid(process_, &status, 0);
  }
  process_ = 0;
  if (over_ || why.empty()) return;
  if (Loop::now() - started_ > kMapperPauseMax) pause_ = kMapperPause;
  observer_.note(
      fmt::format("the process that maps this peer's port on the router: {}; started "
                  "again in {:.0f} s",
                  why, base::seconds(pause_)));
  restart_.start(pause_);
  pause_ = std::min(2 * pause_, kMapperPauseMax);
}

}  // namespace starling::io
