// Names that lead where a test needs them: address.cpp replaces the C library's getaddrinfo.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace starling::io::test {

/// Numeric hosts, in the order in which the system finds them. Set it while no lookup runs.
inline std::map<std::string, std::vector<std::string>> fake_names;

}  // namespace starling::io::test
