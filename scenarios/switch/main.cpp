// starling-switch: an Ethernet switch in user space, with one TAP device per network namespace, and
// a network of any quality between each ordered pair of them. See README.md beside this file.
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.hpp"
#include "control.hpp"
#include "device.hpp"
#include "fabric.hpp"
#include "requests.hpp"

namespace starling::net_switch {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kUsage =
    "usage: starling-switch --control SOCKET [--seed S] [--mtu BYTES] NAMESPACE...\n"
    "Joins network namespaces (as `ip netns` names them) by a switch: each gets a device eth0, "
    "which\n"
    "is down and has no address. Prints \"ready\" when all devices are there; ends at SIGINT or\n"
    "SIGTERM. Needs root, only for the namespaces.\n";
/// Frames read from a port before the others get their turn.
constexpr int kBatch = 64;

struct Options {
  std::string control;
  std::uint64_t seed = 1;
  int mtu = 1500;
  std::vector<std::string> namespaces;
};

template <class Number>
bool parse(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size();
}

base::Result<Options> read_options(std::span<char* const> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with("--")) {
      options.namespaces.emplace_back(word);
      continue;
    }
    if (i + 1 == words.size()) return fail(ErrorCode::usage, "{} needs a value", word);
    const std::string_view value = words[++i];
    if (word == "--control") {
      options.control = value;
    } else if (word == "--seed"  ? !parse(value, options.seed)
               : word == "--mtu" ? !parse(value, options.mtu) || options.mtu < 576 ||
                                       options.mtu > static_cast<int>(kFrameMax) - 18
                                 : true) {
      return fail(ErrorCode::usage, "{} {}: not understood", word, value);
    }
  }
  if (options.control.empty()) return fail(ErrorCode::usage, "--control is missing");
  if (options.namespaces.empty() || options.namespaces.size() > kPortsMax) {
    return fail(ErrorCode::usage, "1 to {} namespaces are needed", kPortsMax);
  }
  return options;
}

base::Time now() {
  // The timer's clock, so that both agree on when a frame is due.
  timespec read{};
  clock_gettime(CLOCK_MONOTONIC, &read);
  return base::Time(std::chrono::seconds(read.tv_sec) + std::chrono::nanoseconds(read.tv_nsec));
}

/// Devices, fabric, timer and control socket on one loop. Lives as long as the process.
class Switch {
 public:
  explicit Switch(const Options& options) : fabric_(options.namespaces.size(), options.seed) {}

  base::Status open(const Options& options);
  void run();

 private:
  struct Port {
    explicit Port(Device made) : device(std::move(made)) {}
    Device device;
    uv_poll_t poll{};
    std::size_t index = 0;
    Switch* owner = nullptr;
  };

  void on_readable(const Port& port);
  /// Delivers due frames and sets the timer to the next one.
  void pump();
  void stop();

  uv_loop_t loop_{};
  Fabric fabric_;
  std::vector<std::unique_ptr<Port>> ports_;
  int timer_ = -1;  ///< a timerfd: libuv's own timers count in milliseconds
  uv_poll_t timer_poll_{};
  std::optional<base::Time> timer_at_;
  std::array<uv_signal_t, 2> signals_{};
  std::unique_ptr<Control> control_;
};

base::Status Switch::open(const Options& options) {
  uv_loop_init(&loop_);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_ < 0) return fail(ErrorCode::internal, "no timer: {}", std::strerror(errno));
  for (const std::string& name : options.namespaces) {
    auto device = Device::create(name, ports_.size(), options.mtu);
    if (!device) return fail(device.error());
    auto port = std::make_unique<Port>(std::move(*device));
    port->index = ports_.size();
    port->owner = this;
    port->poll.data = port.get();
    uv_poll_init(&loop_, &port->poll, port->device.descriptor());
    uv_poll_start(&port->poll, UV_READABLE, [](uv_poll_t* poll, int, int) {
      const Port& readable = *static_cast<Port*>(poll->data);
      readable.owner->on_readable(readable);
    });
    ports_.push_back(std::move(port));
  }
  timer_poll_.data = this;
  uv_poll_init(&loop_, &timer_poll_, timer_);
  uv_poll_start(&timer_poll_, UV_READABLE, [](uv_poll_t* poll, int, int) {
    auto& owner = *static_cast<Switch*>(poll->data);
    std::uint64_t expired = 0;
    if (read(owner.timer_, &expired, sizeof expired) > 0) owner.timer_at_.reset();
    owner.pump();
  });
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    signals_[i].data = this;
    uv_signal_init(&loop_, &signals_[i]);
    uv_signal_start(
        &signals_[i], [](uv_signal_t* got, int) { static_cast<Switch*>(got->data)->stop(); },
        i == 0 ? SIGINT : SIGTERM);
  }
  auto control = Control::create(&loop_, options.control, [this](std::string_view request) {
    return answer(fabric_, request);
  });
  if (!control) return fail(control.error());
  control_ = std::move(*control);
  return {};
}

void Switch::on_readable(const Port& port) {
  std::array<std::uint8_t, kFrameMax> buffer;
  const base::Time arrived = now();
  for (int i = 0; i < kBatch; ++i) {
    const std::size_t size = port.device.read(buffer);
    if (size == 0) break;
    fabric_.submit(port.index, std::span(buffer).first(size), arrived);
  }
  pump();
}

void Switch::pump() {
  const base::Time at = now();
  while (auto delivery = fabric_.take(at)) {
    // A device that is down takes nothing: the frame is lost, as on any wire.
    static_cast<void>(ports_[delivery->to]->device.write(delivery->frame));
  }
  const auto due = fabric_.next_due();
  if (!due || (timer_at_ && *timer_at_ <= *due)) return;
  timer_at_ = due;
  const auto since = due->time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since);
  itimerspec next{};
  next.it_value.tv_sec = whole.count();
  next.it_value.tv_nsec = (since - whole).count();
  ASSERT(timerfd_settime(timer_, TFD_TIMER_ABSTIME, &next, nullptr) == 0);
}

void Switch::stop() {
  for (const auto& port : ports_) uv_close(reinterpret_cast<uv_handle_t*>(&port->poll), nullptr);
  for (uv_signal_t& handle : signals_) uv_close(reinterpret_cast<uv_handle_t*>(&handle), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_poll_), nullptr);
  control_->close();
}

void Switch::run() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  ASSERT(uv_loop_close(&loop_) == 0, "every handle was closed");
  close(timer_);
}

int run(std::span<char* const> words) {
  for (const char* word : words) {
    if (std::string_view(word) == "--help") {
      fmt::print("{}", kUsage);
      return 0;
    }
  }
  const auto options = read_options(words);
  if (!options) {
    fmt::print(stderr, "starling-switch: {}\n{}", options.error().text, kUsage);
    return base::exit_code(options.error().code);
  }
  Switch made(*options);
  if (const auto opened = made.open(*options); !opened) {
    fmt::print(stderr, "starling-switch: {}\n", opened.error().text);
    std::fflush(nullptr);
    // Nothing is in progress yet; the kernel takes the devices back.
    _exit(base::exit_code(opened.error().code));
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  made.run();
  return 0;
}

}  // namespace
}  // namespace starling::net_switch

int main(int count, char** words) {
  return starling::net_switch::run(std::span<char* const>(words + 1, words + count));
}
