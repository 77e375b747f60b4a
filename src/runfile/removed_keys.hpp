// Keys that run files of earlier versions may have. Version 0.1 wrote all keys to a peer's folder.
#pragma once

#include <string_view>

namespace starling::runfile {

/// A key without a meaning.
struct RemovedKey {
  std::string_view name;  ///< "section.key"
  double by_default;      ///< the value that changes nothing; 0: false, too
  std::string_view hint;  ///< what holds in its place
};

inline constexpr RemovedKey kRemovedKeys[] = {
    {"exchange.start_fraction", 0.1, "densities are the same from the first step on"},
    {"exchange.start_factor", 1, "densities are the same from the first step on"},
    {"exchange.critical_drift", 0, "densities do not follow the drift: raise exchange.density"},
    {"exchange.settle_bits", 1, "settling always takes 1 bit a value"},
    {"exchange.stale", 0.25,
     "a peer adopts another's replica when it is a quarter of the run behind"},
    {"train.slow_every", 0, "links can have a momentum: exchange.momentum"},
    {"train.slow_momentum", 0.5, "links can have a momentum: exchange.momentum"},
    {"train.decay_all", 0, "biases and norms do not decay"},
};

inline const RemovedKey* removed_key(std::string_view name) {
  for (const RemovedKey& key : kRemovedKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace starling::runfile
