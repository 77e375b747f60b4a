#include "runtime/options.hpp"

#include <utility>

#include "io/address.hpp"
#include "io/port_mapping.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {
namespace {

using base::ErrorCode;
using base::fail;

base::Status check_address(const base::Result<io::HostPort>& parsed, ErrorCode code,
                           const char* place) {
  if (parsed) return {};
  return fail(code, "{}: {}", place, parsed.error().text);
}

/// Announced addresses are passed on as given, so they must be useful to others.
base::Status check_announced(const std::vector<std::string>& announced) {
  auto checked = check_targets(announced, ErrorCode::usage, "--announce");
  if (!checked) return checked;
  if (announced.size() > wire::kAddressesMax) {
    return fail(ErrorCode::usage, "--announce: at most {} addresses are told to others",
                wire::kAddressesMax);
  }
  for (const std::string& address : announced) {
    const auto number = io::numeric_address(io::parse_target(address).value());
    if (number && (number->ip.is_any() || (number->ip.is_v6() && number->ip.is_link_local()))) {
      return fail(ErrorCode::usage,
                  "--announce: {} leads nowhere from another machine; give the address or the name "
                  "that others dial",
                  address);
    }
  }
  return {};
}

}  // namespace

base::Status check_targets(const std::vector<std::string>& addresses, ErrorCode code,
                           const char* place) {
  for (const std::string& address : addresses) {
    auto checked = check_address(io::parse_target(address), code, place);
    if (!checked) return checked;
  }
  return {};
}

base::Status check(const Options& options) {
  auto checked = check_targets(options.join, ErrorCode::usage, "--join");
  if (checked) checked = check_announced(options.announce);
  if (checked) {
    checked = check_address(io::parse_address(options.listen), ErrorCode::usage, "--listen");
  }
  if (checked) checked = check_address(io::parse_address(options.http), ErrorCode::usage, "--http");
  return checked;
}

std::string choose_port_mapper(const Options& options, report::Log& log) {
  if (!options.port_mapping) return {};
  if (!options.port_mapper.empty()) return options.port_mapper;
  auto found = io::find_mapper();
  if (found) return std::move(*found);
  log.event(report::Level::info, "no_port_mapping",
            {{"text", std::string_view(found.error().text)}});
  return {};
}

}  // namespace starling::runtime
