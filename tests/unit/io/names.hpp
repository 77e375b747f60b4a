// Names that lead where a test wants: address.cpp puts a getaddrinfo in place of the C library's.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace starling::io::test {

/// Hosts in numbers, in the order in which the system finds them. Set while nobody asks.
inline std::map<std::string, std::vector<std::string>> fake_names;

}  // namespace starling::io::test
