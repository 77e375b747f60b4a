#include "runfile/invite.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ip.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace starling::runfile {
namespace {

constexpr std::string_view kOff = "/security=off";
/// Characters: four of these, the run and the rest fit in kInviteTextMax.
constexpr std::size_t kInviteAddressMax = 230;

base::Error wrong(std::string_view text, std::string_view what) {
  return {base::ErrorCode::usage,
          fmt::format(
              "'{}' is not an invite: {}; it is what `starling up` and `starling invite` print, "
              "like 192.0.2.7:7000/0123456789abcdef0123456789abcdef",
              base::printable(text, base::kShownMax), what)};
}

}  // namespace

bool may_be_in_invite(std::string_view address) noexcept {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || address.size() > kInviteAddressMax) return false;
  std::string_view host = address.substr(0, colon);
  const bool v6 = host.starts_with('[') && host.ends_with(']');
  if (v6) host = host.substr(1, host.size() - 2);
  if (host.empty() || v6 != (host.find(':') != std::string_view::npos)) return false;
  const auto is_of_host = [&](char c) {
    const bool digit = (c >= '0' && c <= '9') || c == '.';
    if (v6) return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':';
    return digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  const auto port = base::parse_number<std::uint16_t>(address.substr(colon + 1));
  return std::ranges::all_of(host, is_of_host) && port && *port > 0;
}

std::vector<std::string> addresses_to_invite(std::span<const std::string> own,
                                             std::span<const std::string> others) {
  const auto is_loopback = [](const std::string& address) {
    const auto number = base::parse_ip_port(address);
    return number && number->ip.is_loopback();
  };
  const auto is_v6 = [](const std::string& address) { return address.starts_with('['); };
  std::vector<std::string> named;
  const bool alone = std::ranges::all_of(own, is_loopback);
  const auto add = [&](const std::string& address) {
    const bool full = named.size() == kInviteAddressesMax;
    if (full || !may_be_in_invite(address) || (is_loopback(address) && !alone)) return;
    if (std::ranges::count(named, address) == 0) named.push_back(address);
  };
  if (!own.empty()) {
    add(own.front());
    const auto other = std::ranges::find_if(
        own, [&](const std::string& address) { return is_v6(address) != is_v6(own.front()); });
    if (other != own.end()) add(*other);
  }
  for (const std::string& address : others) add(address);
  for (const std::string& address : own) add(address);
  return named;
}

std::string to_string(const Invite& invite) {
  return fmt::format("{}/{}{}", fmt::join(invite.addresses, ","), invite.run.hex(),
                     invite.security == Security::off ? kOff : "");
}

base::Result<Invite> parse_invite(std::string_view text) {
  Invite invite;
  std::string_view rest = text;
  if (rest.ends_with(kOff)) {
    invite.security = Security::off;
    rest.remove_suffix(kOff.size());
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return base::fail(wrong(text, "it has no run behind a '/'"));
  const auto run = wire::RunId::parse(rest.substr(slash + 1));
  if (!run) return base::fail(wrong(text, "the run is not 32 hexadecimal digits"));
  invite.run = *run;
  for (std::string_view addresses = rest.substr(0, slash);;) {
    const std::size_t end = std::min(addresses.find(','), addresses.size());
    if (end == 0) return base::fail(wrong(text, "an address is missing"));
    if (invite.addresses.size() == kInviteAddressesMax) {
      return base::fail(wrong(text, fmt::format("it has over {} addresses", kInviteAddressesMax)));
    }
    const std::string_view address = addresses.substr(0, end);
    if (!may_be_in_invite(address)) {
      return base::fail(
          wrong(text, fmt::format("'{}' is not a host:port, as one:7000, 192.0.2.7:7000 or "
                                  "[2001:db8::7]:7000",
                                  base::printable(address, base::kShownMax))));
    }
    invite.addresses.emplace_back(address);
    if (end == addresses.size()) return invite;
    addresses.remove_prefix(end + 1);
  }
}

std::vector<NamedFile> named_files(const RunFile& run_file) {
  std::vector<NamedFile> files;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) files.push_back({key, value});
  };
  add("model.init", run_file.init);
  add("data.path", fmt::format("{}", fmt::join(run_file.data.path, ", ")));
  add("data.test_path", fmt::format("{}", fmt::join(run_file.data.test_path, ", ")));
  add("data.vocabulary", run_file.data.vocabulary);
  add("security.secret", run_file.secret);
  return files;
}

std::string shared_toml(RunFile run_file) {
  const RunFile defaults;
  run_file.train.device = defaults.train.device;
  run_file.train.threads = defaults.train.threads;
  run_file.swarm.join.clear();
  run_file.swarm.wait_for = defaults.swarm.wait_for;
  run_file.secret.clear();
  if (run_file.data.split == data::Split::private_data) {
    run_file.data.path.clear();
    run_file.data.test_path.clear();
  }
  const auto keep_name = [](std::string& path) {
    while (path.ends_with('/')) path.pop_back();
    path = path.substr(path.rfind('/') + 1);
  };
  for (std::string& path : run_file.data.path) keep_name(path);
  for (std::string& path : run_file.data.test_path) keep_name(path);
  keep_name(run_file.data.vocabulary);
  keep_name(run_file.init);
  run_file.links = defaults.links;
  run_file.limits = defaults.limits;
  run_file.relay = defaults.relay;
  run_file.exchange.upload_limit = defaults.exchange.upload_limit;
  run_file.exchange.cpu_share = defaults.exchange.cpu_share;
  return to_toml(run_file);
}

std::string invite_word(const std::string& invite) {
  return invite.find('[') == std::string::npos ? invite : shell_word(invite);
}

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string shared_settings(const RunFile& run_file, std::span<const std::string> set) {
  constexpr std::string_view kOfOneMachine[] = {
      "train.device",    "train.threads",         "swarm.join",        "swarm.wait_for",
      "security.secret", "exchange.upload_limit", "exchange.cpu_share"};
  const bool is_private = run_file.data.split == data::Split::private_data;
  std::string text;
  for (const std::string& setting : set) {
    const std::string_view key = std::string_view(setting).substr(0, setting.find('='));
    const auto of_one_machine = [&](std::string_view section) { return key.starts_with(section); };
    constexpr std::string_view kSections[] = {"limits.", "links.", "relay."};
    if (std::ranges::any_of(kSections, of_one_machine) ||
        std::ranges::count(kOfOneMachine, key) != 0) {
      continue;
    }
    if (is_private && (key == "data.path" || key == "data.test_path")) continue;
    text += " --set " + shell_word(setting);
  }
  return text;
}

}  // namespace starling::runfile
