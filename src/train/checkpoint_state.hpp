// The state that goes with a checkpoint's tensors, and its file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "base/sample_counter.hpp"
#include "base/strong.hpp"

namespace starling::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// The state that goes with a checkpoint's tensors.
struct CheckpointState {
  base::Hash128 run;                    ///< run id
  base::StepNumber step;                ///< of this peer
  std::uint64_t optimizer_steps = 0;    ///< UpdateRule::steps
  std::uint64_t samples = 0;            ///< trained by this peer
  double progress = 0;                  ///< of the swarm, as far as this peer knew; finite
  std::optional<std::int8_t> weight{};  ///< of this peer in averages, where it was measured
  std::vector<base::SampleCounter>
      counters;  ///< of all peers, as far as this one knew; each peer once

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

/// The content of state.json.
struct StateFile {
  CheckpointState state;
  std::uint64_t model_hash = 0;      ///< XXH3 of kModelFile
  std::uint64_t optimizer_hash = 0;  ///< of kOptimizerFile
};

/// The file's text, which includes its own hash.
[[nodiscard]] std::string state_text(const StateFile& file);

/// Reads such a text; `path` stands in messages. Errors (ErrorCode::data): it is damaged, or of
/// another version.
[[nodiscard]] base::Result<StateFile> parse_state(std::string_view text, const std::string& path);

}  // namespace starling::train
