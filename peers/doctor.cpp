// doctor: tests the needs of a peer for real: this machine, its links, and peers that it should
// reach.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "base/printable.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "data/dataset.hpp"
#include "doctor_nat.hpp"
#include "doctor_peer.hpp"
#include "findings.hpp"
#include "io/address.hpp"
#include "io/port_mapping.hpp"
#include "io/proxy.hpp"
#include "io/visit.hpp"
#include "report/format.hpp"
#include "runtime/needs.hpp"

namespace starling::peers {
namespace {

constexpr std::array kVerdictNames{"ok", "none", "WRONG"};

/// A peer keeps up to two hundred links for a moment, and files for logs, data and checkpoints.
constexpr rlim_t kFilesWanted = 1024;
/// Data sets of Debian's packages, which need no path.
constexpr std::array<std::string_view, 2> kPackagedSources{"fashion-mnist", "bible-kjv"};
/// Tokens of a sample, if a source is text: any number will do.
constexpr std::uint32_t kContext = 64;

class Doctor {
 public:
  explicit Doctor(const DoctorOptions& options) : options_(options) {}

  /// Error: an option that is invalid.
  base::Status examine() {
    const auto secret = io::Secret::load_if_any(options_.secret);
    if (!secret) return base::fail(secret.error());
    auto proxy = io::choose_proxy(options_.proxy);
    if (!proxy) return base::fail(proxy.error());
    const io::LinkSecurity security{options_.encrypted, *secret, std::move(*proxy)};
    if (auto listen = io::parse_address(options_.listen); !listen) {
      return base::fail(base::ErrorCode::usage, "--listen: {}", listen.error().text);
    }
    for (const std::string& address : options_.join) {
      if (auto join = io::parse_target(address); !join) {
        return base::fail(base::ErrorCode::usage, "--join: {}", join.error().text);
      }
    }
    Findings of_peer;
    if (options_.peer) {
      if (auto found = find_reach(*options_.peer, of_peer); !found) {
        return base::fail(base::ErrorCode::usage, "--peer: {}", found.error().text);
      }
    }
    machine();
    data();
    links(security);
    const std::vector<base::IpPort> mapped = router();
    if (security.proxy) {
      findings_.add("proxy", Verdict::good, "others are dialed by " + security.proxy->name());
    }
    find_nat(call_peers(security), mapped, findings_);
    for (const Finding& finding : of_peer.all()) findings_.add(finding);
    return {};
  }

  [[nodiscard]] const std::vector<Finding>& findings() const noexcept { return findings_.all(); }

 private:
  void machine() {
    findings_.add("processor", Verdict::good,
                  fmt::format("{} threads at a time", std::thread::hardware_concurrency()));
    if (const auto memory = runtime::available_memory()) {
      findings_.add("memory", Verdict::good, report::format_bytes(*memory) + " to spare");
    }
    const auto gpu = compute::open_device("cuda:0");
    findings_.add("GPU", gpu ? Verdict::good : Verdict::absent,
                  gpu ? gpu->about : gpu.error().text);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);  // a peer raises its limit to the maximum
    if (files.rlim_max < kFilesWanted) {
      findings_.wrong("open files", {base::ErrorCode::network,
                                     fmt::format("at most {}: raise the limit to {} (ulimit -Hn)",
                                                 files.rlim_max, kFilesWanted)});
    }
  }

  void data() {
    for (const std::string_view source : kPackagedSources) {
      data::Config config;
      config.source = source;
      const auto loaded = data::load(config, source == "bible-kjv" ? kContext : 0);
      findings_.add("data", loaded ? Verdict::good : Verdict::absent,
                    loaded ? fmt::format("{}: {} samples", source,
                                         report::format_count(loaded->train->size()))
                           : loaded.error().text);
    }
  }

  void links(const io::LinkSecurity& security) {
    const auto links = io::check_own_links(options_.listen, security);
    if (!links) return findings_.wrong("links", links.error());
    for (const io::OwnLink& link : *links) {
      if (!link.took) {
        findings_.wrong("links", {base::ErrorCode::network, link.took.error().text});
        continue;
      }
      findings_.add("links", Verdict::good,
                    fmt::format("to itself at {}, {}encrypted, within {:.0f} ms", link.address,
                                options_.encrypted ? "" : "not ", base::seconds(*link.took) * 1e3));
    }
    const auto lan = io::check_lan();
    findings_.add("network", lan ? Verdict::good : Verdict::absent,
                  lan ? "announcements of --lan come back" : lan.error().text);
  }

  /// The router's mappings.
  std::vector<base::IpPort> router() {
    if (!options_.port_mapping) return {};
    const auto mapped = io::check_port_mapping(options_.listen, io::kOwnProgram);
    if (!mapped) return {};  // it cannot listen, which was reported
    const bool lets_in = std::ranges::any_of(
        mapped->outer, [](const base::IpPort& outer) { return outer.ip.is_global(); });
    findings_.add("router", lets_in ? Verdict::good : Verdict::absent, mapped->text);
    return mapped->outer;
  }

  std::vector<io::Greeting> call_peers(const io::LinkSecurity& security) {
    std::vector<io::Greeting> greetings;
    if (options_.join.empty()) return greetings;
    const auto answers = io::greet(options_.join, security);
    if (!answers) {
      findings_.wrong("peer", answers.error());
      return greetings;
    }
    for (std::size_t i = 0; i < answers->size(); ++i) {
      const auto& greeting = (*answers)[i];
      if (!greeting) {
        findings_.wrong("peer", greeting.error());
        continue;
      }
      findings_.add("peer", Verdict::good,
                    fmt::format("{} is {} ({}), trains run {}, and answered within {:.0f} ms",
                                options_.join[i], base::printable(greeting->name, base::kShownMax),
                                greeting->id.brief(), greeting->run.hex(),
                                base::seconds(greeting->took) * 1e3));
      greetings.push_back(*greeting);
    }
    return greetings;
  }

  const DoctorOptions& options_;
  Findings findings_;
};

void print(const std::vector<Finding>& findings, bool json) {
  if (!json) {
    for (const Finding& finding : findings) {
      fmt::print("{:<6} {:<10} {}\n", kVerdictNames[static_cast<std::size_t>(finding.verdict)],
                 finding.what, finding.text);
    }
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"what", finding.what},
                    {"verdict", kVerdictNames[static_cast<std::size_t>(finding.verdict)]},
                    {"text", finding.text}});
  }
  fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  Doctor doctor(options);
  if (auto examined = doctor.examine(); !examined) return complain("doctor", examined.error());
  print(doctor.findings(), options.json);
  int code = 0;
  for (const Finding& finding : doctor.findings()) code = std::max(code, finding.exit_code);
  return code;
}

}  // namespace starling::peers
