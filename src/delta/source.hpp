// A difference in this process's memory, from which deltas are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "delta/cut.hpp"
#include "delta/delta.hpp"
#include "delta/difference.hpp"
#include "delta/elements.hpp"

namespace starling::delta {

/// It never fails. Its memory grows to a few times the elements of a delta, and is reused for the
/// next difference.
class DifferenceSource final : public DeltaSource {
 public:
  DifferenceSource() = default;

  /// Reads this difference from now on; its vectors outlive its use.
  void read(const Difference& difference) {
    difference_ = difference;
    hold_.reset();
    is_held_ = false;
  }
  /// The same for base + offset: the first choose() holds the difference back, and code() releases
  /// the sent part.
  void read(const HoldBack& hold, const MirrorView& mirror) {
    read({.base = hold.base, .offset = hold.offset, .mirror = mirror});
    hold_ = hold;
  }
  /// After choose().
  [[nodiscard]] const Elements& chosen() const noexcept { return chosen_; }

  std::size_t size() const noexcept override { return difference_.size(); }
  base::Result<Choice> choose(const Choosing& which, std::span<std::uint32_t> gaps) override;
  /// `coded` is a HostDelta.
  base::Status code(const Coding& coding, base::Bytes& out, Delta& coded) override;

 private:
  std::uint32_t estimate_key(std::size_t sample, std::size_t rank);
  void look_at(std::size_t sample);
  void find(std::uint32_t key_min, std::size_t room);
  void choose_found(std::size_t count);
  Cut cut_of_found(std::size_t count);
  Cut cut_of_all(std::size_t count);
  void choose_all(Cut cut, std::size_t count);
  void release(const Elements& sent);
  template <class Use>
  void for_each_chunk(Use&& use);

  Difference difference_{{}, {}, std::span<const float>()};
  std::optional<HoldBack> hold_;
  bool is_held_ = false;
  // The found elements. The two vectors keep their size, so that they are filled with zeros only
  // when they grow; found_count_ places of both are used.
  std::vector<std::uint32_t> found_indices_;
  std::vector<float> found_values_;
  std::size_t found_count_ = 0;
  Elements chosen_;
  std::vector<float> sampled_;
  std::vector<std::uint32_t> keys_;
  std::vector<std::uint32_t> histogram_;
  std::vector<float> chunk_;
  std::vector<float> scales_;
  std::vector<std::uint8_t> codes_;
};

}  // namespace starling::delta
