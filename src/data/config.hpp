// What a run file says of its data.
#pragma once

#include <cstdint>
#include <string>

namespace starling::data {

enum class Split { iid, dirichlet };

struct Config {
  /// Name of a data set ("fashion-mnist", "mnist": IDX files in `path`).
  std::string source = "fashion-mnist";
  /// Folder of its files; empty: where Debian's package puts them.
  std::string path;
  Split split = Split::iid;
  double alpha = 1.0;  ///< dirichlet: concentration; smaller is more skewed
  /// Parts that move between peers as a whole. With S shards over P peers of equal weight a
  /// peer's share has a relative deviation of about sqrt((P - 1) / S): 5% for 4 peers.
  std::uint32_t shards = 1024;

  friend bool operator==(const Config&, const Config&) = default;
};

inline constexpr std::uint32_t kShardsMax = 1 << 16;

}  // namespace starling::data
