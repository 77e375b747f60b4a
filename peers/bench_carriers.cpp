// `starling bench carriers`: a link over TCP compared with one over UCX, both with TLS.
//
// Each link is between this process and a separate child process, so that the processor time of
// each end can be measured. All links are measured in turns, one after the other in each turn. A
// ratio is the median over the turns, so other load on the machine affects both of its sides.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.hpp"
#include "complain.hpp"
#include "io/transport.hpp"

namespace starling::peers {
namespace {

constexpr std::size_t kTurns = 10;
constexpr std::size_t kSmall[] = {64, 4096};
constexpr std::size_t kLarge = 8UL << 20;
// Frames of a measured batch; they are made before the batch.
constexpr std::size_t kBatch = 16;
constexpr base::Duration kPatience = std::chrono::seconds(30);

// Two types of frames that a transport does not interpret. The first comes back unchanged; the
// answer to the second is the processor time that the far end has used so far.
constexpr auto kEcho = wire::FrameType::heartbeat;
constexpr auto kAnswered = wire::FrameType::delta;

struct FigureName {
  const char* name;
  const char* unit;
};
// In the order of Near::turn().
constexpr FigureName kFigures[] = {
    {"64 B one way, median", "us"},
    {"64 B one way, 99th", "us"},
    {"4 KiB one way, median", "us"},
    {"4 KiB one way, 99th", "us"},
    {"8 MiB, by the clock", "GB/s"},
    {"8 MiB, processor of the sender", "s/GB"},
    {"8 MiB, processor of the receiver", "s/GB"},
};
using Values = std::array<double, std::size(kFigures)>;
// The cost of an idle link.
constexpr FigureName kIdleFigures[] = {
    {"idle, processor of one end", "ms/s"},
    {"idle, processor of the other end", "ms/s"},
};
using IdleValues = std::array<double, std::size(kIdleFigures)>;

/// Of all threads of this process.
double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double clock_seconds() { return base::seconds(io::Loop::now().time_since_epoch()); }

/// The value that a fraction `share` of them is below.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

/// Common part of both ends of a link.
class End : public io::TransportHandler {
 public:
  base::Status open(const io::TransportConfig& config) {
    auto loop = io::Loop::create();
    if (!loop) return base::fail(loop.error());
    loop_ = std::make_unique<io::Loop>(std::move(*loop));
    auto identity = io::Identity::generate();
    if (!identity) return base::fail(identity.error());
    auto transport = io::Transport::create(*loop_, config, *identity, *this);
    if (!transport) return base::fail(transport.error());
    transport_ = std::move(*transport);
    return {};
  }

  void on_link_up(base::LinkId link, const io::LinkUp&) override {
    link_ = link;
    transport_->accept(link);
  }
  void on_part(base::LinkId, std::uint8_t, std::size_t) override {}
  void on_link_down(base::LinkId, io::LinkEnd, const std::string& text) override { ended_ = text; }
  void on_dial_failed(std::uint64_t, io::LinkEnd, const std::string& text) override {
    ended_ = text;
  }
  void on_circuit_ended(const io::CircuitEnd&) override {}

 protected:
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<io::Transport> transport_;
  base::LinkId link_;
  std::optional<std::string> ended_;  ///< why the link is over, or never was
};

/// The end in the child.
class Far final : public End {
 public:
  [[nodiscard]] const std::string& address() const { return transport_->address(); }
  void serve() {
    while (!ended_) loop_->run_once();
  }

  void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration) override {
    const double used = processor_seconds();
    const bool is_echo = frame.type == static_cast<std::uint8_t>(kEcho);
    const base::ByteView said = is_echo ? frame.payload() : base::bytes_of(std::span(&used, 1));
    static_cast<void>(
        transport_->send(link, wire::make_frame(kEcho, {}, said), wire::Purpose::other));
  }
};

/// The end that measures.
class Near final : public End {
 public:
  /// Waits until the link is up and uses `kind`.
  base::Status link(const std::string& address, io::CarrierKind kind) {
    static_cast<void>(transport_->dial(address));
    auto status =
        run_until([&] { return link_.valid(); }, [] { return "the link does not come up"; });
    // A link moves without an event, so frames keep this end awake.
    const double late = clock_seconds() + base::seconds(kPatience);
    while (status && transport_->carrier(link_).kind != kind) {
      if (clock_seconds() > late) {
        const std::string why = transport_->carrier(link_).why;
        return base::fail(base::ErrorCode::network, "{}",
                          why.empty() ? "the link stays on another carrier" : why);
      }
      status = ask_processor();
    }
    return status;
  }

  base::Result<Values> turn(double seconds) {
    Values values{};
    std::size_t at = 0;
    for (const std::size_t size : kSmall) {
      const auto latencies = ping(size, seconds);
      if (!latencies) return base::fail(latencies.error());
      values[at++] = quantile(*latencies, 0.5);
      values[at++] = quantile(*latencies, 0.99);
    }
    std::vector<std::array<double, 3>> batches;
    for (const double begin = clock_seconds();
         batches.empty() || clock_seconds() < begin + seconds;) {
      const auto done = batch();
      if (!done) return base::fail(done.error());
      batches.push_back(*done);
    }
    for (std::size_t i = 0; i < std::tuple_size_v<std::array<double, 3>>; ++i) {
      std::vector<double> of_all;
      std::ranges::transform(batches, std::back_inserter(of_all),
                             [i](const auto& one) { return one[i]; });
      values[at++] = quantile(of_all, 0.5);
    }
    return values;
  }

  base::Result<IdleValues> idle(double seconds) {
    if (auto status = ask_processor(); !status) return base::fail(status.error());
    const double far = far_processor_;
    const double near = processor_seconds();
    bool over = false;
    io::Timer timer(*loop_, [&] { over = true; });
    timer.start(base::from_seconds(seconds));
    while (!over) loop_->run_once();
    const double near_used = processor_seconds() - near;
    if (auto status = ask_processor(); !status) return base::fail(status.error());
    return IdleValues{near_used * 1e3 / seconds, (far_processor_ - far) * 1e3 / seconds};
  }

  void on_frame(base::LinkId, wire::Frame&& frame, base::Duration) override {
    ++answers_;
    if (frame.payload().size() == sizeof far_processor_) {
      std::memcpy(&far_processor_, frame.payload().data(), sizeof far_processor_);
    }
  }

 private:
  template <class Done, class Why>
  base::Status run_until(Done&& done, Why&& why) {
    bool late = false;
    io::Timer timer(*loop_, [&] { late = true; });
    timer.start(kPatience);
    while (!done() && !ended_ && !late) loop_->run_once();
    if (done()) return {};
    return base::fail(base::ErrorCode::network, "{}", ended_ ? *ended_ : why());
  }

  base::Status send(base::Bytes frame, wire::Purpose purpose) {
    if (transport_->send(link_, std::move(frame), purpose)) return {};
    return base::fail(base::ErrorCode::network, "{}", ended_.value_or("the link takes no frame"));
  }

  base::Status answered(std::size_t answers) {
    return run_until([&] { return answers_ >= answers; },
                     [] { return "the other process does not answer"; });
  }

  base::Status ask_processor() {
    if (auto sent = send(wire::make_frame(kAnswered, {}, {}), wire::Purpose::other); !sent) {
      return sent;
    }
    return answered(answers_ + 1);
  }

  /// Half of a frame's round trip, in microseconds.
  base::Result<std::vector<double>> ping(std::size_t size, double seconds) {
    const base::Bytes frame = wire::make_frame(kEcho, {}, base::Bytes(size));
    std::vector<double> latencies;
    const double begin = clock_seconds();
    for (double sent = begin; sent < begin + seconds;) {
      const std::size_t answers = answers_ + 1;
      if (auto status = send(frame, wire::Purpose::other); !status) {
        return base::fail(status.error());
      }
      while (answers_ < answers && !ended_) loop_->run_once();
      if (ended_) return base::fail(base::ErrorCode::network, "{}", *ended_);
      const double now = clock_seconds();
      latencies.push_back((now - sent) * 0.5e6);
      sent = now;
    }
    return latencies;
  }

  /// GB/s, and processor seconds per GB at each end.
  base::Result<std::array<double, 3>> batch() {
    std::vector<base::Bytes> frames;
    const base::Bytes payload(kLarge, std::byte{7});
    while (frames.size() < kBatch) frames.push_back(wire::make_frame(kAnswered, {}, payload));
    if (auto status = ask_processor(); !status) return base::fail(status.error());
    const double far = far_processor_;
    const double near = processor_seconds();
    const double begin = clock_seconds();
    const std::size_t answers = answers_ + kBatch;
    for (base::Bytes& frame : frames) {
      if (auto status = send(std::move(frame), wire::Purpose::delta); !status) {
        return base::fail(status.error());
      }
    }
    if (auto status = answered(answers); !status) return base::fail(status.error());
    const double gigabytes = 1e-9 * static_cast<double>(kBatch * kLarge);
    return std::array{gigabytes / (clock_seconds() - begin),
                      (processor_seconds() - near) / gigabytes, (far_processor_ - far) / gigabytes};
  }

  std::size_t answers_ = 0;
  double far_processor_ = 0.0;  ///< as last reported
};

/// A link over one carrier, and its measurements.
struct BenchLink {
  io::CarrierKind kind;
  pid_t child = -1;
  std::unique_ptr<Near> near{};
  std::vector<Values> turns{};
  IdleValues idle{};
};

io::TransportConfig config_of(io::CarrierKind kind, const io::Secret& secret) {
  return {.listen = "127.0.0.1:0",
          .secret = secret,
          .fabric = kind == io::CarrierKind::ucx ? "auto" : "none",
          .link_memory = (kBatch + 1) * (kLarge + 4096)};
}

/// The child: reports its address, or an error, and serves until the link is over.
[[noreturn]] void run_far(const io::TransportConfig& config, const std::string& network, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Far far;
  std::string said;
  const int net = network.empty() ? -1 : ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
  if (!network.empty() && (net < 0 || ::setns(net, CLONE_NEWNET) != 0)) {
    said = fmt::format("--network {}: {}", network, std::strerror(errno));
  } else if (const auto opened = far.open(config); !opened) {
    said = opened.error().text;
  }
  const bool failed = !said.empty();
  said = failed ? "!" + said : far.address();
  const bool told = ::write(out, said.data(), said.size()) == static_cast<ssize_t>(said.size());
  ::close(out);
  if (told && !failed) far.serve();
  _exit(0);
}

base::Result<std::string> start_far(BenchLink& link, io::TransportConfig config,
                                    const BenchOptions& options) {
  if (!options.listen.empty()) config.listen = options.listen;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return base::fail(base::ErrorCode::internal, "no pipe: {}", std::strerror(errno));
  }
  std::fflush(stdout);
  link.child = ::fork();
  if (link.child == 0) run_far(config, options.network, ends[1]);
  ::close(ends[1]);
  std::string said;
  std::array<char, 512> part;
  for (ssize_t size = 1; link.child > 0 && size > 0;) {
    size = ::read(ends[0], part.data(), part.size());
    if (size > 0) said.append(part.data(), static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  if (said.empty()) return base::fail(base::ErrorCode::internal, "the other process did not start");
  if (said.front() == '!') return base::fail(base::ErrorCode::network, "{}", said.substr(1));
  return said;
}

base::Status start(BenchLink& link, const io::Secret& secret, const BenchOptions& options) {
  io::TransportConfig config = config_of(link.kind, secret);
  const auto address = start_far(link, config, options);
  if (!address) return base::fail(address.error());
  if (!options.listen.empty()) config.listen = "0.0.0.0:0";
  link.near = std::make_unique<Near>();
  if (auto opened = link.near->open(config); !opened) return opened;
  return link.near->link(*address, link.kind);
}

/// A secret that nobody else has: links inside one machine need none, others over UCX do.
base::Result<io::Secret> make_secret() {
  std::string folder = std::filesystem::temp_directory_path() / "starling-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return base::fail(base::ErrorCode::data, "cannot make {}: {}", folder, std::strerror(errno));
  }
  const std::string file = folder + "/secret";
  const auto made = io::Secret::create(file);
  auto secret = made ? io::Secret::load(file) : base::fail(made.error());
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return secret;
}

/// `values` and `others` of the same turns; there may be no others.
void print(const FigureName& figure, const std::string& kind, const std::vector<double>& values,
           const std::vector<double>& others, bool json) {
  const double value = quantile(values, 0.5);
  std::optional<double> reference;
  std::optional<double> ratio;
  if (!others.empty()) {
    std::vector<double> ratios(values.size());
    std::ranges::transform(values, others, ratios.begin(), std::divides<>());
    reference = quantile(others, 0.5);
    const double median = quantile(ratios, 0.5);
    if (std::isfinite(median)) ratio = median;
  }
  if (json) {
    const auto or_null = [](const std::optional<double>& number) {
      return number ? nlohmann::json(*number) : nlohmann::json();
    };
    const nlohmann::json line{{"name", figure.name},
                              {"carrier", kind},
                              {"value", value},
                              {"unit", figure.unit},
                              {"reference", or_null(reference)},
                              {"ratio", or_null(ratio)},
                              {"turns", values.size()}};
    fmt::print("{}\n", line.dump());
  } else {
    const auto or_dash = [](const std::optional<double>& number) {
      return number ? fmt::format("{:.3f}", *number) : std::string("-");
    };
    fmt::print("{:<36} {:>6} {:>10.3f} {:>10} {:>7}\n", figure.name, figure.unit, value,
               or_dash(reference), or_dash(ratio));
  }
  std::fflush(stdout);
}

template <class Turns, class Names>
void print_all(const Names& names, const std::vector<BenchLink>& links, Turns&& turns_of,
               bool json) {
  for (std::size_t i = 0; i < std::size(names); ++i) {
    std::array<std::vector<double>, 2> values;
    for (std::size_t s = 0; s < links.size(); ++s) {
      for (const auto& turn : turns_of(links[s])) values[s].push_back(turn[i]);
    }
    print(names[i], to_string(links.front().kind), values[0], values[1], json);
  }
}

base::Status measure(std::vector<BenchLink>& links, double seconds) {
  // The first turn is slower than the others, and not counted.
  for (std::size_t turn = 0; turn <= kTurns; ++turn) {
    for (BenchLink& link : links) {
      const auto values = link.near->turn(seconds / kTurns);
      if (!values) return base::fail(values.error().in(to_string(link.kind)));
      if (turn > 0) link.turns.push_back(*values);
    }
  }
  for (BenchLink& link : links) {
    const auto values = link.near->idle(seconds);
    if (!values) return base::fail(values.error().in(to_string(link.kind)));
    link.idle = *values;
  }
  return {};
}

base::Status run(std::vector<BenchLink>& links, const BenchOptions& options) {
  const auto secret = make_secret();
  if (!secret) return base::fail(secret.error());
  for (BenchLink& link : links) {
    if (auto started = start(link, *secret, options); !started) {
      return base::fail(started.error().in(to_string(link.kind)));
    }
  }
  if (auto measured = measure(links, options.seconds); !measured) return measured;
  if (!options.json) {
    fmt::print("Links with TLS between two processes, medians over {} turns\n", kTurns);
    fmt::print("{:<36} {:>6} {:>10} {:>10} {:>7}\n", "", "", to_string(links.front().kind),
               links.size() > 1 ? to_string(links.back().kind) : "", "ratio");
  }
  print_all(
      kFigures, links, [](const BenchLink& link) { return link.turns; }, options.json);
  print_all(
      kIdleFigures, links, [](const BenchLink& link) { return std::vector{link.idle}; },
      options.json);
  return {};
}

}  // namespace

int bench_carriers(const BenchOptions& options) {
  std::vector<BenchLink> links;
  for (const auto kind : {io::CarrierKind::tcp, io::CarrierKind::ucx}) {
    if (!options.only.empty() && options.only != to_string(kind)) continue;
    links.push_back({.kind = kind});
  }
  if (links.empty()) {
    return complain(
        "bench carriers",
        {base::ErrorCode::usage,
         fmt::format("--only: there is no carrier '{}'; there are: tcp ucx", options.only)});
  }
  const base::Status done = run(links, options);
  for (BenchLink& link : links) {
    link.near.reset();  // so that the child sees the link end
    if (link.child > 0) ::waitpid(link.child, nullptr, 0);
  }
  return done ? 0 : complain("bench carriers", done.error());
}

}  // namespace starling::peers
